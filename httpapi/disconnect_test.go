package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
)

// hangingOrigins are origin servers that hang within the response until the client
// disconnects.
type hangingOrigins struct {
	urls     []string
	started  atomic.Int32 // requests
	canceled atomic.Int32 // requests, by their client
}

// newHangingOrigins starts servers that hang after as many bytes as the path says,
// or before the header if it says -1.
func newHangingOrigins(t *testing.T, origins int) *hangingOrigins {
	h := &hangingOrigins{}
	over, end := context.WithCancel(context.Background())
	for range origins {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			const size = 8 << 20
			var n int
			if _, err := fmt.Sscanf(r.URL.Path, "/%d/", &n); err != nil {
				t.Errorf("%s: %v", r.URL.Path, err)
			}
			if n >= 0 {
				w.Header().Set("Content-Length", fmt.Sprint(size))
				w.Write(make([]byte, n))
				http.NewResponseController(w).Flush()
			}
			h.started.Add(1)
			select {
			case <-r.Context().Done():
				h.canceled.Add(1)
			case <-over.Done():
			}
		}))
		t.Cleanup(server.Close)
		h.urls = append(h.urls, server.URL)
	}
	t.Cleanup(end) // before the servers close, which waits for their handlers
	return h
}

// TestExports_ClientThatResetsIsNoError has a file that the kernel copies, which notices a reset
// before net/http does.
func TestExports_ClientThatResetsIsNoError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	l := serveLinks(t, exports.Options{}, func(o *httpapi.Options) { o.Observe = seen.observe })
	l.add("a", strings.Repeat(largeContent, 10))
	body := exportBody("a")
	for i := range 50 {
		conn := l.startBody("/viewer/exports/download", l.rawKey, len(body), body)
		_, err := io.ReadFull(conn, make([]byte, 4<<20))
		is.NoErr(err)
		is.NoErr(conn.(*net.TCPConn).SetLinger(0))
		is.NoErr(conn.Close())
		got := seen.last(t, i+2) // after the registration
		is.True(got.Aborted)
		is.Equal(got.Error, "")
	}
}

// TestExports_ClientDisconnects is not parallel: it counts goroutines.
func TestExports_ClientDisconnects(t *testing.T) {
	const files, filesPerHost = 16, 6 // that a batch prefetches by default
	const started = 3 << 20           // bytes, more than any prefetch
	for name, c := range map[string]struct {
		path  string
		first int // bytes of the first file before it hangs
		rest  int // bytes of each other file
		read  int64
		open  int32 // files
	}{
		"within a batch":                 {"/viewer/exports/download-batch", started, 64 << 10, 2 << 20, files},
		"within a batch, others hanging": {"/viewer/exports/download-batch", started, -1, 2 << 20, files},
		"before a batch":                 {"/viewer/exports/download-batch", 64 << 10, 64 << 10, 0, files},
		"before a batch, all hanging":    {"/viewer/exports/download-batch", -1, -1, 0, files},
		"within a file":                  {"/viewer/exports/download", started, 0, 2 << 20, 1},
		"before a file":                  {"/viewer/exports/download", -1, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			origins := newHangingOrigins(t, (files+filesPerHost-1)/filesPerHost)
			opener := must(fetch.New(&fetch.Options{OnlyAllowed: true, AllowedHosts: []string{"127.0.0.1"}}))(t)
			t.Cleanup(opener.CloseIdleConnections)
			h := serve(t, withOpener(opener))
			var sources []string
			for i := range files {
				length := c.rest
				if i == 0 {
					length = c.first
				}
				source := fmt.Sprint("source ", i)
				u := fmt.Sprintf("%s/%d/%d.bin", origins.urls[i%len(origins.urls)], length, i)
				h.export(source, u)
				sources = append(sources, source)
			}
			before := goleak.IgnoreCurrent()

			body := exportBody(sources[0])
			if strings.HasSuffix(c.path, "batch") {
				body = batchBody(sources...)
			}
			conn := h.startBody(c.path, h.rawKey, len(body), body)
			_, err := io.ReadFull(conn, make([]byte, c.read))
			is.NoErr(err)
			eventually(t, func() bool { return origins.started.Load() == c.open }) // all files are requested
			is.Equal(origins.canceled.Load(), int32(0))

			is.NoErr(conn.Close())
			eventually(t, func() bool { return origins.canceled.Load() == c.open }) // all requests are canceled
			is.Equal(origins.started.Load(), c.open)                                // none after the client disconnected
			goleak.VerifyNone(t, before)                                            // before the servers close
			// A disconnecting client is not an error.
			log := h.log.String()
			t.Logf("%.400s", log)
			is.Equal(strings.Count(log, "level=WARN")+strings.Count(log, "level=ERROR"), 0)
		})
	}
}
