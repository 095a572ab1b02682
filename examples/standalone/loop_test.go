package main

import (
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
		"PROTECT_ROUTES": "false", "EXPORT_DIR": dir, "EXPORT_ALLOWED_HOSTS": "127.0.0.1, localhost",
	})
	register := func(source, exported string) {
		t.Helper()
		status, body := s.send("POST", "/viewer/exports/register", registration(source, exported))
		is.True(status == 200 || status == 201)
		is.True(strings.Contains(string(body), "success"))
	}
	// fails sends a request that must fail.
	fails := func(path, body string) {
		t.Helper()
		is.Equal(s.sendJSON(502, "POST", "/viewer/exports/"+path, body)["code"], "export_failed")
	}
	loops := func() int { return strings.Count(s.log.String(), `"a download link cannot be the file of an export"`) }
	base := s.baseURL()
	origin := must(url.Parse(base))(t)
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(origin))
	t.Cleanup(proxy.Close)

	register("a", "http://files.internal/plan.pdf")
	direct := s.url + "/viewer/exports/" + s.sendJSON(201, "POST", "/viewer/exports/links", single("a"))["url"].(string)
	first := strings.Replace(direct, base, proxy.URL, 1)
	is.Equal(s.sendText(200, "GET", first, ""), "first")

	// A link, one of another name of this machine, and a chain of two.
	register("a", first)
	register("b", strings.Replace(first, "127.0.0.1", "localhost", 1))
	register("c", strings.Replace(first, "/plan.pdf", "/c.pdf", 1))
	for _, name := range []string{"a", "b", "c"} {
		before := loops()
		fails("download", single(name))
		fails("download-batch", batch(name))
		fails("links", single(name))
		fails("links", batch(name))
		is.Equal(loops()-before, 4) // one request each, without a retry
	}
	before := loops()
	register("direct", direct)
	fails("download", single("direct"))
	is.Equal(loops(), before)

	// A link still delivers the file of its plan. When the file changes, the new
	// plan would be the link itself.
	is.Equal(s.sendText(200, "GET", first, ""), "first")
	is.NoErr(os.WriteFile(plan, []byte("second"), 0o600))
	is.Equal(s.status(first), 502)
	is.True(loops()-before <= 3)

	// Routes of this server under another name are fetched once.
	for _, path := range []string{"/viewer/exports/download", "/viewer/exports/download-batch", "/viewer/exports/links", "/admin/api-keys", "/nope"} {
		register("route", proxy.URL+"/api"+path)
		fails("download", single("route"))
	}
}
