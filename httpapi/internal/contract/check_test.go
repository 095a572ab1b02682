package contract

import (
	"strings"
	"testing"
)

// TestJudge_findsWhatIsWrong alters good exchanges, so that the other tests
// cannot pass because nothing is looked at.
func TestJudge_findsWhatIsWrong(t *testing.T) {
	t.Parallel()
	doc := loadDocument(t)
	w := newWorld(t, doc)
	good := map[string]exchange{
		"key":      w.do("getKey", ""),
		"keys":     w.do("listKeys", ""),
		"update":   w.do("updateKey", `{"name":"Viewer"}`),
		"missing":  w.do("getKey", "", at("9")),
		"refused":  w.do("createKey", `{"name":""}`),
		"file":     w.do("downloadExport", `{"sourceFileUrl":"https://viewer.example/documents/17"}`),
		"address":  w.do("downloadExport", `{"sourceFileUrl":"https://viewer.example/documents/17"}`, query("?responseType=urls")),
		"archive":  w.do("downloadExportBatch", `{"items":[{"sourceFileUrl":"https://viewer.example/documents/17"}]}`),
		"method":   w.sendTo("PUT", "/admin/api-keys", "", nil),
		"no path":  w.sendTo("GET", "/admin", "", nil),
		"document": w.do("getDocument", ""),
		"head":     w.sendTo("HEAD", "/openapi.json", "", nil),
		"issued":   w.do("rotateKey", ""), // the end of the client key
	}
	for name, e := range good {
		if problems := doc.judge(e).problems; problems != nil {
			t.Errorf("%s: %q", name, problems)
		}
	}
	body := func(old, new string) func(*exchange) {
		return func(e *exchange) { e.GotBody = []byte(strings.Replace(string(e.GotBody), old, new, 1)) }
	}
	got := func(name, value string) func(*exchange) {
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
		{"key", body(`.`, ``), "createdAt"}, // a time without milliseconds has no point
		{"key", body(`}`, ``), "body"},
		{"key", got("X-Request-Id", ""), "X-Request-Id is missing"},
		{"key", got("X-New", "1"), "X-New is not in the document"},
		{"key", got("Cache-Control", "public"), "Cache-Control"},
		{"key", got("Content-Length", "many"), "Content-Length"},
		{"key", got("Content-Type", "text/html"), "text/html"},
		{"key", got("Content-Type", ""), "Content-Type"},
		{"key", func(e *exchange) { e.GotHeader = e.GotHeader.Clone(); e.GotHeader.Add("X-Request-Id", "2") }, "more than once"},
		{"key", func(e *exchange) { e.Target = "/admin/api-keys/0" }, "parameter id"},
		{"update", func(e *exchange) { e.Body = []byte(`{"name":""}`) }, "accepted"},
		{"update", func(e *exchange) { e.Body = []byte(`{"name"`) }, "accepted"},
		{"update", func(e *exchange) { e.Header = e.Header.Clone(); e.Header.Set("Content-Type", "text/plain") }, "accepted"},
		{"missing", body(`"not_found"`, `"forbidden"`), "code is forbidden"},
		{"missing", body(`"not_found"`, `"lost"`), "code"},
		{"missing", got("X-Request-Id", "other"), "requestId"},
		{"missing", func(e *exchange) { e.Status = 409 }, "status 409"},
		{"refused", body(`"code"`, `"skipped":[],"code"`), "skipped"},
		{"file", got("Content-Type", "application/json"), "body"},
		{"file", got("Content-Type", "application/geo+json"), "application/geo+json"},
		{"file", got("Content-Disposition", ""), "file name"},
		{"file", got("Content-Disposition", "inline"), "Content-Disposition"},
		{"file", func(e *exchange) { e.Body = nil }, "without its body"},
		{"address", func(e *exchange) { e.Target = strings.Replace(e.Target, "urls", "zip", 1) }, "responseType"},
		{"archive", func(e *exchange) { e.GotBody = e.GotBody[:50] }, "zip"},
		{"method", func(e *exchange) { e.Status = 200 }, "status 200"},
		{"method", got("Allow", "GET"), "Allow"},
		{"no path", func(e *exchange) { e.Status = 200 }, "status 200"},
		{"head", func(e *exchange) { e.GotBody = []byte("{}") }, "there is a body"},
	} {
		e := good[c.of]
		c.alter(&e)
		if problems := strings.Join(doc.judge(e).problems, "\n"); !strings.Contains(problems, c.want) {
			t.Errorf("%s, altered, is found to have %q, want %q in it", c.of, problems, c.want)
		}
	}
}
