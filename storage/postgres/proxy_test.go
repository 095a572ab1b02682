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

// dropPoint is when the proxy drops a connection, relative to a statement.
type dropPoint int

const (
	noDrop dropPoint = iota
	beforeRequest
	afterRequest  // at once, so the response may or may not arrive
	afterResponse // the response has arrived at the proxy, but is not forwarded
)

func (d dropPoint) String() string {
	return [...]string{"no drop", "before request", "after request", "after response"}[d]
}

// proxy forwards connections to a server, and drops one on demand.
type proxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu      sync.Mutex
	at      dropPoint
	matches func(statement string) bool
	dropped chan struct{} // closed when the connection is dropped
	conns   map[net.Conn]bool
}

// newProxy returns a proxy and the URL of the database through the proxy.
func newProxy(t testing.TB, dsn string) (*proxy, string) {
	t.Helper()
	through := must(url.Parse(dsn))(t)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{listener: listener, server: through.Host, conns: make(map[net.Conn]bool)}
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
	through.Host = listener.Addr().String()
	return p, through.String()
}

// dropNext makes the proxy drop the connection of the next statement that
// matches. It returns a channel that is closed when that has happened.
func (p *proxy) dropNext(at dropPoint, matches func(statement string) bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.matches, p.dropped = at, matches, make(chan struct{})
	return p.dropped
}

// takeDrop returns when to drop the connection of a statement, and disarms the
// proxy.
func (p *proxy) takeDrop(statement string) dropPoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == noDrop || !p.matches(statement) {
		return noDrop
	}
	at := p.at
	p.at = noDrop
	return at
}

// track registers a connection to be closed at the end of the test.
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
		p.running.Go(l.forwardRequests)
		p.running.Go(l.forwardResponses)
	}
}

// link is one connection through the proxy.
type link struct {
	*proxy
	client, server net.Conn

	prepared map[string]string // statements by name
	bound    string            // the last one to be executed

	mu           sync.Mutex
	dropResponse bool
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// drop closes the connection and reports it to the caller of dropNext.
func (l *link) drop() {
	l.close()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	close(l.dropped)
}

func (l *link) forwardResponses() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		l.mu.Lock()
		dropResponse := l.dropResponse
		l.mu.Unlock()
		if dropResponse {
			l.drop()
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

// forwardRequests forwards one message at a time. The first one has no type
// byte, so its header has four bytes instead of five.
func (l *link) forwardRequests() {
	header := 4
	for {
		message, err := readMessage(l.client, header)
		if err != nil {
			l.close()
			return
		}
		at := noDrop
		if header == 5 {
			at = l.inspect(message[0], message[5:])
		}
		header = 5
		if at == afterResponse {
			l.mu.Lock()
			l.dropResponse = true
			l.mu.Unlock()
		}
		if at != beforeRequest {
			l.server.Write(message) // the next Read of the server returns the error too
		}
		if at == beforeRequest || at == afterRequest {
			l.drop()
			return
		}
	}
}

// readMessage reads a message including its header, which ends with the length.
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

// inspect keeps track of prepared statements. If a message executes a statement,
// it returns when to drop the connection.
func (l *link) inspect(kind byte, body []byte) dropPoint {
	text := func() string {
		text, rest, _ := bytes.Cut(body, []byte{0})
		body = rest
		return string(text)
	}
	switch kind {
	case 'Q': // Query: a statement
		return l.takeDrop(text())
	case 'P': // Parse: name and text of a prepared statement
		name := text()
		l.prepared[name] = text()
	case 'B': // Bind: portal and name of a prepared statement
		text()
		l.bound = l.prepared[text()]
	case 'E', 'S': // Execute, which commits a transaction, and Sync, which commits a statement outside one
		if l.bound != "" && (kind == 'S') != isCommit(l.bound) {
			bound := l.bound
			l.bound = ""
			return l.takeDrop(bound)
		}
	}
	return noDrop
}
