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
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

func TestBody_lengthThatIsNotTrue(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"short":               "Content-Length: 10\r\n\r\n12345",
		"chunks without end":  "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
		"chunk without end":   "Transfer-Encoding: chunked\r\n\r\n9\r\n12345",
		"chunks that are not": "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\nxyz",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			address, host := serveRaw(t, func(conn net.Conn, _ *http.Request, _ int) {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+answer)
			})
			content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
			is.True(errors.Is(err, io.ErrUnexpectedEOF))
			is.True(errors.Is(err, exports.ErrFailed))
			is.Equal(content, "12345")
		})
	}
	t.Run("long", func(t *testing.T) {
		t.Parallel()
		is := is.New(t)
		address, host := serveRaw(t, func(conn net.Conn, _ *http.Request, _ int) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n1234567890")
		})
		content, err := newClient(t, fetch.Options{AllowedHosts: []string{host}}).read(t, address)
		is.NoErr(err)
		is.Equal(content, "12345") // what was said
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		is := is.New(t)
		address, host := serveRaw(t, func(conn net.Conn, _ *http.Request, _ int) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n1234567890")
		})
		c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
		file, err := c.open(t, address)
		is.NoErr(err)
		is.Equal(file.Size, int64(-1))
		content, err := io.ReadAll(file.Body)
		is.NoErr(err)
		is.Equal(string(content), "1234567890")
	})
}

func TestBody_resetAtEachByte(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const content = "0123456789"
	address, host := serveRaw(t, func(conn net.Conn, r *http.Request, _ int) {
		var at int
		fmt.Sscanf(r.URL.Path, "/%d", &at)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n%s", content[:at])
		time.Sleep(5 * time.Millisecond) // a reset overtakes what was written
		reset(conn)
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
	for at := 1; at < len(content); at++ {
		got, err := c.read(t, fmt.Sprintf("%s/%d", address, at))
		is.True(errors.Is(err, io.ErrUnexpectedEOF))
		is.True(strings.HasPrefix(content, got))
	}
}

func TestBody_idleOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const idle = 200 * time.Millisecond
	address, host := serveRaw(t, func(conn net.Conn, r *http.Request, n int) {
		if n > 1 {
			t.Error("asked again")
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n") // without a validator it is lost
		for range 6 {
			io.WriteString(conn, "x")
			time.Sleep(idle / 4)
		}
		gone(conn)
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, IdleTimeout: idle})
	began := time.Now()
	content, err := c.read(t, address)
	took := time.Since(began)
	is.True(errors.Is(err, exports.ErrTimeout))
	is.Equal(content, "xxxxxx") // slower than the idle time, but never idle
	is.True(took < 5*idle)      // and then given up soon
	is.True(took > 6*idle/4+idle/2)
}

func TestBody_readerThatIsSlow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("x", 1<<20))
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}, IdleTimeout: 20 * time.Millisecond})
	file, err := c.open(t, address)
	is.NoErr(err)
	time.Sleep(100 * time.Millisecond)
	n, err := io.Copy(io.Discard, file.Body)
	is.NoErr(err) // the origin was not idle
	is.Equal(n, int64(1<<20))
}

func TestBody_connectionIsFreed(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(context.CancelFunc, *exports.File){
		"by the end of the context": func(cancel context.CancelFunc, _ *exports.File) { cancel() },
		"by Close":                  func(_ context.CancelFunc, file *exports.File) { file.Body.Close() },
		"by Close during Read": func(_ context.CancelFunc, file *exports.File) {
			time.AfterFunc(20*time.Millisecond, func() { file.Body.Close() })
			io.Copy(io.Discard, file.Body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			freed := make(chan struct{})
			address, host := serveRaw(t, func(conn net.Conn, _ *http.Request, _ int) {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"1\"\r\n\r\n12345")
				gone(conn)
				close(freed)
			})
			c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			file, err := c.Open(ctx, parse(t, address))
			is.NoErr(err)
			leave(cancel, file)
			receive(t, freed)
			n, err := file.Body.Read(make([]byte, 10))
			is.True(n == 0 && errors.Is(err, exports.ErrFailed)) // though bytes had been there
			is.True(errors.Is(err, context.Canceled))
			is.True(errors.Is(err, os.ErrClosed) != (ctx.Err() != nil))
			is.NoErr(file.Body.Close())
		})
	}
}

func TestOpen_leftBeforeTheHeader(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	asked, freed := make(chan struct{}), make(chan struct{})
	address, host := serveRaw(t, func(conn net.Conn, _ *http.Request, _ int) {
		close(asked)
		gone(conn)
		close(freed)
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := c.Open(ctx, parse(t, address))
	is.True(errors.Is(err, context.Canceled))
	receive(t, freed)
}
