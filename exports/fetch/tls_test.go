package fetch_test

import (
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

// startTLSOrigin starts an origin that prefers HTTP/2, and returns options for it.
func startTLSOrigin(t testing.TB, handler http.HandlerFunc) (baseURL string, o fetch.Options) {
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

func TestTLS_Open(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	baseURL, o := startTLSOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
			return
		}
		io.WriteString(w, r.Proto)
	})
	c := newClient(t, o)
	content := must(c.read(t, baseURL))(t)
	is.Equal(content, "HTTP/1.1")

	_, err := c.read(t, baseURL+"/down")
	is.True(errors.Is(err, exports.ErrForbidden)) // redirect from https to http

	o.RootCAs = nil
	c = newClient(t, o)
	_, err = c.read(t, baseURL)
	is.True(errors.Is(err, exports.ErrFailed)) // unknown certificate authority
	is.Equal(len(c.dials()), 1)                // no retry
}
