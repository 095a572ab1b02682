package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/httpapi"
)

// smallBuffer is what a socket may hold, so that it is soon full.
const smallBuffer = 8 << 10

// TestStandstill_endsEveryConnection sends requests one behind the other and
// reads no answer, so that at some point of some answer, be it the last byte,
// nothing goes on.
func TestStandstill_endsEveryConnection(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *httpapi.Options) { o.IdleTimeout = 300 * time.Millisecond })
	var seen *states
	h.url, seen = limited(t, httpapi.Handler(h.options), func(server *http.Server) {
		server.WriteTimeout = time.Second
		server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			conn.(*net.TCPConn).SetWriteBuffer(smallBuffer)
			return ctx
		}
	})
	h.register("small", "small.pdf", strings.Repeat("x", 3000))
	h.register("large", "large.pdf", strings.Repeat("x", 300_000))
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	for range 3 {
		h.client("POST", "/symbol/folders/1/symbols", `{"name":"s","type":"a/b","data":"`+strings.Repeat("x", 200_000)+`"}`).want(201)
	}
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
		conn.SetReadBuffer(smallBuffer)
		request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path, h.raw, len(c.body), c.body)
		go io.WriteString(conn, strings.Repeat(request, 1000))
	}
	// A connection that is served is idle between two requests, but not for long.
	for quiet, over := 0, time.Now().Add(15*time.Second); quiet < 50; time.Sleep(10 * time.Millisecond) {
		quiet++
		if n := seen.count(http.StateActive); n > 0 {
			quiet = 0
			if time.Now().After(over) {
				t.Fatalf("%d connections are still served", n)
			}
		}
	}
	if n := seen.count(http.StateClosed); n < 4 {
		t.Errorf("%d connections have been ended, and the others were served to the end", n)
	}
}
