package httpapi_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/httpapi"
)

// states keeps the state of each connection of a server.
type states struct {
	mu  sync.Mutex
	all map[net.Conn]http.ConnState
}

func (s *states) note(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[net.Conn]http.ConnState)
	}
	s.all[conn] = state
}

// count returns how many connections have the state.
func (s *states) count(state http.ConnState) (n int) {
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
func limited(t *testing.T, handler http.Handler, change ...func(*http.Server)) (string, *states) {
	t.Helper()
	seen := new(states)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ReadHeaderTimeout = 500 * time.Millisecond
	server.Config.ReadTimeout = time.Second
	server.Config.WriteTimeout = time.Second
	server.Config.IdleTimeout = 2 * time.Second
	server.Config.MaxHeaderBytes = 8 << 10
	for _, f := range change {
		f(server.Config)
	}
	server.Config.ConnState = seen.note
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, seen
}

// TestStandstill_endsEveryConnection sends requests one behind the other and
// reads no answer, so that at some point of some answer, be it the last byte,
// nothing goes on.
func TestStandstill_endsEveryConnection(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *httpapi.Options) { o.IdleTimeout = 300 * time.Millisecond })
	var seen *states
	h.url, seen = limited(t, httpapi.Handler(h.options))
	h.register("small", "small.pdf", strings.Repeat("x", 3000))
	h.register("large", "large.pdf", strings.Repeat("x", 300_000))
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	for range 3 {
		h.client("POST", "/symbol/folders/1/symbols", `{"name":"s","type":"a/b","data":"`+strings.Repeat("x", 200_000)+`"}`).want(201)
	}
	var standing sync.WaitGroup
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/viewer/exports/download", single("small")},
		{"POST", "/viewer/exports/download", single("large")},
		{"POST", "/viewer/exports/download-batch", batch("small")},
		{"POST", "/viewer/exports/download-batch", batch("large", "small")},
		{"GET", "/symbol/folders/1/symbols", ""},
		{"GET", "/symbol/symbols/1", ""},
		{"GET", "/symbol/folders", ""},
		{"GET", "/symbol/folders/x", ""},
	} {
		conn := h.dial()
		standing.Go(func() {
			request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path, h.raw, len(c.body), c.body)
			for {
				if _, err := io.WriteString(conn, request); err != nil {
					return // the server has ended the connection
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { standing.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Fatalf("%d connections are still served", seen.count(http.StateActive))
	}
}
