package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

// hanging is some origins that begin an response and then hang for as long as
// they are listened to.
type hangingOrigins struct {
	addresses []string // of the origins
	begun     atomic.Int32
	ended     atomic.Int32 // because nobody listens any more
}

// newHangingOrigins starts origins whose path says how many bytes come before they
// hang; with -1 not even a header does.
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
			h.begun.Add(1)
			select {
			case <-r.Context().Done():
				h.ended.Add(1)
			case <-over.Done():
			}
		}))
		t.Cleanup(server.Close)
		h.addresses = append(h.addresses, server.URL)
	}
	t.Cleanup(end) // before the servers wait for their handlers
	return h
}

// until waits for a second, the time within which all is to be let go.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Second {
			t.Fatalf("not within a second: %s", what)
		}
	}
}

// TestExports_ClientDisconnects is not parallel: it counts what runs.
func TestExports_ClientDisconnects(t *testing.T) {
	const files, filesPerHost = 16, 6 // that a batch prefetches by default
	const answered = 3 << 20          // more than is read of a file before its entry begins
	for name, c := range map[string]struct {
		path  string
		first int // bytes of the first file that come
		rest  int // and of each of the others
		read  int64
		open  int32 // files that are open then
	}{
		"in the middle of a batch":                 {"/viewer/exports/download-batch", answered, 64 << 10, 2 << 20, files},
		"in the middle of a batch not yet begun":   {"/viewer/exports/download-batch", answered, -1, 2 << 20, files},
		"before a batch":                           {"/viewer/exports/download-batch", 64 << 10, 64 << 10, 0, files},
		"before a batch of which nothing has come": {"/viewer/exports/download-batch", -1, -1, 0, files},
		"in the middle of a file":                  {"/viewer/exports/download", answered, 0, 2 << 20, 1},
		"before a file":                            {"/viewer/exports/download", -1, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			origins := newHangingOrigins(t, (files+filesPerHost-1)/filesPerHost)
			opener, err := fetch.New(&fetch.Options{OnlyAllowed: true, AllowedHosts: []string{"127.0.0.1"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(opener.CloseIdleConnections)
			service := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}})
			var sources []string
			for i := range files {
				come := c.rest
				if i == 0 {
					come = c.first
				}
				source := fmt.Sprint("source ", i)
				address := fmt.Sprintf("%s/%d/%d.bin", origins.addresses[i%len(origins.addresses)], come, i)
				if _, _, err := service.Register(t.Context(), source, address, ""); err != nil {
					t.Fatal(err)
				}
				sources = append(sources, source)
			}
			h := serve(t, func(o *httpapi.Options) { o.Exports = service })
			client := &http.Client{Transport: &http.Transport{}}
			before := goleak.IgnoreCurrent()

			body := exportBody(sources[0])
			if strings.HasSuffix(c.path, "batch") {
				body = batchBody(sources...)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			request, err := http.NewRequestWithContext(ctx, "POST", h.url+c.path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("x-api-key", h.rawKey)
			result := make(chan error, 1)
			reached := make(chan struct{})
			go func() {
				response, err := client.Do(request)
				if err == nil {
					defer response.Body.Close()
					if c.read > 0 {
						_, err = io.CopyN(io.Discard, response.Body, c.read)
						close(reached)
					}
					if err == nil {
						_, err = io.Copy(io.Discard, response.Body)
					}
				}
				result <- err
			}()
			if c.read > 0 {
				select {
				case <-reached:
				case err := <-result:
					t.Fatalf("the response did not begin: %v", err)
				}
			}
			waitFor(t, "all files are asked for", func() bool { return origins.begun.Load() == c.open })
			if n := origins.ended.Load(); n > 0 {
				t.Fatalf("%d files have ended before the client has left", n)
			}

			leave()
			if err := <-result; err == nil {
				t.Error("the client had a whole response")
			}
			waitFor(t, "the origins are let go", func() bool { return origins.ended.Load() == c.open })
			if n := origins.begun.Load(); n != c.open {
				t.Errorf("%d files were asked for after the client had left", n-c.open)
			}
			goleak.VerifyNone(t, before) // while all servers are still up
			// A client that leaves is nobody's fault.
			log := h.log.String()
			if n := strings.Count(log, "level=WARN") + strings.Count(log, "level=ERROR"); n > 0 {
				t.Errorf("the log has %d warnings and errors: %.400s...", n, log)
			}
		})
	}
}
