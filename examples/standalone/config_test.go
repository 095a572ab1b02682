package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestRun_RejectsConfig(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, c := range []struct{ name, value string }{
		{"ADDR", "8080"},
		{"ADMIN_API_KEY", " , "},
		{"ADMIN_API_KEY", "x"},
		{"ADMIN_API_KEY", "fifteen letters"},
		{"ADMIN_API_KEY", "a key that is long enough, but one that"},
		{"ALLOW_SHORT_ADMIN_KEYS", "perhaps"},
		{"BASE_PATH", "/a?b"},
		{"CLIENT_IP_HEADER", "X-Real-IP, X-Forwarded-For"},
		{"CORS_ORIGINS", "viewer.example"},
		{"DATABASE_URL", "mysql://x"},
		{"DATABASE_URL", "postgres://x:y"},
		{"DATABASE_URL", "canvasback.db"},
		{"DATABASE_URL", "sqlite:"},
		{"DATABASE_URL", "sqlite: "},
		{"DATABASE_URL", "sqlite::memory:"},
		{"DEMO", "perhaps"},
		{"EXPORT_ALLOWED_HOSTS", "http://x"},
		{"EXPORT_DIR", "/does/not/exist"},
		{"EXPORT_S3_ENDPOINT", "https://s3.example"},
		{"EXPORT_S3_URL_LIFETIME", "900"},
		{"EXPORT_S3_URL_LIFETIME", "169h"},
		{"LINK_LIFETIME", "1"},
		{"LINK_LIFETIME", "-1h"},
		{"LOG_FORMAT", "xml"},
		{"LOG_LEVEL", "loud"},
		{"METRICS_ADDR", "9090"},
		{"ADMIN_API_KEY", "$2a$10$not a bcrypt hash"},
		{"PROTECT_ROUTES", "maybe"},
		{"PUBLIC_URL", "canvas.example"},
		{"PUBLIC_URL", "https://user@canvas.example"},
		{"PUBLIC_URL", "https://canvas.example?x"},
		{"REGISTER_WITH", "everyone"},
		{"SHUTDOWN_TIMEOUT", "30"},
		{"TLS_CACHE_DIR", "certificates"},
		{"TLS_DIRECTORY_URL", "https://acme.example/directory"},
		{"TLS_HOSTS", "localhost"},
		{"TLS_HOSTS", "192.0.2.1"},
		{"TLS_HTTP_ADDR", ":80"},
		{"TRUSTED_PROXIES", "10.0.0.0/33"},
	} {
		t.Log(c.name, c.value)
		env := map[string]string{"ADDR": "127.0.0.1:0", "DATABASE_URL": "memory:"}
		env[c.name] = c.value
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := run(ctx, lookupIn(env), nil, io.Discard, io.Discard)
		cancel()
		is.True(err != nil && strings.Contains(err.Error(), c.name))
		is.True(c.name != "ADMIN_API_KEY" || !strings.Contains(err.Error(), c.value)) // the key is not shown
		is.True(strings.Contains(usage(), c.name))
	}
}

// HTTPS with a public URL of HTTP would redirect reads to themselves.
func TestRun_RejectsPublicURLWithoutTLS(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DATABASE_URL": "memory:", "TLS_HOSTS": "canvas.example", "PUBLIC_URL": "http://canvas.example"}
	err := run(t.Context(), lookupIn(env), nil, io.Discard, io.Discard)
	is.New(t).True(err != nil && strings.Contains(err.Error(), "PUBLIC_URL"))
}

func TestRun_AcceptsAdminKeys(t *testing.T) {
	t.Parallel()
	for _, env := range []map[string]string{
		{"ADMIN_API_KEY": "sixteen letters."},
		{"ADMIN_API_KEY": "x", "ALLOW_SHORT_ADMIN_KEYS": "true"},
	} {
		env["DATABASE_URL"] = "memory:"
		s := startServer(t, env)
		s.sendJSON(201, "POST", "/admin/api-keys", "", "x-admin-key", env["ADMIN_API_KEY"])
	}
}

func TestRun_RejectsAddressInUse(t *testing.T) {
	t.Parallel()
	s := startServer(t, map[string]string{"DATABASE_URL": "memory:"})
	addr := strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/api")
	err := run(t.Context(), lookupIn(map[string]string{"ADDR": addr, "DATABASE_URL": "memory:"}), nil, io.Discard, io.Discard)
	is.New(t).True(err != nil && strings.Contains(err.Error(), "in use"))
}

// An unsupported or unavailable database is reported although the port is in use.
func TestRun_ChecksDatabaseBeforePort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	defer listener.Close()
	missing := filepath.Join(t.TempDir(), "missing", "canvas.db")
	for databaseURL, want := range map[string]string{
		"mysql://x":                     "DATABASE_URL must be",
		"canvasback.db":                 "use sqlite:canvasback.db",
		"sqlite:" + missing:             missing + ": no such file or directory",
		"postgres://127.0.0.1:1/canvas": "DATABASE_URL: open PostgreSQL",
	} {
		t.Log(databaseURL, want)
		err := run(t.Context(), lookupIn(map[string]string{"ADDR": listener.Addr().String(), "DATABASE_URL": databaseURL}), nil, io.Discard, io.Discard)
		is.True(err != nil && strings.Contains(err.Error(), want))
	}
}

func TestPostgresConfig_SetsConnectTimeout(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for databaseURL, want := range map[string]time.Duration{
		"postgres://db.example/canvas":                   2 * time.Second,
		"postgres://db.example/canvas?connect_timeout=7": 7 * time.Second,
	} {
		config, err := postgresConfig(databaseURL)
		is.NoErr(err)
		is.Equal(config.ConnConfig.ConnectTimeout, want)
	}
}

func TestPostgresConfig_SelectsPrimaryOfSeveralServers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for databaseURL, want := range map[string]bool{
		"postgres://db.example/canvas":                      false,
		"postgres://db.example/canvas?sslmode=prefer":       false, // falls back to the same server
		"postgres://a.example,b.example/canvas":             true,
		"postgres://db.example:5432,db.example:5433/canvas": true,
	} {
		config, err := postgresConfig(databaseURL)
		is.NoErr(err)
		is.Equal(config.ConnConfig.ValidateConnect != nil, want)
	}
}
