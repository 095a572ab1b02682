package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
)

// unsizedOpener returns an Opener of files of size zero bytes and unknown size.
func unsizedOpener(size int64) openerFunc {
	return func(context.Context) (*exports.File, error) {
		return &exports.File{Body: io.NopCloser(io.LimitReader(zeros{}, size)), Size: -1}, nil
	}
}

// zeros yields zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestDownload_ResetsStalledClient speaks HTTP/1.0, where FIN ends the body.
func TestDownload_ResetsStalledClient(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{"/viewer/exports/download": exportBody("s"), "/viewer/exports/download-batch": batchBody("s")} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const idle = 1500 * time.Millisecond
			h := serveExport(t, unsizedOpener(30<<20))
			h.options.Limits.IdleTimeout = idle
			observed := make(chan httpapi.Observation, 1)
			h.options.Observe = func(_ context.Context, o httpapi.Observation) { observed <- o }
			server := httptest.NewUnstartedServer(httpapi.Handler(&h.options))
			server.Config.ConnContext = httpapi.ConnContext
			server.Start()
			t.Cleanup(server.Close)
			h.url = server.URL
			conn := h.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, h.rawKey, len(body), body)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			is.NoErr(err)
			is.Equal(response.StatusCode, 200)
			o := <-observed
			is.True(o.Aborted)
			is.True(o.Duration >= idle)
			_, err = io.Copy(io.Discard, response.Body)
			is.True(err != nil) // an aborted response does not end like a complete one
		})
	}
}

// smallBuffer is the size of a socket buffer that is soon full.
const smallBuffer = 8 << 10

// TestStall_EndsEveryConnection pipelines requests and reads no response, so that
// the client stalls at various points of a response, the last byte included.
func TestStall_EndsEveryConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.Limits.IdleTimeout = 300 * time.Millisecond })
	h.register("small", "small.pdf", strings.Repeat("x", 3000))
	h.register("large", "large.pdf", strings.Repeat("x", 300_000))
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	for range 3 {
		h.client("POST", "/symbol/folders/1/symbols", `{"name":"s","type":"a/b","data":"`+strings.Repeat("x", 200_000)+`"}`).want(201)
	}
	url, seen := serveWithTimeouts(t, httpapi.Handler(&h.options), func(server *http.Server) {
		server.WriteTimeout = time.Second
		server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			conn.(*net.TCPConn).SetWriteBuffer(smallBuffer)
			return ctx
		}
	})
	h.url = url
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/viewer/exports/download", exportBody("small")},
		{"POST", "/viewer/exports/download", exportBody("large")},
		{"POST", "/viewer/exports/download-batch", batchBody("small")},
		{"POST", "/viewer/exports/download-batch", batchBody("large", "small")},
		{"GET", "/symbol/folders/1/symbols", ""},
		{"GET", "/symbol/symbols/1", ""},
		{"GET", "/symbol/folders", ""},
		{"GET", "/symbol/folders/x", ""},
	} {
		conn := h.dial()
		conn.SetReadBuffer(smallBuffer)
		request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path, h.rawKey, len(c.body), c.body)
		go io.WriteString(conn, strings.Repeat(request, 1000))
	}
	// A connection in use is idle between two requests, but only briefly.
	for quiet, over := 0, time.Now().Add(testTimeout); quiet < 50; time.Sleep(10 * time.Millisecond) {
		quiet++
		if n := seen.count(http.StateActive); n > 0 {
			quiet = 0
			if time.Now().After(over) {
				t.Fatalf("%d connections are still active", n)
			}
		}
	}
	is.True(seen.count(http.StateClosed) >= 4)
}
