package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

// pipeListener accepts connections in memory, for tests with a fake clock.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// TestBodyRate_EndsSlowBodies sends bodies with a valid key that stop, that are slow,
// and that take too long.
func TestBodyRate_EndsSlowBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		h := newHarness(t, func(o *httpapi.Options) { o.Limits.BodyRate = 1 })
		server := &http.Server{Handler: httpapi.Handler(&h.options)}
		httpapi.ConfigureServer(server)
		listener := newPipeListener()
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() { server.Serve(listener) })
		defer server.Close()

		send := func(length int, part string, parts int, pause time.Duration) (status int, took time.Duration) {
			conn := listener.dial()
			defer conn.Close()
			responses := bufio.NewReader(conn)
			start := time.Now()
			fmt.Fprintf(conn, "POST /symbol/folders/1/symbols HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n", h.rawKey, length)
			all.Go(func() {
				for range parts {
					time.Sleep(pause)
					if _, err := io.WriteString(conn, part); err != nil {
						return
					}
				}
			})
			response, err := http.ReadResponse(responses, nil)
			if err != nil {
				t.Error(err)
				return 0, 0
			}
			io.Copy(io.Discard, response.Body)
			took = time.Since(start)
			if parts*len(part) != length {
				if _, err := responses.ReadByte(); err == nil || time.Since(start) > took+time.Second {
					t.Errorf("the connection is not closed: %v", err)
				}
			}
			return response.StatusCode, took
		}
		for _, c := range []struct {
			name   string
			length int
			part   string
			parts  int
			pause  time.Duration
			status int
			least  time.Duration
			most   time.Duration
		}{
			{"nothing", 50 << 20, "", 0, 0, 400, 10 * time.Second, 12 * time.Second},
			{"some bytes", 50 << 20, `{"name":"`, 1, 0, 400, 10 * time.Second, 12 * time.Second},
			{"too slow", 2000, "     ", 400, 6 * time.Second, 400, 10 * time.Second, 12 * time.Second},
			{"slow", 240, "            ", 20, 9 * time.Second, 400, 3 * time.Minute, 4 * time.Minute}, // 400 because it is no object
			{"too long", 50 << 20, "            ", 100, 9 * time.Second, 400, 5 * time.Minute, 5*time.Minute + 2*time.Second},
			{"fast", 3, "{} ", 1, 0, 400, 0, time.Second},
		} {
			t.Log(c.name)
			status, took := send(c.length, c.part, c.parts, c.pause)
			is.Equal(status, c.status)
			is.True(took >= c.least)
			is.True(took <= c.most)
		}

		// A body at its end has no timeout: the next request comes later.
		conn := listener.dial()
		defer conn.Close()
		responses := bufio.NewReader(conn)
		for _, name := range []string{"a", "b"} {
			body := `{"name":"` + name + `"}`
			fmt.Fprintf(conn, "POST /symbol/folders HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", h.rawKey, len(body), body)
			response, err := http.ReadResponse(responses, nil)
			is.NoErr(err)
			text, _ := io.ReadAll(response.Body)
			is.Equal(response.StatusCode, 201)
			is.True(strings.Contains(string(text), name))
			time.Sleep(time.Minute)
		}
	})
}
