package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// SQLite would give each connection a database of its own.
func TestConfig_refusesSQLiteWithoutAFile(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"sqlite:", "sqlite: ", "sqlite::memory:"} {
		env := map[string]string{"ADDR": "127.0.0.1:0", "DATABASE_URL": address}
		lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := run(ctx, lookup, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("%q: %v, want an error that names the variable", address, err)
		}
	}
}

func TestConfig_refuses(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"ADDR": "8080", "PROTECT_ROUTES": "maybe", "REGISTER_WITH": "everyone", "DEMO": "perhaps", "LOG_LEVEL": "loud", "DATABASE_URL": "mysql://x",
		"EXPORT_DIR": "/does/not/exist", "BASE_PATH": "/a?b", "CORS_ORIGINS": "viewer.example", "EXPORT_ALLOWED_HOSTS": "http://x",
	} {
		env := map[string]string{"ADDR": "127.0.0.1:0", "DATABASE_URL": "memory:", name: value}
		lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
		err := run(t.Context(), lookup, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v, want an error that names the variable", name, value, err)
		}
		if !strings.Contains(usage(), name) {
			t.Errorf("-h does not list %s", name)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	s := launch(t, map[string]string{"DATABASE_URL": "memory:"})
	addr := strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/api")
	lookup := func(name string) (string, bool) { return map[string]string{"ADDR": addr}[name], name == "ADDR" }
	err := run(t.Context(), lookup, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("starting twice on %s: %v", addr, err)
	}
}
