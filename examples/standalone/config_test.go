package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/database"
)

func TestRun_RejectsConfig(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for name, values := range map[string][]string{
		"ADDR":             {"8080"},
		"ADMIN_API_KEY":    {"$2a$10$Zg7", "$2a$10$not a bcrypt hash"},
		"BASE_PATH":        {"/a?b"},
		"CLIENT_IP_HEADER": {"X-Real-IP, X-Forwarded-For"},
		"CORS_ORIGINS":     {"viewer.example"},
		"DATABASE_URL": {
			"mysql://x", "postgres://x:y", "canvasback.db", "sqlite:", "sqlite: ", "sqlite://canvas.db",
			"host=db.example dbname=canvas password=secret", "postgres://canvas:p@ss@db.example/canvas",
			"sqlite::memory:",
		},
		"DEMO":                   {"perhaps"},
		"EXPORT_ALLOWED_HOSTS":   {"http://x"},
		"EXPORT_DIR":             {"/does/not/exist"},
		"EXPORT_RESOLVE_TOKEN":   {"secret"},
		"EXPORT_S3_ENDPOINT":     {"https://s3.example"},
		"EXPORT_S3_REGION":       {"eu-central-1"},
		"EXPORT_S3_URL_LIFETIME": {"900", "169h"},
		"LINK_LIFETIME":          {"1", "-1h"},
		"LOG_FORMAT":             {"xml"},
		"LOG_LEVEL":              {"loud"},
		"METRICS_ADDR":           {"9090"},
		"PORT":                   {"0", "65536", "http"},
		"PROTECT_ROUTES":         {"maybe"},
		"PUBLIC_URL":             {"canvas.example", "https://user@canvas.example", "https://canvas.example?x"},
		"REGISTER_WITH":          {"everyone"},
		"SHUTDOWN_TIMEOUT":       {"30"},
		"TENANTS":                {"key"},
		"TLS_CACHE_DIR":          {"certificates"},
		"TLS_DIRECTORY_URL":      {"https://acme.example/directory"},
		"TLS_HOSTS":              {"localhost", "192.0.2.1"},
		"TLS_HTTP_ADDR":          {":80"},
		"TRUSTED_PROXIES":        {"10.0.0.0/33", "127.0.0.1, 0.0.0.0/0", "2000::/3"},
	} {
		for _, value := range values {
			t.Log(name, value)
			err := runError(t, map[string]string{name: value})
			is.True(err != nil && strings.HasPrefix(err.Error(), name+": "))          // one fault names one variable
			is.True(name != "ADMIN_API_KEY" || !strings.Contains(err.Error(), value)) // the key is not shown
			is.True(strings.Contains(new(config).variables().Usage(), name))
		}
	}
}

// HTTPS with a public URL of HTTP would redirect reads to themselves.
func TestRun_RejectsPublicURLWithoutTLS(t *testing.T) {
	t.Parallel()
	err := runError(t, map[string]string{"TLS_HOSTS": "canvas.example", "PUBLIC_URL": "http://canvas.example"})
	is.New(t).True(err != nil && strings.Contains(err.Error(), "PUBLIC_URL"))
}

// TestRun_AcceptsAdminKeys lists keys that are accepted, and one that is not, for each
// value of ADMIN_API_KEY.
func TestRun_AcceptsAdminKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for value, c := range map[string]struct {
		accepted []string
		rejected string
		warns    bool
	}{
		"sixteen letters.":                      {[]string{"sixteen letters."}, "sixteen", false},
		"x":                                     {[]string{"x"}, "y", true},
		"sixteen letters., another one of them": {[]string{"sixteen letters.", "another one of them"}, "sixteen letters., another one of them", false},
		"correct,horse-battery-staple-1":        {[]string{"correct,horse-battery-staple-1"}, "horse-battery-staple-1", true},
		"sixteen letters.,":                     {[]string{"sixteen letters.,"}, "sixteen letters.", true},
		",":                                     {[]string{","}, "x", true},
	} {
		s := startServer(t, map[string]string{"ADMIN_API_KEY": value})
		for _, key := range c.accepted {
			is.Equal(s.status("/admin/api-keys", "x-admin-key", key), 200)
		}
		is.Equal(s.status("/admin/api-keys", "x-admin-key", c.rejected), 401)
		is.Equal(strings.Contains(s.log.String(), "ADMIN_API_KEY is"), c.warns)
	}
}

