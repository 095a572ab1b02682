package stream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// smallBuffer is the size of a socket buffer that is soon full.
const smallBuffer = 8 << 10

// zeros yields zero bytes, a few at a time, so that the server buffers them.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	p = p[:min(len(p), 1000)]
	clear(p)
	return len(p), nil
}

// streamZeros returns a handler that streams as many zero bytes as its path
// says, without a Content-Length.
func streamZeros(idle time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/"), 10, 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusOK)
		out := New(w, r, idle)
		if _, err := out.Copy(io.LimitReader(zeros{}, size), -1); err != nil {
			Abort(w, r)
			panic(http.ErrAbortHandler)
		}
		out.Finish()
	})
}

// serve starts a server with ConnContext and returns its address. configure may
// change it first.
func serve(t *testing.T, handler http.Handler, configure ...func(*httptest.Server)) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ConnContext = ConnContext
	for _, f := range configure {
		f(server)
	}
	if server.TLS == nil {
		server.Start()
	} else {
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	is.New(t).NoErr(err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return conn.(*net.TCPConn)
}

// get sends a request and reads the header of the response.
func get(t *testing.T, conn net.Conn, reader *bufio.Reader, version, path string) *http.Response {
	t.Helper()
	is := is.New(t)
	fmt.Fprintf(conn, "GET %s HTTP/%s\r\nHost: x\r\n\r\n", path, version)
	response, err := http.ReadResponse(reader, nil)
	is.NoErr(err)
	is.Equal(response.StatusCode, 200)
	return response
}

func TestWriter_ServesSlowClient(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("TCP_NOTSENT_LOWAT is Linux only")
	}
	const size = 12 << 20
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var conn net.Conn = dial(t, serve(t, streamZeros(1500*time.Millisecond), func(server *httptest.Server) {
				if secure {
					server.TLS = new(tls.Config)
				}
			}))
			if secure {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			response := get(t, conn, bufio.NewReader(conn), "1.1", fmt.Sprint("/", size))
			var got int64
			for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(50 * time.Millisecond) { // 300 KB/s
				n, err := io.CopyN(io.Discard, response.Body, 15_000)
				is.NoErr(err)
				got += n
			}
			n, err := io.Copy(io.Discard, response.Body)
			is.NoErr(err)
			is.Equal(got+n, int64(size))
		})
	}
}

// TestWriter_ResetsStalledClient has many HTTP/1.0 clients that stall in
// responses of various lengths, so that some do in front of the bytes that the
// server flushes after the handler has returned.
func TestWriter_ResetsStalledClient(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const idle = 300 * time.Millisecond
	const responses, step = 150, 2000
	var closed sync.WaitGroup
	closed.Add(responses)
	addr := serve(t, streamZeros(idle), func(server *httptest.Server) {
		server.Config.WriteTimeout = idle
		server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			conn.(*net.TCPConn).SetWriteBuffer(smallBuffer)
			return ConnContext(ctx, conn)
		}
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				closed.Done()
			}
		}
	})
	conns := make([]net.Conn, responses)
	for i := range conns {
		conns[i] = dial(t, addr)
		fmt.Fprintf(conns[i], "GET /%d HTTP/1.0\r\n\r\n", i*step)
	}
	closed.Wait()
	complete := 0
	for i, conn := range conns {
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			continue
		}
		n, err := io.Copy(io.Discard, response.Body)
		if err != nil {
			continue
		}
		complete++
		is.Equal(n, int64(i*step))
	}
	is.True(complete != 0)
	is.True(complete != responses)
}

// TestFinish_LastBytesHaveADeadline pipelines requests and reads no response, so that
// clients stall at various bytes, those that the server sends after the handler included.
func TestFinish_LastBytesHaveADeadline(t *testing.T) {
	is := is.New(t)
	var ended sync.WaitGroup
	address := serve(t, streamZeros(200*time.Millisecond), func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				ended.Done()
			}
		}
	})
	for size := 1000; size <= 8000; size += 500 {
		conn, err := net.Dial("tcp", address)
		is.NoErr(err)
		defer conn.Close()
		is.NoErr(conn.(*net.TCPConn).SetReadBuffer(smallBuffer))
		ended.Add(1)
		go io.WriteString(conn, strings.Repeat(fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", size), 10_000))
	}
	ended.Wait()
}

// TestWriter_KeepsConnectionAlive waits longer than the timeouts between
// requests on one connection.
func TestWriter_KeepsConnectionAlive(t *testing.T) {
	t.Parallel()
	const idle = 300 * time.Millisecond
	for _, timeout := range []time.Duration{0, idle} {
		t.Run(timeout.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			conn := dial(t, serve(t, streamZeros(idle), func(server *httptest.Server) { server.Config.WriteTimeout = timeout }))
			reader := bufio.NewReader(conn)
			for range 3 {
				n, err := io.Copy(io.Discard, get(t, conn, reader, "1.1", "/1000000").Body)
				is.NoErr(err)
				is.Equal(n, int64(1_000_000))
				time.Sleep(idle + idle/3)
			}
		})
	}
}

