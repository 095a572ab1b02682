package acme_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/acme"
)

func TestCheck_RejectsImpossibleHosts(t *testing.T) {
	is := is.New(t)
	for _, host := range []string{"canvas", "a.example b.example", "canvas.example.", "canvas..example", "canvas.example:443", "127.0.0.1", "*.example", "my_canvas.example", "-a.example"} {
		c := acme.Config{Hosts: []string{host}}
		is.True(c.Check() != nil) // host
	}
}

// TestTLS_LogsMissingCertificate requests certificates for host names in another spelling.
func TestTLS_LogsMissingCertificate(t *testing.T) {
	for host, name := range map[string]string{
		"canvas.example": "canvas.example", "Canvas.Example": "canvas.example", "m\u00fcnchen.example": "xn--mnchen-3ya.example",
	} {
		is := is.New(t)
		c := acme.Config{Hosts: []string{host}, CacheDir: t.TempDir(), DirectoryURL: "https://127.0.0.1:9/"}
		is.NoErr(c.Check())
		m, err := c.Manager(t.Context())
		is.NoErr(err)
		var log bytes.Buffer
		_, err = c.TLS(m, slog.New(slog.NewTextHandler(&log, nil))).GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		is.True(err != nil)
		is.True(strings.Contains(log.String(), "no certificate"))
	}
}
