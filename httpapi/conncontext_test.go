package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
)

// unsizedOpener opens files of so many bytes, which it does not tell.
type unsizedOpener int64

func (unsizedOpener) Serves(*url.URL) bool { return true }
func (unsizedOpener) Check(*url.URL) error { return nil }
func (o unsizedOpener) Open(context.Context, *url.URL) (*exports.File, error) {
	return &exports.File{Body: io.NopCloser(io.LimitReader(zeros{}, int64(o))), Size: -1}, nil
}

// sizedByAddress is one whose files have as many bytes as their addresses say.
type sizedByAddress struct{ unsizedOpener }

func (sizedByAddress) Open(ctx context.Context, address *url.URL) (*exports.File, error) {
	size, err := strconv.ParseInt(strings.TrimPrefix(address.Path, "/"), 10, 64)
	if err != nil {
		return nil, err
	}
	return unsizedOpener(size).Open(ctx, address)
}

// zeros come a few at a time, so that the server gathers them.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	p = p[:min(len(p), 1000)]
	clear(p)
	return len(p), nil
}

// watched serves the harness behind ConnContext. The channel has what became of
// each request, when its connection is as the handler leaves it.
func (h *harness) watched(change ...func(*httptest.Server)) <-chan httpapi.Observation {
	h.t.Helper()
	seen := make(chan httpapi.Observation, 100)
	h.options.Observe = func(_ context.Context, o httpapi.Observation) { seen <- o }
	server := httptest.NewUnstartedServer(httpapi.Handler(h.options))
	server.Config.ConnContext = httpapi.ConnContext
	for _, f := range change {
		f(server)
	}
	if server.TLS == nil {
		server.Start()
	} else {
		server.StartTLS()
	}
	h.t.Cleanup(server.Close)
	h.url = server.URL
	return seen
}

// post writes a request and reads the header of its answer.
func (h *harness) post(conn net.Conn, reader *bufio.Reader, version, path, body string) *http.Response {
	h.t.Helper()
	fmt.Fprintf(conn, "POST %s HTTP/%s\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", path, version, h.raw, len(body), body)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if response.StatusCode != 200 {
		h.t.Fatalf("status is %d", response.StatusCode)
	}
	return response
}

func TestConnContext_slowClientIsServed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems wake writers in their own way")
	}
	const size = 12 << 20
	for name, c := range map[string]struct {
		path, body string
		secure     bool
	}{
		"single":     {"/viewer/exports/download", single("s"), false},
		"zip":        {"/viewer/exports/download-batch", batch("s"), false},
		"single/TLS": {"/viewer/exports/download", single("s"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, func(o *httpapi.Options) { o.IdleTimeout = 1500 * time.Millisecond })
			h.register("s", "s.bin", strings.Repeat("x", size))
			h.watched(func(server *httptest.Server) {
				if c.secure {
					server.TLS = new(tls.Config)
				}
			})

			h.url = strings.Replace(h.url, "https:", "http:", 1)
			var conn net.Conn = h.dial()
			if c.secure {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			response := h.post(conn, bufio.NewReader(conn), "1.1", c.path, c.body)
			var got int64
			for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(50 * time.Millisecond) { // 300 KB/s
				n, err := io.CopyN(io.Discard, response.Body, 15_000)
				if got += n; err != nil {
					t.Fatalf("after %d bytes at a slow pace: %v", got, err)
				}
			}
			n, err := io.Copy(io.Discard, response.Body)
			if got += n; err != nil || got < size {
				t.Errorf("after %d bytes: %v", got, err)
			}
		})
	}
}

// TestConnContext_standstillNeverEndsLikeAWholeFile speaks HTTP/1.0, where the
// end of the connection is the end of the file, as clients that stand still
// until they have been cut.
func TestConnContext_standstillNeverEndsLikeAWholeFile(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{"/viewer/exports/download": single("s"), "/viewer/exports/download-batch": batch("s")} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			const idle = 1500 * time.Millisecond
			h := startWith(t, unsizedOpener(30<<20))
			h.options.IdleTimeout = idle
			seen := h.watched()
			conn := h.dial()
			response := h.post(conn, bufio.NewReader(conn), "1.0", path, body)
			o := <-seen
			if !o.BrokenOff || o.Duration < idle || o.Duration > 2*idle {
				t.Errorf("broken off: %v, after %s; want %s, and no more than twice that", o.BrokenOff, o.Duration, idle)
			}
			if n, err := io.Copy(io.Discard, response.Body); err == nil {
				t.Errorf("an answer cut after %d bytes ends like a whole one", n)
			}
		})
	}
}

