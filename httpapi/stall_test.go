package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
)

// unsizedOpener returns an Opener of files of size zero bytes and unknown size.
func unsizedOpener(size int64) openerFunc {
	return func(context.Context, *url.URL) (*exports.File, error) {
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
			h.listen(httpapi.Handler(&h.options), func(server *httptest.Server) {
				server.Config.ConnContext = httpapi.ConnContext
			})
			conn := h.dial()
			fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, h.rawKey, len(body), body)
			response := receive(t, conn, 200)
			o := <-observed
			is.True(o.Aborted)
			is.True(o.Duration >= idle)
			_, err := io.Copy(io.Discard, response.Body)
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
	h := serve(t, func(o *httpapi.Options) { o.Limits.IdleTimeout = 300 * time.Millisecond })
	h.register("small", "small.pdf", strings.Repeat("x", 3000))
	h.register("large", "large.pdf", strings.Repeat("x", 300_000))
	createFolder(t, h.options.Symbols, "A", 3, 200_000)
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
	is.New(t).True(seen.count(http.StateClosed) >= 4)
}

// TestDownloads_AreLimitedForEachClient has downloads whose clients do not read, by each
// route and by a link.
func TestDownloads_AreLimitedForEachClient(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveExport(t, unsizedOpener(100<<20), func(o *httpapi.Options) { o.Limits.Downloads = 3 })
	l := &linkHarness{harness: h}
	_, link := l.create(exportBody("s"))
	other := h.keyOf("")

	requests := [...]struct{ method, path, body string }{
		{"POST", "/viewer/exports/download", exportBody("s")},
		{"POST", "/viewer/exports/download-batch", batchBody("s")},
		{"GET", link, ""},
	}
	open := func(key string, kind, status int) *http.Response {
		r := requests[kind]
		response := h.open(r.method, r.path, r.body, "x-api-key", key)
		is.Equal(response.StatusCode, status)
		return response
	}
	var running []*http.Response
	for kind := range requests {
		running = append(running, open(h.rawKey, kind, 200))
	}
	for kind := range requests {
		response := open(h.rawKey, kind, 429)
		is.Equal(response.Header.Get("Retry-After"), "1")
		is.NoErr(response.Body.Close())
	}
	h.client("POST", "/viewer/exports/links", exportBody("s")).wantError(429, "too_many_requests")
	h.client("GET", "/symbol/folders", "").want(200)
	is.NoErr(open(other, 0, 200).Body.Close())
	is.NoErr(open(other, 2, 429).Body.Close()) // counts for the key of the link

	is.NoErr(running[0].Body.Close())
	eventually(t, func() bool {
		response := h.open("POST", "/viewer/exports/download", exportBody("s"))
		response.Body.Close()
		return response.StatusCode == 200
	})
}

func TestDownloads_TokensAreClients(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveExport(t, unsizedOpener(100<<20), func(o *httpapi.Options) { o.Limits.Downloads = 1 })
	open := func(key string) int {
		return h.open("POST", "/viewer/exports/download", exportBody("s"), "x-api-key", key).StatusCode
	}
	for i := range 16 {
		token := h.token(fmt.Sprintf(`{"expiresInSeconds":%d}`, 100+i))
		is.Equal([]int{open(token), open(token)}, []int{200, 429})
	}
	is.Equal(open(h.token(`{"expiresInSeconds":200}`)), 429) // the seventeenth
	is.Equal([]int{open(h.rawKey), open(h.rawKey)}, []int{200, 429})
}

func TestDownloads_OfClientIPsAreLimited(t *testing.T) {
	t.Parallel()
	h := serveExport(t, unsizedOpener(100<<20), func(o *httpapi.Options) {
		o.Limits.Downloads, o.DangerouslySkipClientKeys = 1, true
		o.ClientIP = func(r *http.Request) string { return r.Header.Get("X-Client") }
	})
	status := func(ip string) int {
		return h.open("POST", "/viewer/exports/download", exportBody("s"), "X-Client", ip).StatusCode
	}
	got := []int{status("192.0.2.1"), status("192.0.2.1"), status("192.0.2.2"), status(strings.Repeat("x", 2000))}
	is.New(t).Equal(got, []int{200, 429, 200, 200})
}

// TestDownloads_ClientThatDoesNotWaitIsSlowedDown sends requests on one connection without
// waiting as Retry-After says.
func TestDownloads_ClientThatDoesNotWaitIsSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		h := newHarness(t, func(o *httpapi.Options) {
			o.Authorize = func(r *http.Request, _ keys.Key, _ string) error {
				if r.Header.Get("X-Refused") == "" {
					return nil
				}
				return &httpapi.DeniedError{RetryAfter: 2 * time.Second}
			}
		})
		conn := servePipe(t, httpapi.Handler(&h.options)).dial()
		defer conn.Close()
		responses := bufio.NewReader(conn)
		send := func(header string) (status int, took time.Duration) {
			start := time.Now()
			fmt.Fprintf(conn, "GET /symbol/folders HTTP/1.1\r\nHost: x\r\n%sX-Api-Key: %s\r\n\r\n", header, h.rawKey)
			response := must(http.ReadResponse(responses, nil))(t)
			io.Copy(io.Discard, response.Body)
			return response.StatusCode, time.Since(start)
		}
		for i := range 10 {
			status, took := send("X-Refused: yes\r\n")
			is.Equal(status, 429)
			is.Equal(took, [10]time.Duration{3: 2 * time.Second, 7: 2 * time.Second}[i]) // three of each second are not delayed
			status, took = send("")
			is.Equal(status, 200)
			is.Equal(took, time.Duration(0))
		}
	})
}

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
		must(io.ReadFull(conn, make([]byte, 4<<20)))(t)
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
			must(io.ReadFull(conn, make([]byte, c.read)))(t)
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
