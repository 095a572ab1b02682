package fetch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// TestHTTP2_RetriesLostConnection has an origin that ends its first connection after the request,
// or is silent. It writes frames of RFC 9113.
func TestHTTP2_RetriesLostConnection(t *testing.T) {
	t.Parallel()
	const (
		settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		goAway   = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x01" + "\x00\x00\x00\x02" // stream 1, INTERNAL_ERROR
		headers  = "\x00\x00\x01\x01\x05\x00\x00\x00\x01" + "\x88"                                  // the end of stream 1, :status 200
	)
	for name, response := range map[string]string{"goaway": goAway, "silent": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var conns atomic.Int32
			server := httptest.NewUnstartedServer(nil)
			server.TLS = &tls.Config{NextProtos: []string{"h2"}}
			server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
				isFirst := conns.Add(1) == 1
				io.WriteString(conn, settings)
				io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
				for header := make([]byte, 9); header[3] != 1; { // HEADERS
					if _, err := io.ReadFull(conn, header); err != nil {
						return
					}
					io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(header)>>8))
				}
				if !isFirst {
					io.WriteString(conn, headers)
				} else if io.WriteString(conn, response); response != "" {
					return
				}
				io.Copy(io.Discard, conn)
			}}
			server.StartTLS()
			t.Cleanup(server.Close)
			o := fetch.Options{RootCAs: x509.NewCertPool(), AllowedHosts: []string{server.Listener.Addr().String()}, ConnectTimeout: time.Second}
			o.RootCAs.AddCert(server.Certificate())
			content, err := newClient(t, o).read(t, server.URL)
			is.NoErr(err)
			is.Equal(content, "")
			is.Equal(conns.Load(), int32(2))
		})
	}
}

func TestHTTP2_DoesNotRetryTimeout(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var requests atomic.Int32
	baseURL, o := startHTTP2Origin(t, func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		<-r.Context().Done()
	})
	o.HeaderTimeout = 100 * time.Millisecond
	_, err := newClient(t, o).read(t, baseURL)
	is.True(errors.Is(err, exports.ErrTimeout))
	is.Equal(requests.Load(), int32(1))
}

// TestHTTP2_BuffersLittle opens files that nobody reads.
func TestHTTP2_BuffersLittle(t *testing.T) {
	is := is.New(t)
	const files, most = 16, 3 << 19
	content := make([]byte, 8<<20)
	baseURL, o := startHTTP2Origin(t, func(w http.ResponseWriter, r *http.Request) { w.Write(content) })
	c := newClient(t, o)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for range files {
		file, err := c.open(t, baseURL)
		is.NoErr(err)
		_, err = io.ReadFull(file.Body, make([]byte, 1))
		is.NoErr(err)
	}
	time.Sleep(time.Second) // the origin sends as much as it may
	is.True(heap()-before < files*most)
	runtime.KeepAlive(content)
}
