package fetch_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

func TestOpener_OpenRetriesTransientStatus(t *testing.T) {
	t.Parallel()
	for status, transient := range map[int]bool{
		400: false, 401: false, 403: false, 404: false, 405: false, 410: false, 416: false, 451: false,
		408: true, 429: true, 500: true, 502: true, 503: true, 504: true,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := 0
			c := newOriginClient(t, fetch.Options{}, func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests < 3 || r.URL.Path == "/always" {
					w.WriteHeader(status)
					return
				}
				io.WriteString(w, "content")
			})
			content, err := c.read(t, c.url)
			is.Equal(err == nil, transient)
			is.Equal(content == "content", transient)

			requests = 0
			_, err = c.read(t, c.url+"/always")
			is.True(errors.Is(err, exports.ErrFailed))
			is.Equal(errors.Is(err, exports.ErrGone), status == 404 || status == 410)
			is.Equal(requests == 3, transient)
		})
	}
}

// TestOpener_OpenDialErrors has the errors of both resolvers of package net, and of a host
// that refuses connections.
func TestOpener_OpenDialErrors(t *testing.T) {
	t.Parallel()
	const server = "192.0.2.53:53"
	for _, c := range []struct {
		cause, want error
		retries     int
	}{
		{&net.DNSError{Err: "i/o timeout", Server: server, IsTimeout: true, IsTemporary: true}, exports.ErrTimeout, 2},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true, IsTemporary: true}, exports.ErrTimeout, 2},
		{&net.DNSError{Err: "EAI_AGAIN of getaddrinfo", IsTemporary: true}, exports.ErrTimeout, 2},
		{&net.DNSError{Err: "server misbehaving", Server: server, IsTemporary: true}, exports.ErrFailed, 2},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, exports.ErrFailed, 0},
		{&net.DNSError{Err: "no such host", IsNotFound: true, IsTemporary: true}, exports.ErrFailed, 0},
		{os.NewSyscallError("connect", syscall.ECONNREFUSED), exports.ErrFailed, 2},
	} {
		var log strings.Builder
		o := newClient(t, fetch.Options{AllowedHosts: []string{"x.example.test"}, Logger: debugLogger(&log)})
		dials := 0
		o.SetDial(func(context.Context, string, string) (net.Conn, error) {
			dials++
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: c.cause}
		})
		_, err := o.Open(t.Context(), parse(t, "http://x.example.test/"))
		logged := strings.Count(log.String(), "retrying fetch")
		if !errors.Is(err, c.want) || dials != 1+c.retries || logged != c.retries {
			t.Errorf("%+v: %v, %d dials, %d log records", c, err, dials, logged)
		}
	}
}

func TestOpener_OpenRetriesLostConnection(t *testing.T) {
	t.Parallel()
	for name, closeConn := range map[string]func(net.Conn){
		"closed": func(net.Conn) {},
		"reset":  resetConn,
		"reset after header": func(conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
			resetConn(conn)
		},
		"closed in header": func(conn net.Conn) { io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := newRawClient(t, fetch.Options{}, func(conn net.Conn, _ *http.Request, n int) {
				if n < 3 {
					closeConn(conn)
					return
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ncontent")
			})
			is.Equal(must(c.read(t, c.url))(t), "content")
		})
	}
}

func TestOpener_OpenHonorsRetryAfter(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		c := newPipeClient(t, fetch.Options{}, respondWith(nil,
			"503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
			"200 OK\r\nContent-Length: 7\r\n\r\ncontent"))
		start := time.Now()
		must(c.read(t, pipeURL))(t)
		is.Equal(time.Since(start), time.Second)
	})
}

func TestOpener_OpenContextEndsDuringBackoff(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		c := newPipeClient(t, fetch.Options{}, func(conn net.Conn, _ *http.Request, _ int) {
			io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: "+
				time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)+"\r\n\r\n")
		})
		u := parse(t, pipeURL)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Open(ctx, u)
		is.True(errors.Is(err, exports.ErrTimeout))
		is.True(errors.Is(err, context.DeadlineExceeded))

		ctx2, cancel2 := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel2(exports.ErrTimeout) })
		_, err = c.Open(ctx2, u)
		is.True(errors.Is(err, exports.ErrTimeout)) // the caller's own timer
		is.True(!errors.Is(err, exports.ErrFailed))

		ctx3, cancel3 := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel3)
		_, err = c.Open(ctx3, u)
		is.True(errors.Is(err, exports.ErrFailed))
		is.True(errors.Is(err, context.Canceled))
	})
}

func TestOpener_OpenDoesNotRetryTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
	for name, head := range map[string]string{
		"before the header": "",
		"in the header":     "HTTP/1.1 200 OK\r\nContent-",
		"after the header":  "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I) {
				closed := make(chan struct{})
				c := newPipeClient(t, fetch.Options{HeaderTimeout: timeout, IdleTimeout: timeout}, func(conn net.Conn, _ *http.Request, n int) {
					if n > 1 {
						t.Error("unexpected retry")
					}
					io.WriteString(conn, head)
					waitForClose(conn)
					close(closed)
				})
				start := time.Now()
				_, err := c.read(t, pipeURL)
				is.True(errors.Is(err, exports.ErrTimeout))
				is.Equal(time.Since(start), timeout)
				<-closed
			})
		})
	}
}

// Idle connections may be lost silently. One request times out, not one for each of them.
func TestOpen_ClosesIdleConnectionsAfterTimeout(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var stalled atomic.Bool
	var old sync.Map
	c := newOriginClient(t, fetch.Options{HeaderTimeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		if !stalled.Load() {
			old.Store(r.RemoteAddr, true)
			time.Sleep(100 * time.Millisecond)
		} else if _, lost := old.Load(r.RemoteAddr); lost {
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}
		io.WriteString(w, "content")
	})
	read := func() error {
		_, err := c.read(t, c.url)
		return err
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() { is.NoErr(read()) })
	}
	running.Wait()
	stalled.Store(true)
	is.True(errors.Is(read(), exports.ErrTimeout))
	is.NoErr(read())
}
