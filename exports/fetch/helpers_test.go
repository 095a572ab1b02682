package fetch_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is an Opener that can connect to nothing but loopback.
type client struct {
	*fetch.Opener
	mu      sync.Mutex
	dialled []string
}

func newOpener(t testing.TB, o fetch.Options) *fetch.Opener {
	t.Helper()
	opener, err := fetch.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return opener
}

// newClient returns a client. Without a resolver no name resolves.
func newClient(t testing.TB, o fetch.Options) *client {
	t.Helper()
	if o.Resolver == nil {
		o.Resolver = resolver(nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &client{Opener: newOpener(t, o)}
	c.SetInitialBackoff(time.Millisecond)
	c.InterceptDials(func(address string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dialled = append(c.dialled, address)
	})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// dials returns what was dialled since the last call.
func (c *client) dials() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	dialled := c.dialled
	c.dialled = nil
	return dialled
}

// open opens an address and closes the file when the test ends.
func (c *client) open(t testing.TB, address string) (*exports.File, error) {
	t.Helper()
	file, err := c.Open(t.Context(), parse(t, address))
	if err == nil {
		t.Cleanup(func() { file.Body.Close() })
	}
	return file, err
}

// read opens an address and reads all of it.
func (c *client) read(t testing.TB, address string) (string, error) {
	t.Helper()
	file, err := c.open(t, address)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(file.Body)
	return string(content), err
}

func parse(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// serve starts an origin.
func serve(t testing.TB, handler http.HandlerFunc) (address, host string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, strings.TrimPrefix(server.URL, "http://")
}

// serveRaw starts an origin that answers each request by hand, one for each
// connection. The number counts connections from 1.
func serveRaw(t testing.TB, answer func(conn net.Conn, request *http.Request, n int)) (address, host string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for n := 1; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				request, err := http.ReadRequest(bufio.NewReader(conn))
				if err == nil {
					answer(conn, request, n)
				}
			})
		}
	})
	t.Cleanup(conns.Wait)
	t.Cleanup(func() { listener.Close() })
	host = listener.Addr().String()
	return "http://" + host, host
}

// reset closes a connection so that the other side has an error and no end.
func reset(conn net.Conn) {
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// gone returns when the other side has closed the connection.
func gone(conn net.Conn) {
	io.Copy(io.Discard, conn)
}

// resolver answers from a table. A name with several answers has each in turn,
// the last for good; an answer is a list of addresses with spaces between.
func resolver(names map[string][]string) *net.Resolver {
	var mu sync.Mutex
	asked := make(map[dnsmessage.Question]int)
	answer := func(question dnsmessage.Question) []netip.Addr {
		mu.Lock()
		defer mu.Unlock()
		answers := names[strings.TrimSuffix(question.Name.String(), ".")]
		if len(answers) == 0 {
			return nil
		}
		n := min(asked[question], len(answers)-1)
		asked[question]++
		var addresses []netip.Addr
		for text := range strings.FieldsSeq(answers[n]) {
			ip := netip.MustParseAddr(text)
			if ip.Is4() == (question.Type == dnsmessage.TypeA) {
				addresses = append(addresses, ip)
			}
		}
		return addresses
	}
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			if names == nil {
				return nil, errors.New("there is no name server")
			}
			ours, theirs := net.Pipe()
			go func() {
				defer ours.Close()
				for answerDNS(ours, answer) == nil {
				}
			}()
			return theirs, nil
		},
	}
}

// answerDNS answers one query as over TCP (RFC 1035, section 4.2.2).
func answerDNS(conn net.Conn, answer func(dnsmessage.Question) []netip.Addr) error {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return err
	}
	m.Response, m.Additionals = true, nil
	for _, ip := range answer(m.Questions[0]) {
		var body dnsmessage.ResourceBody = &dnsmessage.AAAAResource{AAAA: ip.As16()}
		if ip.Is4() {
			body = &dnsmessage.AResource{A: ip.As4()}
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET},
			Body:   body,
		})
	}
	if len(m.Answers) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	reply, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
	return err
}

// receive waits for a second, the time within which an origin is let go.
func receive(t testing.TB, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Second):
		t.Fatal("not within a second")
	}
}

func debugLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
