package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestRun_RejectsConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value string }{
		{"ADDR", "8080"},
		{"ADMIN_API_KEY", "x"},
		{"ADMIN_API_KEY", "fifteen letters"},
		{"ADMIN_API_KEY", "a key that is long enough, but one that"},
		{"ALLOW_SHORT_ADMIN_KEYS", "perhaps"},
		{"BASE_PATH", "/a?b"},
		{"CLIENT_IP_HEADER", "X-Real-IP, X-Forwarded-For"},
		{"CORS_ORIGINS", "viewer.example"},
		{"DATABASE_URL", "mysql://x"},
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
		{"LOG_LEVEL", "loud"},
		{"METRICS_ADDR", "9090"},
		{"ADMIN_API_KEY", "$2a$10$not a bcrypt hash"},
		{"PROTECT_ROUTES", "maybe"},
		{"REGISTER_WITH", "everyone"},
	} {
		env := map[string]string{"ADDR": "127.0.0.1:0", "DATABASE_URL": "memory:"}
		env[c.name] = c.value
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := run(ctx, lookupIn(env), io.Discard, io.Discard)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s=%q: error %v, want one with the name of the variable", c.name, c.value, err)
		}
		if err != nil && c.name == "ADMIN_API_KEY" && strings.Contains(err.Error(), c.value) {
			t.Errorf("the error shows the key: %v", err)
		}
		if !strings.Contains(usage(), c.name) {
			t.Errorf("-h does not list %s", c.name)
		}
	}
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
	err := run(t.Context(), lookupIn(map[string]string{"ADDR": addr}), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second server on %s: error %v, want one that contains \"in use\"", addr, err)
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
