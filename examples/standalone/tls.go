package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// tlsConfig selects the certificates of an HTTPS server.
type tlsConfig struct {
	hosts        []string // none: HTTP
	cacheDir     string
	directoryURL string // of the ACME server
	httpAddr     string // empty: no HTTP beside HTTPS
}

func (c tlsConfig) enabled() bool { return len(c.hosts) > 0 }

func (e *environment) tls() tlsConfig {
	c := tlsConfig{
		hosts:        e.list("TLS_HOSTS"),
		cacheDir:     e.text("TLS_CACHE_DIR", "certificates"),
		directoryURL: e.url("TLS_DIRECTORY_URL"),
		httpAddr:     e.address("TLS_HTTP_ADDR", ""),
	}
	for _, host := range c.hosts {
		if !strings.Contains(host, ".") || strings.ContainsAny(host, ":/*") || net.ParseIP(host) != nil {
			e.fail("TLS_HOSTS must be names such as canvas.example, not %q: ACME servers issue no certificate for others", host)
		}
	}
	for _, name := range []string{"TLS_CACHE_DIR", "TLS_DIRECTORY_URL", "TLS_HTTP_ADDR"} {
		if !c.enabled() && e.text(name, "") != "" {
			e.fail("%s requires TLS_HOSTS", name)
		}
	}
	return c
}

// manager returns the source of certificates. It checks that the cache can be
// written: without it each start requests a certificate, and ACME servers limit them.
func (c tlsConfig) manager() (*autocert.Manager, error) {
	if err := os.MkdirAll(c.cacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("TLS_CACHE_DIR: %w", err)
	}
	file, err := os.CreateTemp(c.cacheDir, ".writable-*")
	if err != nil {
		return nil, fmt.Errorf("TLS_CACHE_DIR: %w", err)
	}
	file.Close()
	os.Remove(file.Name())
	m := &autocert.Manager{
		Prompt:     autocert.AcceptTOS,
		HostPolicy: autocert.HostWhitelist(c.hosts...),
		Cache:      autocert.DirCache(c.cacheDir),
	}
	if c.directoryURL != "" {
		m.Client = &acme.Client{DirectoryURL: c.directoryURL}
	}
	return m, nil
}

// config returns the TLS configuration with certificates of m. It logs why a host has
// no certificate; other hosts, which scanners ask for, are logged at debug level.
func (c tlsConfig) config(m *autocert.Manager, log *slog.Logger) *tls.Config {
	config := m.TLSConfig()
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		certificate, err := m.GetCertificate(hello)
		if err != nil {
			level := slog.LevelWarn
			if !slices.Contains(c.hosts, strings.ToLower(hello.ServerName)) {
				level = slog.LevelDebug
			}
			log.Log(hello.Context(), level, "no certificate", "host", hello.ServerName, "error", err)
		}
		return certificate, err
	}
	return config
}

// redirectTo redirects reads to baseURL. It returns an error for other requests,
// because their keys and bodies have been sent in clear text.
func redirectTo(baseURL string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "use "+baseURL, http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, baseURL+r.URL.RequestURI(), http.StatusPermanentRedirect)
	}
}