func TestRun_ListensOnPort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, number, err := net.SplitHostPort(freeAddr(t))
	is.NoErr(err)
	s := startServer(t, map[string]string{"ADDR": "", "PORT": number})
	is.True(strings.Contains(s.log.String(), "listening on all interfaces"))
	is.Equal(s.status(s.url+"/openapi.json"), 200)
	err = runError(t, map[string]string{"ADDR": "", "PORT": number})
	is.True(err != nil && strings.HasPrefix(err.Error(), "PORT: "))
	s = startServer(t, map[string]string{"PORT": number}) // ADDR counts
	is.True(!strings.Contains(s.log.String(), "listening on all interfaces"))
}

func TestCheckHealth(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	env := map[string]string{"ADDR": freeAddr(t), "DATABASE_URL": "memory:"}
	c := must(readConfig(lookupIn(env)))(t)
	is.True(c.checkHealth() != nil)
	startServer(t, env)
	is.NoErr(c.checkHealth())
}

func TestMigrate_IsLogged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	env := map[string]string{"DATABASE_URL": "sqlite:" + filepath.Join(t.TempDir(), "canvas.db")}
	for _, want := range []bool{true, false} {
		s := startServer(t, env)
		is.Equal(strings.Contains(s.log.String(), "database migrated"), want)
		is.NoErr(s.stop())
	}
}

func TestRun_RejectsAddressInUse(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	err := runError(t, map[string]string{"ADDR": strings.TrimPrefix(s.baseURL(), "http://")})
	is.New(t).True(err != nil && strings.Contains(err.Error(), "in use"))
}

// An unsupported or unavailable database is reported although the port is in use.
func TestRun_ChecksDatabaseBeforePort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	missing := filepath.Join(t.TempDir(), "missing", "canvas.db")
	for databaseURL, want := range map[string]string{
		"mysql://x":                     "DATABASE_URL: must be",
		"canvasback.db":                 "sqlite:PATH",
		"sqlite://canvas.db":            "use sqlite:canvas.db",
		"host=db.example dbname=canvas": "postgres://USER:PASSWORD@HOST/DATABASE",
		"sqlite:" + missing:             missing + ": no such file or directory",
		"postgres://127.0.0.1:1/canvas": "DATABASE_URL: open PostgreSQL",
	} {
		t.Log(databaseURL, want)
		err := runError(t, map[string]string{"ADDR": listener.Addr().String(), "DATABASE_URL": databaseURL})
		is.True(err != nil && strings.Contains(err.Error(), want))
	}
}

func TestRun_ErrorsHaveNoCredentials(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, databaseURL := range []string{
		"host=db.example user=SECRET password=SECRET",
		"postgres://SECRET:SECRET/SECRET@db.example/SECRET",
		"postgres://SECRET:SECRET@db.example/SECRET?sslmode=SECRET",
		"postgres://SECRET:SECRET@127.0.0.1:1/SECRET?application_name=SECRET",
	} {
		for _, err := range []error{
			runError(t, map[string]string{"DATABASE_URL": databaseURL}),
			database.BackUp(t.Context(), databaseURL, "backup.db"),
		} {
			t.Log(databaseURL, err)
			is.True(err != nil && !strings.Contains(err.Error(), "SECRET"))
		}
	}
}

func TestLocalURL(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for addr, want := range map[string]string{
		":8080": "http://127.0.0.1:8080", "0.0.0.0:8080": "http://127.0.0.1:8080", "[::]:8080": "http://127.0.0.1:8080",
		"localhost:8080": "http://localhost:8080", "canvas.internal:8080": "http://canvas.internal:8080",
		"[fe80::1%eth0]:8080": "http://[fe80::1%25eth0]:8080",
	} {
		is.Equal(localURL(addr), want)
	}
}
