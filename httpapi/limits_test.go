package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/httpapi"
)

// testTimeout is how long anything here may take on a machine that has other
// things to do. What the limits forbid would last for ever.
const testTimeout = 30 * time.Second

// states keeps the state of each connection of a server.
type connStates struct {
	mu  sync.Mutex
	all map[net.Conn]http.ConnState
}

func (s *connStates) note(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[net.Conn]http.ConnState)
	}
	s.all[conn] = state
}

// count returns how many connections have the state.
func (s *connStates) count(state http.ConnState) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.all {
		if other == state {
			n++
		}
	}
	return n
}

// limited starts a server with short limits and says in which states its
// connections are.
func serveWithTimeouts(t *testing.T, handler http.Handler, change ...func(*http.Server)) (string, *connStates) {
	t.Helper()
	seen := new(connStates)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ReadHeaderTimeout = 2 * time.Second
	server.Config.ReadTimeout = 3 * time.Second
	server.Config.WriteTimeout = 10 * time.Second // which begins with the header
	server.Config.IdleTimeout = 4 * time.Second
	server.Config.MaxHeaderBytes = 8 << 10
	for _, f := range change {
		f(server.Config)
	}
	server.Config.ConnState = seen.note
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, seen
}

// TestLimits holds every route to the limits of the server and of the options.
func TestLimits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *httpapi.Options) {
		o.BodyLimit, o.SymbolLimit, o.BatchLimit, o.ImportLimit = 1000, 2000, 3000, 2500
	})
	h.url, _ = serveWithTimeouts(t, httpapi.Handler(h.options))
	var all sync.WaitGroup
	defer all.Wait()
	for _, route := range httpapi.Routes(h.options) {
		path := strings.ReplaceAll(route.Path, "{id}", "77") // which is not there
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nX-Admin-Key: %s\r\n", route.Method, path, h.rawKey, adminKey)
		stranger := strings.NewReplacer(h.rawKey, "x", adminKey, "x").Replace(head)
		refused, tooMuch := http.StatusUnauthorized, http.StatusRequestEntityTooLarge
		if route.Key == "" {
			refused = fine
		}
		chunksTooMuch := tooMuch
		if route.Method == "GET" || route.Method == "DELETE" || strings.HasSuffix(path, "/rotate") {
			chunksTooMuch = fine // nobody reads them
		}
		length := func(n int64) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n", n) }
		const chunked = "Transfer-Encoding: chunked\r\n\r\n"
		for name, c := range map[string]struct {
			request string
			slowly  string // sent byte by byte behind it
			status  int
		}{
			"a long header":                         {head + "X-Long: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "", 431},
			"many headers":                          {head + strings.Repeat("X-Many: x\r\n", 6000) + "\r\n", "", 431},
			"a long target":                         {strings.Replace(head, path, path+"?"+strings.Repeat("x", 64<<10), 1) + "\r\n", "", 431},
			"a header that never ends":              {head, strings.Repeat("X-Slow: x\r\n", 1000), ended},
			"a length at the limit":                 {head + length(route.Limit) + strings.Repeat("x", int(route.Limit)), "", fine},
			"a length over the limit":               {head + length(route.Limit+1), "", tooMuch},
			"chunks over the limit":                 {head + chunked + strings.Repeat("400\r\n"+strings.Repeat(" ", 1024)+"\r\n", 4) + "0\r\n\r\n", "", chunksTooMuch},
			"a body that never ends":                {head + length(1000), strings.Repeat("x", 1000), fine},
			"chunks that never end":                 {head + chunked, strings.Repeat("1\r\nx\r\n", 1000), fine},
			"a body that never ends, of a stranger": {stranger + length(1000), strings.Repeat("x", 1000), refused},
		} {
			all.Go(func() {
				began := time.Now()
				got := h.sendSlowly(c.request, c.slowly)
				good := got == c.status
				switch c.status {
				case fine:
					good = 200 <= got && got < 500 && got != tooMuch
				case ended:
					good = got == ended || got == 400 // by the server itself
				case http.StatusRequestHeaderFieldsTooLarge:
					good = good || got == ended // the server closes with input unread, and the response may be lost
				}
				if took := time.Since(began); !good || took > testTimeout {
					t.Errorf("%s %s with %s: %d after %s, want %d", route.Method, route.Path, name, got, took, c.status)
				}
			})
		}
	}
}

const (
	fine    = 0  // any status but those of a server in trouble and of too much
	ended   = -1 // the connection is closed without an response
	nothing = -2
)

// feed writes a request and then the rest of it, a byte each 20 milliseconds,
// for as long as the server lets it. It returns the status of the response,
// ended or nothing.
func (h *harness) sendSlowly(request, slowly string) int {
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.t.Error(err)
		return nothing
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * testTimeout))
	answered := make(chan int, 1)
	go func() {
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			answered <- nothing
		case err != nil:
			answered <- ended
		default:
			io.Copy(io.Discard, response.Body)
			answered <- response.StatusCode
		}
	}()
	if _, err := io.WriteString(conn, request); err != nil {
		return <-answered // the response came before the request was through
	}
	for i := range len(slowly) {
		select {
		case status := <-answered:
			return status
		case <-time.After(20 * time.Millisecond):
			io.WriteString(conn, slowly[i:i+1])
		}
	}
	return <-answered
}
