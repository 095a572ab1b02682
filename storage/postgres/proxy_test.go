package postgres_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// cut is where a connection is cut around a statement.
type cut int

const (
	uncut     cut = iota
	unsent        // before the statement is passed on
	unwaited      // when it is passed on
	unsettled     // when the answer has come, which is not passed on
)

func (c cut) String() string { return [...]string{"uncut", "unsent", "unwaited", "unsettled"}[c] }

// proxy stands between clients and a server, and cuts one connection when told.
type proxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu    sync.Mutex
	at    cut
	of    func(statement string) bool
	done  chan struct{} // closed when the connection is cut
	conns map[net.Conn]bool
}

// newProxy returns a proxy and the data source name to go through it.
func newProxy(t testing.TB, dsn string) (*proxy, string) {
	t.Helper()
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, server: address.Host, conns: make(map[net.Conn]bool)}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		for conn := range p.conns {
			conn.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	address.Host = listener.Addr().String()
	return p, address.String()
}

// cutNext has the connection cut around the next statement that is of the kind,
// and returns a channel that is closed then.
func (p *proxy) cutNext(at cut, of func(statement string) bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.of, p.done = at, of, make(chan struct{})
	return p.done
}

// turn reports where to cut the connection around a statement.
func (p *proxy) turn(statement string) cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == uncut || !p.of(statement) {
		return uncut
	}
	at := p.at
	p.at = uncut
	return at
}

// track remembers a connection for the end.
func (p *proxy) track(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.track(client)
		p.track(server)
		l := &link{proxy: p, client: client, server: server, prepared: make(map[string]string)}
		p.running.Go(l.up)
		p.running.Go(l.down)
	}
}

// link is one connection through the proxy.
type link struct {
	*proxy
	client, server net.Conn

	prepared map[string]string // statements by name
	bound    string            // the statement to be run next

	mu      sync.Mutex
	swallow bool // the next answer
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// cut closes the connection for the one who waits for that.
func (l *link) cut() {
	l.close()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	close(l.done)
}

// down passes on what the server says.
func (l *link) down() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		l.mu.Lock()
		swallow := l.swallow
		l.mu.Unlock()
		if swallow {
			l.cut()
			return
		}
		if err != nil {
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// up passes on what the client says, one message after the other. The first one
// has no type.
func (l *link) up() {
	header := 4
	for {
		message, err := readMessage(l.client, header)
		if err != nil {
			l.close()
			return
		}
		at := uncut
		if header == 5 {
			at = l.look(message[0], message[5:])
		}
		header = 5
		if at == unsettled {
			l.mu.Lock()
			l.swallow = true
			l.mu.Unlock()
		}
		if at != unsent {
			l.server.Write(message) // an error is met in the answer
		}
		if at == unsent || at == unwaited {
			l.cut()
			return
		}
	}
}

// readMessage reads a message with its header, which ends with its length.
func readMessage(from io.Reader, header int) ([]byte, error) {
	message := make([]byte, header)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(message[header-4:])) - 4
	message = append(message, make([]byte, length)...)
	_, err := io.ReadFull(from, message[header:])
	return message, err
}

// look follows the statements of the client, and says where to cut when one is
// about to be carried out.
func (l *link) look(kind byte, body []byte) cut {
	text := func() string {
		text, rest, _ := bytes.Cut(body, []byte{0})
		body = rest
		return string(text)
	}
	switch kind {
	case 'Q': // a statement in itself
		return l.turn(text())
	case 'P': // name and text of a prepared statement
		name := text()
		l.prepared[name] = text()
	case 'B': // portal and name
		text()
		l.bound = l.prepared[text()]
	case 'S': // the end of what is to be done
		if l.bound != "" {
			bound := l.bound
			l.bound = ""
			return l.turn(bound)
		}
	}
	return uncut
}