func TestWriter_CopiesFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	content := bytes.Repeat([]byte("canvasback"), 20_000)
	name := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(name, content, 0o600))
	for _, size := range []int64{-1, 0, 1, ChunkSize, 2*ChunkSize + 1, int64(len(content)), int64(len(content)) + 1} {
		want := content
		if size >= 0 {
			want = content[:min(size, int64(len(content)))]
		}
		for _, wrap := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r },
			func(r io.Reader) io.Reader { return struct{ io.Reader }{r} },
		} {
			file, err := os.Open(name)
			is.NoErr(err)
			recorder := httptest.NewRecorder()
			n, err := New(recorder, httptest.NewRequest("GET", "/", nil), time.Minute).Copy(wrap(file), size)
			is.NoErr(err)
			is.Equal(n, int64(len(want)))
			is.True(bytes.Equal(recorder.Body.Bytes(), want))
			is.NoErr(file.Close())
		}
	}
}

// kernelRecorder counts the bytes that the kernel could copy.
type kernelRecorder struct {
	*httptest.ResponseRecorder
	copied int64
}

func (r *kernelRecorder) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(r.ResponseRecorder, src)
	if _, ok := src.(*io.LimitedReader).R.(*os.File); ok {
		r.copied += n
	}
	return n, err
}

func TestWriter_CopyN(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	content := bytes.Repeat([]byte("canvasback"), 20_000)
	name := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(name, content, 0o600))
	file, err := os.Open(name)
	is.NoErr(err)
	defer file.Close()
	recorder := &kernelRecorder{ResponseRecorder: httptest.NewRecorder()}
	out := New(recorder, httptest.NewRequest("GET", "/", nil), time.Minute)
	for range 2 {
		n, err := io.CopyN(out, file, 90_000)
		is.NoErr(err)
		is.Equal(n, int64(90_000))
	}
	n, err := io.CopyN(out, file, 90_000)
	is.Equal(err, io.EOF)
	is.Equal(n, int64(20_000))
	is.Equal(recorder.copied, int64(200_000))
	n, err = io.Copy(out, struct{ io.Reader }{bytes.NewReader(content)})
	is.NoErr(err)
	is.Equal(n, int64(200_000))
	is.Equal(recorder.copied, int64(200_000))
	is.True(bytes.Equal(recorder.Body.Bytes(), append(content, content...)))
}

// TestInterrupt_EndsBlockedWrite interrupts responses whose clients do not read.
func TestInterrupt_EndsBlockedWrite(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*httptest.Server){
		"HTTP/1.1":                     func(*httptest.Server) {},
		"HTTP/1.1 without ConnContext": func(server *httptest.Server) { server.Config.ConnContext = nil },
		"HTTP/2":                       func(server *httptest.Server) { server.TLS, server.EnableHTTP2 = new(tls.Config), true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			ended := make(chan error, 1)
			addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var interrupting sync.WaitGroup
				stop := make(chan struct{})
				interrupting.Go(func() {
					for { // the next write moves the deadline, unless one is blocked
						select {
						case <-time.After(100 * time.Millisecond):
							Interrupt(w, r)
						case <-stop:
							return
						}
					}
				})
				_, err := New(w, r, time.Hour).Copy(zeros{}, 1<<30)
				close(stop)
				interrupting.Wait()
				ended <- err
				Abort(w, r)
				panic(http.ErrAbortHandler)
			}), configure)
			scheme := "http://"
			if name == "HTTP/2" {
				scheme = "https://"
			}
			client := http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer client.CloseIdleConnections()
			response, err := client.Get(scheme + addr)
			is.NoErr(err)
			defer response.Body.Close()
			is.Equal(response.ProtoMajor == 2, name == "HTTP/2")
			is.True(<-ended != nil)
			_, err = io.Copy(io.Discard, response.Body)
			is.True(err != nil) // a truncated response does not end like a complete one
		})
	}
}