// TestConnContext_lastBytesNeverMakeAWholeFile has clients stand still in
// answers of many lengths, so that some do in front of what a server sends when
// the handler has returned.
func TestConnContext_lastBytesNeverMakeAWholeFile(t *testing.T) {
	t.Parallel()
	h := startWith(t, sizedByAddress{})
	h.options.IdleTimeout = 300 * time.Millisecond
	const answers, step = 150, 2000
	for i := range answers {
		h.client("POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":"s%d","exportedUrl":"https://x.example/%d"}`, i, i*step)).want(201)
	}
	var seen *states
	h.url, seen = limited(t, httpapi.Handler(h.options), func(server *http.Server) {
		server.WriteTimeout = 300 * time.Millisecond
		server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			conn.(*net.TCPConn).SetWriteBuffer(smallBuffer)
			return httpapi.ConnContext(ctx, conn)
		}
	})
	conns := make([]net.Conn, answers)
	for i := range conns {
		conn := h.dial()
		body := single(fmt.Sprint("s", i))
		fmt.Fprintf(conn, "POST /viewer/exports/download HTTP/1.0\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", h.raw, len(body), body)
		conns[i] = conn
	}
	for over := time.Now().Add(15 * time.Second); seen.count(http.StateClosed)+seen.count(http.StateHijacked) < answers; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatal("some connections are still served")
		}
	}
	whole := 0
	for i, conn := range conns {
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			continue
		}
		n, err := io.Copy(io.Discard, response.Body)
		if err != nil {
			continue
		}
		whole++
		if n != int64(i*step) {
			t.Errorf("%d bytes of %d end like a whole file", n, i*step)
		}
	}
	if whole == 0 || whole == answers {
		t.Errorf("%d of %d answers are whole: no client stood still at the end of one", whole, answers)
	}
}

// TestConnContext_tornAnswerBehindAMiddleware has one that hides the connection
// and recovers panics, which without ConnContext makes an answer look whole.
func TestConnContext_tornAnswerBehindAMiddleware(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.0", "1.1"} {
		h := startWith(t, shortOpener{size: -1, gives: 100_000})
		h.watched(func(server *httptest.Server) {
			next := server.Config.Handler
			server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { recover() }()
				next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
			})
		})
		conn, body := h.dial(), single("s")
		fmt.Fprintf(conn, "POST /viewer/exports/download HTTP/%s\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", version, h.raw, len(body), body)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			continue // torn before it could be read at all
		}
		if n, err := io.Copy(io.Discard, response.Body); err == nil {
			t.Errorf("HTTP/%s: an answer torn after %d bytes ends like a whole one", version, n)
		}
	}
}

// TestConnContext_connectionStaysInUse waits between its requests until what
// bounds the one before would have come about.
func TestConnContext_connectionStaysInUse(t *testing.T) {
	t.Parallel()
	const idle = 300 * time.Millisecond
	for _, timeout := range []time.Duration{0, idle} {
		t.Run(timeout.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			h := start(t, func(o *httpapi.Options) { o.IdleTimeout = idle })
			content := strings.Repeat("canvasback", 100_000)
			h.register("large", "large.pdf", content)
			h.watched(func(server *httptest.Server) { server.Config.WriteTimeout = timeout })
			conn := h.dial()
			reader := bufio.NewReader(conn)
			for range 3 {
				for path, body := range map[string]string{"/viewer/exports/download": single("large"), "/viewer/exports/download-batch": batch("large", "large")} {
					response := h.post(conn, reader, "1.1", path, body)
					got, err := io.ReadAll(response.Body)
					is.NoErr(err)
					is.True(bytes.Contains(got, []byte(content)))
					time.Sleep(idle + idle/3)
				}
			}
		})
	}
}
