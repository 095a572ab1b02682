// Package acme serves HTTPS with certificates of an ACME server, such as Let's Encrypt.
package acme

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"
)

// Config selects certificates.
type Config struct {
	Hosts        []string // none: HTTP
	CacheDir     string   // "certificates" if empty
	DirectoryURL string   // of the ACME server; that of Let's Encrypt if empty
}

// Enabled reports whether there are hosts.
func (c *Config) Enabled() bool { return len(c.Hosts) > 0 }

// Check returns an error for a host for which no ACME server issues a certificate.
func (c *Config) Check() error {
	for _, host := range c.Hosts {
		labels := strings.Split(host, ".")
		_, err := idna.Lookup.ToASCII(host) // autocert ignores a host for which it fails
		if err != nil || len(labels) < 2 || slices.Contains(labels, "") || net.ParseIP(host) != nil {
			return fmt.Errorf("must be names such as canvas.example, not %q: ACME servers issue no certificate for others", host)
		}
	}
	return nil
}

// Manager returns the source of certificates. It checks that the cache can be
// written: without it each start requests a certificate, and ACME servers limit them.
func (c *Config) Manager(ctx context.Context) (*autocert.Manager, error) {
	cache := autocert.DirCache(cmp.Or(c.CacheDir, "certificates"))
	const name = "writable"
	if err := errors.Join(cache.Put(ctx, name, nil), cache.Delete(ctx, name)); err != nil {
		return nil, err
	}
	return &autocert.Manager{
		Prompt:     autocert.AcceptTOS,
		HostPolicy: autocert.HostWhitelist(c.Hosts...),
		Cache:      cache,
		Client:     &acme.Client{DirectoryURL: cmp.Or(c.DirectoryURL, autocert.DefaultACMEDirectory)},
	}, nil
}

// TLS returns the TLS configuration with certificates of m. It logs why a host has no
// certificate.
func (c *Config) TLS(m *autocert.Manager, log *slog.Logger) *tls.Config {
	config := m.TLSConfig()
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		certificate, err := m.GetCertificate(hello)
		if err != nil && m.HostPolicy(context.Background(), strings.ToLower(hello.ServerName)) == nil {
			log.Warn("no certificate", "host", hello.ServerName, "error", err)
		}
		return certificate, err
	}
	return config
}
