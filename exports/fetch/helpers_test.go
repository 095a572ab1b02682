package fetch_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/storage/testflag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a parallel test on a simulated clock.
func bubble(t *testing.T, test func(t *testing.T, is *is.I)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, is.New(t)) })
}

// client is an Opener that connects to loopback only and records what it dials.
type client struct {
	*fetch.Opener
	url    string // of the origin server, if it was started with the client
	mu     sync.Mutex
	dialed []string
}

func newOpener(t testing.TB, o fetch.Options) *fetch.Opener {
	t.Helper()
	return must(fetch.New(&o))(t)
}

// newClient returns a client. Without a Resolver, every lookup fails.
func newClient(t testing.TB, o fetch.Options) *client {
	t.Helper()
	if o.Resolver == nil {
		o.Resolver = fakeResolver(nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &client{Opener: newOpener(t, o)}
	c.SetInitialBackoff(time.Millisecond)
	c.InterceptDials(func(address string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dialed = append(c.dialed, address)
	})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// dials returns the addresses dialed since the previous call.
func (c *client) dials() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	dialed := c.dialed
	c.dialed = nil
	return dialed
}

// open opens a file and closes it when the test ends.
func (c *client) open(t testing.TB, rawURL string) (*exports.File, error) {
	t.Helper()
	file, err := c.Open(t.Context(), parse(t, rawURL))
	if err == nil {
		t.Cleanup(func() { file.Body.Close() })
	}
	return file, err
}

func (c *client) read(t testing.TB, rawURL string) (string, error) {
	t.Helper()
	file, err := c.open(t, rawURL)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(file.Body)
	return string(content), err
}

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

func parse(t testing.TB, rawURL string) *url.URL {
	t.Helper()
	return must(url.Parse(rawURL))(t)
}

// startOrigin starts an origin server on loopback.
func startOrigin(t testing.TB, handler http.HandlerFunc) (baseURL, host string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, strings.TrimPrefix(server.URL, "http://")
}

// rawHandler writes the bytes of a response. It serves one request on each
// connection; n is the number of the connection, counted from 1.
type rawHandler func(conn net.Conn, request *http.Request, n int)

func (h rawHandler) serve(conn net.Conn, n int) {
	defer conn.Close()
	if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		h(conn, request, n)
	}
}

// startRawOrigin starts an origin server on loopback.
func startRawOrigin(t testing.TB, handler rawHandler) (baseURL, host string) {
	t.Helper()
	listener := must(net.Listen("tcp4", "127.0.0.1:0"))(t)
	var conns sync.WaitGroup
	conns.Go(func() {
		for n := 1; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { handler.serve(conn, n) })
		}
	})
	t.Cleanup(conns.Wait)
	t.Cleanup(func() { listener.Close() })
	host = listener.Addr().String()
	return "http://" + host, host
}

// newOriginClient returns a client of a new origin server.
func newOriginClient(t testing.TB, o fetch.Options, handler http.HandlerFunc) *client {
	t.Helper()
	baseURL, host := startOrigin(t, handler)
	return newClientOf(t, o, baseURL, host)
}

// newRawClient is newOriginClient for a rawHandler.
func newRawClient(t testing.TB, o fetch.Options, handler rawHandler) *client {
	t.Helper()
	baseURL, host := startRawOrigin(t, handler)
	return newClientOf(t, o, baseURL, host)
}

// newHeldClient returns a client of a new origin server, which sends the beginning of one
// response, waits until its connection is closed, and then closes the channel.
func newHeldClient(t testing.TB, o fetch.Options, head string) (c *client, closed chan struct{}) {
	t.Helper()
	closed = make(chan struct{})
	return newRawClient(t, o, func(conn net.Conn, _ *http.Request, _ int) {
		io.WriteString(conn, "HTTP/1.1 "+head)
		waitForClose(conn)
		close(closed)
	}), closed
}

func newClientOf(t testing.TB, o fetch.Options, baseURL, host string) *client {
	t.Helper()
	o.AllowedHosts = append(o.AllowedHosts, host)
	c := newClient(t, o)
	c.url = baseURL
	return c
}

// pipeURL is the URL of the only file of a pipe origin.
const pipeURL = "http://origin.example.test/"

// newPipeClient returns a client whose connections are in-memory pipes to an
// origin, so that it can run in a synctest bubble.
func newPipeClient(t testing.TB, o fetch.Options, handler rawHandler) *client {
	t.Helper()
	c := newClient(t, o)
	var conns atomic.Int32
	c.SetDial(func(context.Context, string, string) (net.Conn, error) {
		client, origin := net.Pipe()
		go handler.serve(origin, int(conns.Add(1)))
		return client, nil
	})
	return c
}

// resetConn closes a TCP connection with RST instead of FIN.
func resetConn(conn net.Conn) {
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

func waitForClose(conn net.Conn) {
	io.Copy(io.Discard, conn)
}

// fakeResolver resolves the names of a table. The n-th lookup of a name returns
// the n-th of its responses, or the last one; a response is a list of IP
// addresses separated by spaces.
func fakeResolver(names map[string][]string) *net.Resolver {
	var mu sync.Mutex
	lookups := make(map[dnsmessage.Question]int)
	lookup := func(question dnsmessage.Question) []netip.Addr {
		mu.Lock()
		defer mu.Unlock()
		responses := names[strings.TrimSuffix(question.Name.String(), ".")]
		if len(responses) == 0 {
			return nil
		}
		n := min(lookups[question], len(responses)-1)
		lookups[question]++
		var ips []netip.Addr
		for text := range strings.FieldsSeq(responses[n]) {
			ip := netip.MustParseAddr(text)
			if ip.Is4() == (question.Type == dnsmessage.TypeA) {
				ips = append(ips, ip)
			}
		}
		return ips
	}
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			if names == nil {
				return nil, errors.New("no name server")
			}
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				for serveDNS(server, lookup) == nil {
				}
			}()
			return client, nil
		},
	}
}

// serveDNS responds to one query in TCP framing (RFC 1035, section 4.2.2).
func serveDNS(conn net.Conn, lookup func(dnsmessage.Question) []netip.Addr) error {
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
	for _, ip := range lookup(m.Questions[0]) {
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
	response, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(response))), response...))
	return err
}

// receive waits for an origin to notice that its connection is closed.
func receive(t testing.TB, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("connection is still open after a minute")
	}
}

func debugLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
