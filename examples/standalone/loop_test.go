package main

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// A URL of this server as the file of an export leads to at most one more request.
// The server rejects its own listener, so the URLs lead through a proxy.
func TestServer_BoundsLoops(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	plan := filepath.Join(dir, "plan.pdf")
	is.NoErr(os.WriteFile(plan, []byte("first"), 0o600))
	modified := time.Now().Add(-time.Hour)
	is.NoErr(os.Chtimes(plan, modified, modified))
	s := startServer(t, map[string]string{
		"DATABASE_URL": "memory:", "PROTECT_ROUTES": "false", "EXPORT_DIR": dir, "EXPORT_ALLOWED_HOSTS": "127.0.0.1, localhost",
	})
	send := func(status int, path, body string) map[string]any {
		t.Helper()
		return s.sendJSON(status, "POST", "/viewer/exports/"+path, body, "Content-Type", "application/json")
	}
	register := func(source, exported string) {
		t.Helper()
		status, body := s.send("POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":%q,"exportedUrl":%q}`, source, exported), "Content-Type", "application/json")
		is.True(status == 200 || status == 201)
		is.True(strings.Contains(string(body), "success"))
	}
	source := func(source string) string { return fmt.Sprintf(`{"sourceFileUrl":%q}`, source) }
	item := func(name string) string { return `{"items":[` + source(name) + `]}` }
	link := func(name string) string {
		return s.url + "/viewer/exports/" + send(201, "links", source(name))["url"].(string)
	}
	loops := func() int { return strings.Count(s.log.String(), `"a download link cannot be the file of an export"`) }
	base := strings.TrimSuffix(s.url, "/api")
	origin := must(url.Parse(base))(t)
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(origin))
	t.Cleanup(proxy.Close)

	register("a", "http://files.internal/plan.pdf")
	direct := link("a")
	first := strings.Replace(direct, base, proxy.URL, 1)
	status, content := s.send("GET", first, "")
	is.Equal(status, 200)
	is.Equal(string(content), "first")

	// A link, one of another name of this machine, and a chain of two.
	register("a", first)
	register("b", strings.Replace(first, "127.0.0.1", "localhost", 1))
	register("c", strings.Replace(first, "/plan.pdf", "/c.pdf", 1))
	for _, name := range []string{"a", "b", "c"} {
		before := loops()
		is.Equal(send(502, "download", source(name))["code"], "export_failed")
		is.Equal(send(502, "download-batch", item(name))["code"], "export_failed")
		is.Equal(send(502, "links", source(name))["code"], "export_failed")
		is.Equal(send(502, "links", item(name))["code"], "export_failed")
		is.Equal(loops()-before, 4) // one request each, without a retry
	}
	before := loops()
	register("direct", direct)
	is.Equal(send(502, "download", source("direct"))["code"], "export_failed")
	is.Equal(loops(), before)

	// A link still delivers the file of its plan. When the file changes, the new
	// plan would be the link itself.
	status, content = s.send("GET", first, "")
	is.Equal(status, 200)
	is.Equal(string(content), "first")
	is.NoErr(os.WriteFile(plan, []byte("second"), 0o600))
	status, _ = s.send("GET", first, "")
	is.Equal(status, 502)
	is.True(loops()-before <= 3)

	// Routes of this server under another name are fetched once.
	for _, path := range []string{"/viewer/exports/download", "/viewer/exports/download-batch", "/viewer/exports/links", "/admin/api-keys", "/nope"} {
		register("route", proxy.URL+"/api"+path)
		is.Equal(send(502, "download", source("route"))["code"], "export_failed")
	}
}
