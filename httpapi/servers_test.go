package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
)

// otherServerContext is the context of a request to a server that is not of package
// net/http.
type otherServerContext struct{ context.Context }

func (c otherServerContext) Value(key any) any {
	if key == http.ServerContextKey {
		return nil
	}
	return c.Context.Value(key)
}

// TestAbort_OtherServer downloads from servers on which a panic would end the
// process.
func TestAbort_OtherServer(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{-1, 3 << 20} {
		h := newHarness(t, withOpener(truncatedOpener{size: size, length: 2 << 20}))
		h.export("s", "https://x.example/")
		api := httpapi.Handler(&h.options)
		noPanic := func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if reason := recover(); reason != nil {
					t.Errorf("panic: %v", reason)
				}
			}()
			api.ServeHTTP(w, r.WithContext(otherServerContext{r.Context()}))
		}
		h.listen(http.HandlerFunc(noPanic))
		h.wantTruncated("POST", "/viewer/exports/download", exportBody("s"))
		h.wantTruncated("POST", "/viewer/exports/download-batch", batchBody("s", "s"))
		h.client("GET", "/symbol/folders", "").want(200)
	}
}

// TestTimeoutHandler_WarnsOnce downloads through http.TimeoutHandler, which holds
// responses in memory, and without it.
func TestTimeoutHandler_WarnsOnce(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]func(http.Handler) http.Handler{
		"none":           func(h http.Handler) http.Handler { return h },
		"TimeoutHandler": func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			h := newHarness(t)
			h.listen(mount(httpapi.Handler(&h.options)))
			h.register("s", "a.pdf", strings.Repeat("x", 100_000))
			is.True(!strings.Contains(h.log.String(), "buffered"))
			for range 2 {
				h.client("POST", "/viewer/exports/download", exportBody("s")).want(200)
				h.client("POST", "/viewer/exports/download-batch", batchBody("s")).want(200)
			}
			want := map[string]int{"none": 0, "TimeoutHandler": 1}[name]
			is.Equal(strings.Count(h.log.String(), "downloads may be buffered"), want)
		})
	}
}

// TestMiddlewareWithoutUnwrap_WarnsOnce downloads over HTTP/2 through a ResponseWriter that
// hides the deadlines of the server's.
func TestMiddlewareWithoutUnwrap_WarnsOnce(t *testing.T) {
	t.Parallel()
	type flusher struct {
		http.ResponseWriter
		http.Flusher
	}
	for _, hides := range []bool{false, true} {
		is := is.New(t)
		h := newHarness(t)
		handler := httpapi.Handler(&h.options)
		h.listen(handler)
		h.register("s", "a.pdf", strings.Repeat("x", 100_000))
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if hides {
				w = flusher{w, w.(http.Flusher)}
			}
			handler.ServeHTTP(w, r)
		}))
		configured(server)
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		for range 2 {
			request := must(http.NewRequestWithContext(t.Context(), "POST", server.URL+"/viewer/exports/download", strings.NewReader(exportBody("s"))))(t)
			request.Header.Set("x-api-key", h.rawKey)
			response := must(server.Client().Do(request))(t)
			is.Equal(response.StatusCode, 200)
			is.Equal(response.ProtoMajor, 2)
			response.Body.Close()
		}
		want := map[bool]int{false: 0, true: 1}[hides]
		is.Equal(strings.Count(h.log.String(), "downloads end with the WriteTimeout"), want)
	}
}

// sourceListener records the sources that its connections copy from.
type sourceListener struct {
	net.Listener
	mu      sync.Mutex
	list    []io.Reader
	sent    int64
	most    int64 // bytes under one deadline
	current int64 // bytes since the deadline was set
}

func (s *sourceListener) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sourcesConn{conn.(*net.TCPConn), s}, nil
}

type sourcesConn struct {
	*net.TCPConn
	listener *sourceListener
}

func (c *sourcesConn) ReadFrom(r io.Reader) (int64, error) {
	source := r
	if limited, ok := r.(*io.LimitedReader); ok {
		source = limited.R
	}
	n, err := c.TCPConn.ReadFrom(r)
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.list = append(c.listener.list, source)
	c.listener.sent += n
	c.listener.current += n
	c.listener.most = max(c.listener.most, c.listener.current)
	return n, err
}

func (c *sourcesConn) SetWriteDeadline(t time.Time) error {
	c.listener.mu.Lock()
	c.listener.current = 0
	c.listener.mu.Unlock()
	return c.TCPConn.SetWriteDeadline(t)
}

// descriptor is a source that a TCP connection copies in the kernel: an *os.File, or
// the wrapper that its WriteTo passes.
type descriptor interface {
	fs.File
	io.Seeker
	syscall.Conn
	Name() string
}

func TestExports_KernelCopiesFiles(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("canvasback"), 500_000)
	const sniffed = 512      // bytes that net/http copies itself to sniff the type
	const slowest = 64 << 10 // bytes under one deadline
	for name, open := range map[string]func(t *testing.T, dir string) fs.FS{
		"DirFS": func(_ *testing.T, dir string) fs.FS { return os.DirFS(dir) },
		"Root": func(t *testing.T, dir string) fs.FS {
			root := must(os.OpenRoot(dir))(t)
			t.Cleanup(func() { root.Close() })
			return root.FS()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := t.TempDir()
			is.NoErr(os.WriteFile(filepath.Join(dir, "plan.bin"), content, 0o600))
			opener := must(files.New(filesURL, open(t, dir)))(t)
			h := newHarness(t, withOpener(opener))
			read := new(sourceListener)
			server := h.listen(httpapi.Handler(&h.options), func(server *httptest.Server) {
				read.Listener = server.Listener
				server.Listener = read
			})
			h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"`+filesURL+`plan.bin"}`).want(201)
			response := h.client("POST", "/viewer/exports/download", exportBody("s")).want(200)
			is.True(bytes.Equal(response.body, content))

			server.Close() // no connection is in use
			read.mu.Lock()
			defer read.mu.Unlock()
			for _, source := range read.list {
				t.Log(source)
				file, ok := source.(descriptor)
				is.True(ok)
				is.Equal(filepath.Base(file.Name()), "plan.bin")
			}
			t.Logf("read %d times, first from a %T", len(read.list), read.list[0])
			is.True(read.sent >= int64(len(content)-sniffed))
			is.True(read.most <= slowest) // slow clients do not time out
		})
	}
}
