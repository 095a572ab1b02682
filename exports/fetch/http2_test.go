package fetch_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

// startHTTP2Origin starts an HTTP/2 origin and returns options for it.
func startHTTP2Origin(t testing.TB, handler http.HandlerFunc) (baseURL string, o fetch.Options) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	o.RootCAs = x509.NewCertPool()
	o.RootCAs.AddCert(server.Certificate())
	o.AllowedHosts = []string{strings.TrimPrefix(server.URL, "https://")}
	return server.URL, o
}

func TestHTTP2_Open(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	baseURL, o := startHTTP2Origin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
			return
		}
		io.WriteString(w, r.Proto)
	})
	c := newClient(t, o)
	content, err := c.read(t, baseURL)
	is.NoErr(err)
	is.Equal(content, "HTTP/2.0")

	_, err = c.read(t, baseURL+"/down")
	is.True(errors.Is(err, exports.ErrForbidden)) // redirect from https to http

	o.RootCAs = nil
	c = newClient(t, o)
	_, err = c.read(t, baseURL)
	is.True(errors.Is(err, exports.ErrFailed)) // unknown certificate authority
	is.Equal(len(c.dials()), 1)                // no retry
}

func TestHTTP2_ResumesAfterStreamReset(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var requests atomic.Int32
	baseURL, o := startHTTP2Origin(t, func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		w.Header().Set("ETag", `"1"`)
		first := rangeStart(t, r)
		if first > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, len(testFile)-1, len(testFile)))
			w.WriteHeader(http.StatusPartialContent)
		}
		if n < 3 { // before the header, and after it
			if n == 2 {
				w.(http.Flusher).Flush()
			}
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, testFile[first:min(first+9, len(testFile))])
		w.(http.Flusher).Flush()
		if first+9 < len(testFile) {
			panic(http.ErrAbortHandler)
		}
	})
	content, err := newClient(t, o).read(t, baseURL)
	is.NoErr(err)
	is.Equal(content, testFile)
	is.Equal(requests.Load(), int32(2+5)) // the first resume repeats one byte, because the size is unknown
}

func TestHTTP2_FreesStream(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	closed := make(chan struct{}, 2)
	baseURL, o := startHTTP2Origin(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "content")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		closed <- struct{}{}
	})
	o.IdleTimeout = 100 * time.Millisecond
	c := newClient(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file, err := c.Open(ctx, parse(t, baseURL))
	is.NoErr(err)
	is.NoErr(file.Body.Close())
	receive(t, closed)

	file, err = c.Open(ctx, parse(t, baseURL))
	is.NoErr(err)
	_, err = io.ReadAll(file.Body)
	is.True(errors.Is(err, exports.ErrTimeout)) // idle timeout
	receive(t, closed)
	is.Equal(len(c.dials()), 1) // one connection for all streams
}
