package httpapi_test

import (
	"bytes"
	"io"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

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
			root := must(os.OpenRoot(dir))
			t.Cleanup(func() { root.Close() })
			return root.FS()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := t.TempDir()
			is.NoErr(os.WriteFile(filepath.Join(dir, "plan.bin"), content, 0o600))
			opener, err := files.New(filesURL, open(t, dir))
			is.NoErr(err)
			h := newHarness(t, func(o *httpapi.Options) {
				o.Exports = must(exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}}))
			})
			server := httptest.NewUnstartedServer(httpapi.Handler(&h.options))
			read := &sourceListener{Listener: server.Listener}
			server.Listener = read
			server.Start()
			t.Cleanup(server.Close)
			h.url = server.URL

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
