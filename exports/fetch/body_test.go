package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

func TestBody_WrongContentLength(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]string{
		"short":           "Content-Length: 10\r\n\r\n12345",
		"no last chunk":   "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
		"truncated chunk": "Transfer-Encoding: chunked\r\n\r\n9\r\n12345",
		"invalid chunk":   "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\nxyz",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			baseURL, host := startRawOrigin(t, func(conn net.Conn, _ *http.Request, _ int) {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+response)
			})
			content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, baseURL)
			is.True(errors.Is(err, io.ErrUnexpectedEOF))
			is.True(errors.Is(err, exports.ErrFailed))
			is.Equal(content, "12345")
		})
	}
	t.Run("long", func(t *testing.T) {
		t.Parallel()
		is := is.New(t)
		baseURL, host := startRawOrigin(t, func(conn net.Conn, _ *http.Request, _ int) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n1234567890")
		})
		content := must(newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, baseURL))(t)
		is.Equal(content, "12345") // Content-Length bytes
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		is := is.New(t)
		baseURL, host := startRawOrigin(t, func(conn net.Conn, _ *http.Request, _ int) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n1234567890")
		})
		c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
		file := must(c.open(t, baseURL))(t)
		is.Equal(file.Size, int64(-1))
		content := must(io.ReadAll(file.Body))(t)
		is.Equal(string(content), "1234567890")
	})
}

func TestBody_ConnectionReset(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const content = "0123456789"
	baseURL, host := startRawOrigin(t, func(conn net.Conn, r *http.Request, _ int) {
		var at int
		fmt.Sscanf(r.URL.Path, "/%d", &at)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n%s", content[:at])
		time.Sleep(5 * time.Millisecond) // a reset discards what the client has not received
		resetConn(conn)
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
	for at := 1; at < len(content); at++ {
		got, err := c.read(t, fmt.Sprintf("%s/%d", baseURL, at))
		is.True(errors.Is(err, io.ErrUnexpectedEOF))
		is.True(strings.HasPrefix(content, got))
	}
}

func TestBody_IdleTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		const idle = 200 * time.Millisecond
		c := newPipeClient(t, fetch.Options{IdleTimeout: idle}, func(conn net.Conn, _ *http.Request, n int) {
			if n > 1 {
				t.Error("unexpected retry")
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n") // no ETag, so it cannot be resumed
			for range 6 {
				io.WriteString(conn, "x")
				time.Sleep(idle / 2)
			}
			waitForClose(conn)
		})
		start := time.Now()
		content, err := c.read(t, pipeURL)
		is.True(errors.Is(err, exports.ErrTimeout))
		is.Equal(content, "xxxxxx") // longer than the idle timeout in total
		is.Equal(time.Since(start), 5*idle/2+idle)
	})
}

func TestBody_SlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		c := newPipeClient(t, fetch.Options{IdleTimeout: 20 * time.Millisecond}, func(conn net.Conn, _ *http.Request, _ int) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"+strings.Repeat("x", 1<<20))
		})
		file := must(c.open(t, pipeURL))(t)
		time.Sleep(100 * time.Millisecond)
		n, err := io.Copy(io.Discard, file.Body)
		is.NoErr(err) // the reader was idle, not the origin
		is.Equal(n, int64(1<<20))
	})
}

func TestBody_FreesConnection(t *testing.T) {
	t.Parallel()
	for name, abandon := range map[string]func(context.CancelFunc, *exports.File){
		"context ends": func(cancel context.CancelFunc, _ *exports.File) { cancel() },
		"Close":        func(_ context.CancelFunc, file *exports.File) { file.Body.Close() },
		"Close during Read": func(_ context.CancelFunc, file *exports.File) {
			time.AfterFunc(20*time.Millisecond, func() { file.Body.Close() })
			io.Copy(io.Discard, file.Body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			closed := make(chan struct{})
			baseURL, host := startRawOrigin(t, func(conn net.Conn, _ *http.Request, _ int) {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"1\"\r\n\r\n12345")
				waitForClose(conn)
				close(closed)
			})
			c := newClient(t, fetch.Options{AllowedHosts: []string{host}, IdleTimeout: time.Hour})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			file := must(c.Open(ctx, parse(t, baseURL)))(t)
			abandon(cancel, file)
			receive(t, closed)
			n, err := file.Body.Read(make([]byte, 10))
			is.True(n == 0 && errors.Is(err, exports.ErrFailed)) // even though bytes are buffered
			is.True(errors.Is(err, context.Canceled))
			is.True(errors.Is(err, os.ErrClosed) != (ctx.Err() != nil))
			is.NoErr(file.Body.Close())
		})
	}
}

func TestOpener_CancelBeforeHeader(t *testing.T) {
	t.Parallel()
	requested, closed := make(chan struct{}), make(chan struct{})
	baseURL, host := startRawOrigin(t, func(conn net.Conn, _ *http.Request, _ int) {
		close(requested)
		waitForClose(conn)
		close(closed)
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, HeaderTimeout: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-requested
		cancel()
	}()
	_, err := c.Open(ctx, parse(t, baseURL))
	is.New(t).True(errors.Is(err, context.Canceled))
	receive(t, closed)
}
