package fetch_test

import (
	"compress/gzip"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
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

func TestOpener_Open(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var request *http.Request
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		request = r
		w.Header().Set("Content-Type", "application/pdf")
		w.Header().Set("Content-Disposition", `attachment; filename="plan.pdf"; filename*=UTF-8''pl%C3%A4n.pdf`)
		w.Header().Set("Last-Modified", "Tue, 15 Nov 1994 12:45:26 GMT")
		w.Header().Set("ETag", `W/"1"`)
		w.Header().Set("Set-Cookie", "a=b")
		io.WriteString(w, "content")
	})
	c := newClient(t, fetch.Options{AllowedHosts: []string{host}})
	file := must(c.open(t, baseURL+"/a%2Fb ü{}?c=d e%3D[ü]\"<1>#f"))(t)
	is.Equal(file.Size, int64(7))
	is.Equal(file.Type, "application/pdf")
	is.Equal(file.Name, "plän.pdf")
	is.Equal(file.Modified, time.Date(1994, 11, 15, 12, 45, 26, 0, time.UTC))
	is.Equal(file.ETag, `W/"1"`)
	content := must(io.ReadAll(file.Body))(t)
	is.Equal(string(content), "content")
	n, err := file.Body.Read(make([]byte, 1))
	is.True(n == 0 && err == io.EOF) // EOF is sticky

	is.Equal(request.RequestURI, "/a%2Fb%20%C3%BC%7B%7D?c=d%20e%3D[%C3%BC]%22%3C1%3E")
	is.Equal(request.Header, http.Header{"User-Agent": {"canvasback"}, "Accept-Encoding": {"identity"}, "Cdn-Loop": {"canvasback"}})
	must(c.read(t, baseURL))(t)
	is.Equal(request.Header.Get("Cookie"), "") // there is no cookie jar
	is.Equal(c.dials(), []string{host})        // the connection was reused
}

// The file needs a second attempt.
func TestOptions_NegativeIsDefault(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var requests atomic.Int32
	negative := fetch.Options{ConnectTimeout: -1, HeaderTimeout: -1, IdleTimeout: -1, MaxAttempts: -1, MaxBytes: -1}
	c := newOriginClient(t, negative, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "con")
		w.(http.Flusher).Flush()
		io.WriteString(w, "tent")
	})
	is.Equal(must(c.read(t, c.url))(t), "content")
	is.Equal(c.HeaderTimeout(), newOpener(t, fetch.Options{}).HeaderTimeout())
}

// Package net/http reads the proxy settings once in a process, here if anywhere.
// An Opener that used them would send both requests to the proxy.
func TestOpener_IgnoresProxyFromEnvironment(t *testing.T) {
	is := is.New(t)
	proxyURL, _ := startOrigin(t, func(http.ResponseWriter, *http.Request) { t.Error("request to the proxy") })
	t.Setenv("HTTP_PROXY", proxyURL)
	t.Setenv("HTTPS_PROXY", proxyURL)
	t.Setenv("ALL_PROXY", proxyURL)
	c := newClient(t, fetch.Options{MaxAttempts: 1, Resolver: fakeResolver(map[string][]string{"example.test": {"8.8.8.8"}})})
	_, err := c.read(t, "http://example.test/")
	is.True(errors.Is(err, fetch.ErrIntercepted))
	_, err = c.read(t, "https://example.test/")
	is.True(errors.Is(err, fetch.ErrIntercepted))
	is.Equal(c.dials(), []string{"8.8.8.8:80", "8.8.8.8:443"})
}

func TestOpener_OpenRejectsResponse(t *testing.T) {
	t.Parallel()
	respond := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Add(header[i], header[i+1])
			}
			w.WriteHeader(status)
			if status != http.StatusNoContent && status != http.StatusNotModified {
				io.WriteString(w, "1234")
			}
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"201":                       respond(201),
		"204":                       respond(204),
		"unexpected 206":            respond(206, "Content-Range", "bytes 0-3/4"),
		"300":                       respond(300, "Location", "/elsewhere"),
		"304":                       respond(304),
		"redirect without Location": respond(302),
		"redirect to invalid URL":   respond(302, "Location", "http://a b/?secret"),
		"Content-Encoding":          respond(200, "Content-Encoding", "br"),
		"two in Content-Encoding":   respond(200, "Content-Encoding", "gzip, aws-chunked"),
		"two Content-Encodings":     respond(200, "Content-Encoding", "identity", "Content-Encoding", "gzip"),
		"unrequested gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(make([]byte, 1<<20))
			z.Close()
		},
		"header too large": func(w http.ResponseWriter, _ *http.Request) {
			for n := range 11 << 10 {
				w.Header().Set(fmt.Sprintf("Field-%d", n), strings.Repeat("x", 1<<10))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			requests := 0
			c := newOriginClient(t, fetch.Options{}, func(w http.ResponseWriter, r *http.Request) {
				requests++
				handler(w, r)
			})
			_, err := c.read(t, c.url)
			is.True(errors.Is(err, exports.ErrFailed))
			is.True(!strings.Contains(err.Error(), "secret"))
			is.Equal(requests, 1) // the error is permanent
		})
	}
}

func TestOpener_OpenLimitsInterimResponses(t *testing.T) {
	t.Parallel()
	c := newRawClient(t, fetch.Options{MaxAttempts: 1}, func(conn net.Conn, _ *http.Request, _ int) {
		for range 100 {
			fmt.Fprintf(conn, "HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n", strings.Repeat("x", 1<<10))
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
	})
	_, err := c.read(t, c.url)
	is.New(t).True(errors.Is(err, exports.ErrFailed))
}

func TestOpener_OpenMaxBytes(t *testing.T) {
	t.Parallel()
	baseURL, host := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chunked" {
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, "0123456789")
	})
	for _, path := range []string{"/length", "/chunked"} {
		for limit, want := range map[int64]bool{1: false, 9: false, 10: true, 11: true, 0: true, math.MaxInt64: true} {
			c := newClient(t, fetch.Options{AllowedHosts: []string{host}, MaxBytes: limit})
			if _, err := c.open(t, baseURL+path); (err == nil) != (want || path == "/chunked") {
				t.Errorf("Open(%s), MaxBytes %d: %v", path, limit, err)
			}
			content, err := c.read(t, baseURL+path)
			if want != (err == nil) || want && content != "0123456789" || int64(len(content)) > max(limit, 10) {
				t.Errorf("Read(%s), MaxBytes %d: %q, %v", path, limit, content, err)
			}
			if !want && !errors.Is(err, exports.ErrFailed) {
				t.Errorf("Read(%s), MaxBytes %d: %v", path, limit, err)
			}
		}
	}
}

func TestTLS_Open(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
			return
		}
		io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	o := fetch.Options{RootCAs: x509.NewCertPool(), AllowedHosts: []string{server.Listener.Addr().String()}}
	o.RootCAs.AddCert(server.Certificate())
	c := newClient(t, o)
	for range 2 {
		is.Equal(must(c.read(t, server.URL))(t), "HTTP/1.1")
	}
	is.Equal(len(c.dials()), 1) // the connection was reused

	_, err := c.read(t, server.URL+"/down")
	is.True(errors.Is(err, exports.ErrForbidden)) // redirect from https to http

	o.RootCAs = nil
	c = newClient(t, o)
	_, err = c.read(t, server.URL)
	is.True(errors.Is(err, exports.ErrFailed)) // unknown certificate authority
	is.Equal(len(c.dials()), 1)                // no retry
}
