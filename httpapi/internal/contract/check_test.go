package contract

import (
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestCheck_ReportsProblems alters valid exchanges, to test the check itself.
func TestCheck_ReportsProblems(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc := loadDocument(t)
	f := newFixture(t, doc)
	valid := map[string]exchange{
		"key":      f.call("getKey", ""),
		"keys":     f.call("listKeys", ""),
		"update":   f.call("updateKey", `{"name":"Viewer"}`),
		"missing":  f.call("getKey", "", withID("9")),
		"rejected": f.call("createKey", `{"name":""}`),
		"file":     f.call("downloadExport", plan),
		"url":      f.call("downloadExport", plan, withQuery("?responseType=urls")),
		"archive":  f.call("downloadExportBatch", `{"items":[`+plan+`]}`),
		"method":   f.sendTo("PUT", "/admin/api-keys", "", nil),
		"no path":  f.sendTo("GET", "/admin", "", nil),
		"document": f.call("getDocument", ""),
		"head":     f.sendTo("HEAD", "/openapi.json", "", nil),
		"issued":   f.call("rotateKey", ""), // last: it replaces the client key
	}
	for name, e := range valid {
		t.Log(name)
		is.Equal(doc.check(e).problems, nil)
	}
	body := func(from, to string) func(*exchange) {
		return func(e *exchange) { e.GotBody = []byte(strings.Replace(string(e.GotBody), from, to, 1)) }
	}
	responseHeader := func(name, value string) func(*exchange) {
		return func(e *exchange) {
			e.GotHeader = e.GotHeader.Clone()
			if e.GotHeader.Set(name, value); value == "" {
				e.GotHeader.Del(name)
			}
		}
	}
	for _, c := range []struct {
		of    string
		alter func(*exchange)
		want  string
	}{
		{"key", func(e *exchange) { e.Status = 204 }, "status 204"},
		{"key", body(`"id":1`, `"id":1,"secret":"x"`), "secret"},
		{"keys", body(`"id":1`, `"id":1,"secret":"x"`), "secret"},
		{"issued", body(`"id":1`, `"id":1,"secret":"x"`), "secret"},
		{"key", body(`"id":1,`, ``), "id"},
		{"key", body(`"id":1`, `"id":"1"`), "/id"},
		{"key", body(`"id":1`, `"id":0`), "/id"},
		{"key", body(`.`, ``), "createdAt"}, // invalidates a time
		{"key", body(`}`, ``), "body"},
		{"key", responseHeader("X-Request-Id", ""), "X-Request-Id is missing"},
		{"key", responseHeader("X-New", "1"), "X-New is not in the document"},
		{"key", responseHeader("Cache-Control", "public"), "Cache-Control"},
		{"key", responseHeader("Content-Length", "many"), "Content-Length"},
		{"key", responseHeader("Content-Type", "text/html"), "text/html"},
		{"key", responseHeader("Content-Type", ""), "Content-Type"},
		{"key", func(e *exchange) { e.GotHeader = e.GotHeader.Clone(); e.GotHeader.Add("X-Request-Id", "2") }, "repeated"},
		{"key", func(e *exchange) { e.Target = "/admin/api-keys/0" }, "parameter id"},
		{"update", func(e *exchange) { e.Body = []byte(`{"name":""}`) }, "accepted"},
		{"update", func(e *exchange) { e.Body = []byte(`{"name"`) }, "accepted"},
		{"update", func(e *exchange) { e.Header = e.Header.Clone(); e.Header.Set("Content-Type", "text/plain") }, "accepted"},
		{"missing", body(`"not_found"`, `"forbidden"`), "code is forbidden"},
		{"missing", body(`"not_found"`, `"lost"`), "code"},
		{"missing", responseHeader("X-Request-Id", "other"), "requestId"},
		{"missing", func(e *exchange) { e.Status = 409 }, "status 409"},
		{"rejected", body(`"code"`, `"skipped":[],"code"`), "skipped"},
		{"file", responseHeader("Content-Type", "application/json"), "body"},
		{"file", responseHeader("Content-Type", "application/geo+json"), "application/geo+json"},
		{"file", responseHeader("Content-Disposition", ""), "file name"},
		{"file", responseHeader("Content-Disposition", "inline"), "Content-Disposition"},
		{"file", func(e *exchange) { e.Body = nil }, "without a body"},
		{"url", func(e *exchange) { e.Target = strings.Replace(e.Target, "urls", "zip", 1) }, "responseType"},
		{"archive", func(e *exchange) { e.GotBody = e.GotBody[:50] }, "zip"},
		{"method", func(e *exchange) { e.Status = 200 }, "status 200"},
		{"method", responseHeader("Allow", "GET"), "Allow"},
		{"no path", func(e *exchange) { e.Status = 200 }, "status 200"},
		{"head", func(e *exchange) { e.GotBody = []byte("{}") }, "unexpected body"},
	} {
		e := valid[c.of]
		c.alter(&e)
		problems := strings.Join(doc.check(e).problems, "\n")
		t.Log(c.of, c.want, problems)
		is.True(strings.Contains(problems, c.want))
	}
}