// TestAbort_TruncationShows aborts behind a middleware that recovers panics.
func TestAbort_TruncationShows(t *testing.T) {
	t.Parallel()
	truncate := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := New(w, r, time.Minute)
		out.Copy(zeros{}, 100_000)
		Abort(w, r)
		panic(http.ErrAbortHandler)
	})
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"none":     func(w http.ResponseWriter) http.ResponseWriter { return w },
		"unwraps":  func(w http.ResponseWriter) http.ResponseWriter { return unwrapper{w} },
		"like gin": func(w http.ResponseWriter) http.ResponseWriter { return failingHijacker{unwrapper{w}} },
		"hides":    func(w http.ResponseWriter) http.ResponseWriter { return struct{ http.ResponseWriter }{w} },
	} {
		for _, connContext := range []bool{false, true} {
			if name == "hides" && !connContext {
				continue // Abort has no effect
			}
			for _, version := range []string{"1.0", "1.1"} {
				t.Run(fmt.Sprintf("%s/%s/ConnContext %v", name, version, connContext), func(t *testing.T) {
					t.Parallel()
					conn := dial(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						defer func() { recover() }()
						truncate(wrap(w), r)
					}), func(server *httptest.Server) {
						if !connContext {
							server.Config.ConnContext = nil
						}
					}))
					fmt.Fprintf(conn, "GET / HTTP/%s\r\nHost: x\r\n\r\n", version)
					response, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						return // reset before the header was read
					}
					_, err = io.Copy(io.Discard, response.Body)
					is.New(t).True(err != nil) // a truncated response does not end like a complete one
				})
			}
		}
	}
}

// unwrapper is the ResponseWriter of a middleware.
type unwrapper struct{ http.ResponseWriter }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// failingHijacker is the ResponseWriter of a middleware that returns an error once
// the body has begun.
type failingHijacker struct{ unwrapper }

func (failingHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("body has begun")
}

// echoWriter is like echo's ResponseWriter: it panics if the writer behind it cannot
// flush.
type echoWriter struct{ unwrapper }

func (e echoWriter) Flush() {
	if http.NewResponseController(e.ResponseWriter).Flush() != nil {
		panic("cannot flush")
	}
}

func TestWriter_FlushesOnlyIfPossible(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	recorder := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	for _, w := range []http.ResponseWriter{recorder, unwrapper{recorder}, echoWriter{unwrapper{recorder}}} {
		recorder.Flushed = false
		is.NoErr(New(w, r, time.Minute).Flush())
		is.True(recorder.Flushed)
		is.Equal(Warning(w, r), "")
	}
	hidden := struct{ http.ResponseWriter }{recorder}
	for _, w := range []http.ResponseWriter{hidden, unwrapper{hidden}, echoWriter{unwrapper{hidden}}} {
		recorder.Flushed = false
		is.True(New(w, r, time.Minute).Flush() != nil)
		is.True(!recorder.Flushed)
		is.True(strings.Contains(Warning(w, r), "buffered"))
	}
}

// readSizes returns the length of the buffer of its first Read, and blocks until it is
// closed.
type readSizes chan int

func (r readSizes) Read(p []byte) (int, error) {
	r <- len(p)
	<-r
	return 0, io.EOF
}

func TestWriter_FewCopiesHaveLargeBuffers(t *testing.T) {
	is := is.New(t)
	var sources []readSizes
	var copies sync.WaitGroup
	sizes := make(map[int]int)
	for range 20 {
		source := make(readSizes)
		sources = append(sources, source)
		copies.Go(func() {
			New(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), time.Minute).Copy(source, -1)
		})
		sizes[<-source]++
	}
	is.Equal(sizes, map[int]int{4 * ChunkSize: 16, ChunkSize: 4})
	for _, source := range sources {
		close(source)
	}
	copies.Wait()
	is.Equal(len(largeInUse), 0)
}

// TestWriter_PausesOfTheSource has a response whose source pauses for longer than a client
// may, over HTTP/1 and HTTP/2.
func TestWriter_PausesOfTheSource(t *testing.T) {
	t.Parallel()
	const idle = 100 * time.Millisecond
	file := filepath.Join(t.TempDir(), "file")
	is.New(t).NoErr(os.WriteFile(file, []byte("kernel"), 0o600))
	for _, major := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", major), func(t *testing.T) {
			is := is.New(t)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				is.Equal(r.ProtoMajor, major)
				source, err := os.Open(file)
				is.NoErr(err)
				defer source.Close()
				out := New(w, r, idle)
				for _, step := range []func(){
					func() { out.Write([]byte("first,")) },
					func() { out.Flush() },
					func() { out.Copy(source, -1) },
					func() { out.Write([]byte(",last")) },
				} {
					step()
					time.Sleep(3 * idle)
				}
				out.Finish()
			}))
			server.EnableHTTP2 = major == 2
			server.StartTLS()
			defer server.Close()
			response, err := server.Client().Get(server.URL)
			is.NoErr(err)
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			is.NoErr(err)
			is.Equal(string(body), "first,kernel,last")
		})
	}
}
