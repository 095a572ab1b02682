package fetch

import (
	"context"
	"errors"
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

	"example.com/canvasback/exports"
)

func TestHosts_AdaptToOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, overload := range map[string]error{
			"429":     &statusError{status: http.StatusTooManyRequests},
			"503":     &statusError{status: http.StatusServiceUnavailable},
			"timeout": exports.ErrTimeout,
			"header":  &net.OpError{Op: "read", Err: context.DeadlineExceeded},
			"dial":    &net.OpError{Op: "dial", Err: net.ErrClosed},
		} {
			t.Log(name)
			is := is.New(t)
			o, err := New(nil)
			is.NoErr(err)
			u := &url.URL{Host: "a"}
			record := func(n int, err error) {
				for range n {
					o.hosts.record(u.Host, err)
				}
			}
			is.Equal(o.Concurrency(u), 6)
			record(4, nil)
			is.Equal(o.Concurrency(u), 10)
			record(40, &statusError{status: http.StatusNotFound})
			is.Equal(o.Concurrency(u), 10)
			record(100, nil)
			is.Equal(o.Concurrency(u), 16)
			record(16, overload) // at the same time
			is.Equal(o.Concurrency(u), 8)
			record(8, nil)
			is.Equal(o.Concurrency(u), 8)
			record(200, nil)
			is.Equal(o.Concurrency(u), 16)
			for range 10 {
				time.Sleep(2 * time.Second)
				record(1, overload)
			}
			is.Equal(o.Concurrency(u), 2)
			is.Equal(o.Concurrency(&url.URL{Host: "b"}), 6)
		}
	})
}

// TestOpener_ReducesConcurrency has an origin that rejects one request.
func TestOpener_ReducesConcurrency(t *testing.T) {
	is := is.New(t)
	var requests atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 5 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer origin.Close()
	u, err := url.Parse(origin.URL)
	is.NoErr(err)
	o, err := New(&Options{AllowedHosts: []string{u.Host}})
	is.NoErr(err)
	defer o.CloseIdleConnections()
	o.initialBackoff = time.Millisecond
	var seen []int
	for range 6 {
		file, err := o.Open(t.Context(), u)
		is.NoErr(err)
		is.NoErr(file.Body.Close())
		seen = append(seen, o.Concurrency(u))
	}
	is.Equal(seen, []int{7, 8, 9, 10, 5, 5})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = o.Open(ctx, u)
	is.True(err != nil)
	is.Equal(o.Concurrency(u), 5) // the caller ended it
}

// The context of a file may end between the response header and the first byte:
// the client leaves, or the time to open the file is over. Only an internal test
// hits that moment every time.
func TestStream_PeekAfterContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // fails if Peek blocks
		cause := errors.New("client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := newStream(ctx, cancel, &http.Response{Body: io.NopCloser(strings.NewReader("content"))}, time.Minute)
		defer s.close()
		cancel(cause)
		_, err := s.content.Peek(1)
		is.New(t).True(errors.Is(err, cause))
	})
}

type countingReader struct {
	io.Reader
	reads int
}

func (r *countingReader) Read(p []byte) (int, error) {
	r.reads++
	return r.Reader.Read(p)
}

// An origin without ranges sends all that precedes the range.
func TestStream_ShortReadDiscardsInLargeReads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const size = 4 << 20
	ctx, cancel := context.WithCancelCause(t.Context())
	content := &countingReader{Reader: strings.NewReader(strings.Repeat(" ", size-1) + "x")}
	s := newStream(ctx, cancel, &http.Response{Body: io.NopCloser(content)}, time.Minute)
	defer s.close()
	is.NoErr(s.start(part{length: size, size: size}, size-1, size))
	p := make([]byte, 1)
	n, err := s.Read(p)
	is.NoErr(err)
	is.Equal(string(p[:n]), "x")
	is.True(content.reads < 100)
}

func TestHosts_HaveNoLetterCase(t *testing.T) {
	is := is.New(t)
	o, err := New(&Options{MaxAttempts: 1, AllowedHosts: []string{"localhost:1"}})
	is.NoErr(err)
	for range 3 {
		o.Open(t.Context(), &url.URL{Scheme: "http", Host: "LOCALHOST:1"})
	}
	upper, lower := o.Concurrency(&url.URL{Host: "LOCALHOST:1"}), o.Concurrency(&url.URL{Host: "localhost:1"})
	is.True(upper == lower && lower < initialConcurrency)
}
