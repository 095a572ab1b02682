package fetch_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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

// serveTLS starts an origin that speaks HTTP/2, and returns options for it.
func serveTLS(t testing.TB, handler http.HandlerFunc) (address string, o fetch.Options) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	o.RootCAs = x509.NewCertPool()
	o.RootCAs.AddCert(server.Certificate())
	o.AllowedHosts = []string{strings.TrimPrefix(server.URL, "https://")}
	return server.URL, o
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	address, o := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
			return
		}
		io.WriteString(w, r.Proto)
	})
	c := newClient(t, o)
	content, err := c.read(t, address)
	is.NoErr(err)
	is.Equal(content, "HTTP/2.0")

	_, err = c.read(t, address+"/down")
	is.True(errors.Is(err, exports.ErrForbidden)) // https does not lead back to http

	o.RootCAs = nil
	stranger := newClient(t, o)
	_, err = stranger.read(t, address)
	is.True(errors.Is(err, exports.ErrFailed)) // an unknown authority
	is.Equal(len(stranger.dials()), 1)         // is not tried again
}

func TestHTTP2_streamThatIsReset(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var requests atomic.Int32
	address, o := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		w.Header().Set("ETag", `"1"`)
		first := position(t, r)
		if first > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, len(resumed)-1, len(resumed)))
			w.WriteHeader(http.StatusPartialContent)
		}
		if n < 3 { // before the header, and after it
			if n == 2 {
				w.(http.Flusher).Flush()
			}
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, resumed[first:min(first+9, len(resumed))])
		w.(http.Flusher).Flush()
		if first+9 < len(resumed) {
			panic(http.ErrAbortHandler)
		}
	})
	content, err := newClient(t, o).read(t, address)
	is.NoErr(err)
	is.Equal(content, resumed)
	is.Equal(requests.Load(), int32(2+4))
}

func TestHTTP2_streamIsFreed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	freed := make(chan struct{}, 2)
	address, o := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "content")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		freed <- struct{}{}
	})
	o.IdleTimeout = 100 * time.Millisecond
	c := newClient(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file, err := c.Open(ctx, parse(t, address))
	is.NoErr(err)
	is.NoErr(file.Body.Close())
	receive(t, freed)

	file, err = c.Open(ctx, parse(t, address))
	is.NoErr(err)
	_, err = io.ReadAll(file.Body)
	is.True(errors.Is(err, exports.ErrTimeout)) // idle
	receive(t, freed)
	is.Equal(len(c.dials()), 1) // all over one connection
}
