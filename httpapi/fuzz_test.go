package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// world is a handler and a little of everything behind it.
type world struct {
	t       *testing.T
	options httpapi.Options
	handler http.Handler
	rawKey  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	opener, err := files.New(filesURL, fstest.MapFS{"a.pdf": {Data: []byte("%PDF-2.0")}})
	if err != nil {
		t.Fatal(err)
	}
	db, now := memory.New(), func() time.Time { return time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC) }
	w := &world{t: t, options: httpapi.Options{
		Keys:      newKeyService(t, db.Keys(), &keys.Options{Now: now, CacheSize: 256}),
		Symbols:   symbols.NewService(db.Symbols(), nil),
		Exports:   exports.NewService(db.Exports(), &exports.Options{Now: now, Openers: []exports.Opener{opener}}),
		AdminKeys: []string{adminKey},
		Logger:    slog.New(slog.DiscardHandler),
	}}
	ctx := t.Context()
	issued, err := w.options.Keys.Create(ctx, keys.Fields{})
	if err == nil {
		_, err = w.options.Symbols.CreateFolder(ctx, "A")
	}
	if err == nil {
		_, err = w.options.Symbols.CreateSymbol(ctx, 1, "s", "a/b", "c")
	}
	if err == nil {
		_, _, err = w.options.Exports.Register(ctx, "s", filesURL+"a.pdf", "")
	}
	if err == nil {
		_, err = w.options.Keys.Verify(ctx, string(issued.Raw)) // so that its time of last use moves no more
	}
	if err != nil {
		t.Fatal(err)
	}
	w.rawKey, w.handler = string(issued.Raw), httpapi.Handler(w.options)
	return w
}

// state is all that the services know.
func (w *world) state() string {
	ctx := w.t.Context()
	keyList, err := w.options.Keys.List(ctx)
	folders, err2 := w.options.Symbols.ListFolders(ctx)
	page, err3 := w.options.Symbols.ListSymbols(ctx, 1, 0)
	export, err4 := w.options.Exports.Find(ctx, "s")
	return fmt.Sprint(keyList, folders, page, export, err, err2, err3, err4)
}

// response serves a request and checks what is true of every response.
func (w *world) response(r *http.Request) response {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	got := response{t: w.t, status: recorder.Code, header: recorder.Header(), body: recorder.Body.Bytes()}
	switch {
	case got.status >= 500, got.status >= 300 && got.status < 400 && got.status != 304:
		w.t.Fatalf("status is %d: %.300s", got.status, got.body)
	case got.status >= 400:
		w.checkError(got)
	}
	return got
}

// codes are those of the statuses that a client can bring about alone.
var codes = map[int]string{
	400: "invalid_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 409: "conflict",
	412: "precondition_failed", 413: "too_large", 415: "unsupported_media_type", 429: "too_many_requests",
}

func (w *world) checkError(got response) {
	w.t.Helper()
	var body struct {
		Message, Code, RequestID string
		Skipped                  []struct{ SourceFileURL, Reason string }
	}
	decoder := json.NewDecoder(strings.NewReader(string(got.body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil || decoder.More() {
		w.t.Fatalf("%d with the body %.300q: %v", got.status, got.body, err)
	}
	if body.Code != codes[got.status] || body.Message == "" || body.RequestID != got.header.Get("X-Request-Id") || got.header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("%d with the body %.300q and %v", got.status, got.body, got.header)
	}
}

// bodyRoutes are those that read a body.
var bodyRoutes = []struct{ method, path string }{
	{"POST", "/admin/api-keys"},
	{"PATCH", "/admin/api-keys/1"},
	{"POST", "/symbol/folders"},
	{"PATCH", "/symbol/folders/1"},
	{"POST", "/symbol/folders/1/symbols"},
	{"PATCH", "/symbol/symbols/1"},
	{"POST", "/viewer/exports/download"},
	{"POST", "/viewer/exports/download?responseType=urls"},
	{"POST", "/viewer/exports/download-batch"},
	{"POST", "/viewer/exports/download-batch?responseType=urls"},
	{"POST", "/viewer/exports/register"},
}

// FuzzBody holds that any body gets a 2xx or a well-formed 4xx, that a 4xx has
// changed nothing, and that nothing but JSON gets a 2xx, as another reader has
// it.
func FuzzBody(f *testing.F) {
	for i := range bodyRoutes {
		for _, body := range []string{
			``, `{}`, `{`, `[]`, `null`, `{"name":"x"}`, `{"name":null,"name":1}`, `{"name":"B","isActive":false,"expiresAt":"2026-12-31"}`,
			`{"expiresAt":null}`, `{"expiresAt":"9999-12-31T23:59:59.999-23:59"}`, `{"name":"s","type":"image/svg+xml","data":"x","folderId":1}`, `{"folderId":1e400}`,
			`{"folderId":-9223372036854775809}`, exportBody("s"), batchBody("s", "none"), batchBody(" s ", "s"), `{"items":[null]}`, `{"items":[{"sourceFileUrl":"s","sourceFileUrl":"s"}]}`,
			`{"sourceFileUrl":"n","exportedUrl":"` + filesURL + `a.pdf","fileName":"\u202e"}`, `{"sourceFileUrl":"s","exportedUrl":"http://u:p@[::1%25lo]:0/%zz"}`,
			"\ufeff{}", `{"name":"\ud800"}`, `{"na\u006de":"a","name":"b"}`, "{\"name\":\"\xff\"}", `{"name":"a\u0000b"}`, `{} {}`, `{"x":[[[[[[[[[[]]]]]]]]]]}`,
		} {
			f.Add(byte(i), "application/json", []byte(body))
		}
		f.Add(byte(i), "", []byte(`{}`))
		f.Add(byte(i), "a/b+json; x=\"", []byte(`{}`))
		f.Add(byte(i), "text/plain", []byte(`{}`))
	}
	f.Fuzz(func(t *testing.T, which byte, contentType string, body []byte) {
		w := newWorld(t)
		route := bodyRoutes[int(which)%len(bodyRoutes)]
		r := httptest.NewRequest(route.method, route.path, strings.NewReader(string(body)))
		r.Header.Set("X-Api-Key", w.rawKey)
		r.Header.Set("X-Admin-Key", adminKey)
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		before := w.state()
		got := w.response(r)
		if after := w.state(); got.status >= 400 && after != before {
			t.Errorf("%s %s %q: %d, but it has changed %s into %s", route.method, route.path, body, got.status, before, after)
		}
		if got.status >= 400 {
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); len(body) > 0 && (err != nil || object == nil) {
			t.Errorf("%s %s %q: %d, but encoding/json says %v", route.method, route.path, body, got.status, err)
		}
		if strings.HasSuffix(route.path, "download") || strings.HasSuffix(route.path, "download-batch") {
			return
		}
		if !json.Valid(got.body) {
			t.Errorf("%s %s %q: the response is no JSON: %s", route.method, route.path, body, got.body)
		}
	})
}

// id is how an id is written.
var id = regexp.MustCompile(`^[1-9][0-9]*$`)

// FuzzPath asks for what a client may write behind the route of a folder, or
// anywhere.
func FuzzPath(f *testing.F) {
	for _, target := range []string{
		"1", "2", "0", "01", "+1", "-1", "%31", "%2b1", "1%20", "1;x", "1/", "/1", ".", "..", "%2e%2e", "1%2fsymbols", "%2f", "1/symbols", "1?x", "1?responseType=%zz", "1#x",
		"\u0661", "%D9%A1", "\uff11", "9223372036854775807", "9223372036854775808", "1%00", "%", "%zz", "1\\", "%5c", "*", "1e0", "a b",
	} {
		f.Add("/symbol/folders/" + target)
	}
	f.Add("*")
	f.Add("http://other.example/symbol/folders/1")
	f.Add("//symbol/folders/1")
	f.Add("/symbol/folders/../../admin/api-keys")
	f.Fuzz(func(t *testing.T, target string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil {
			return // it never gets to a handler
		}
		w := newWorld(t)
		r.Header.Set("X-Api-Key", w.rawKey)
		before := w.state()
		got := w.response(r)
		if w.state() != before {
			t.Errorf("GET %q has changed something", target)
		}
		segment, ok := strings.CutPrefix(r.URL.EscapedPath(), "/symbol/folders/")
		if !ok || segment == "" || segment == "." || segment == ".." || strings.Contains(segment, "/") {
			return
		}
		text, err := url.PathUnescape(segment)
		n, _ := new(big.Int).SetString(text, 10)
		want := 400
		switch {
		case text == "/":
			want = 404 // http.ServeMux takes it for the end of the path
		case err != nil || !id.MatchString(text) || !n.IsInt64():
		case text == "1":
			want = 200
		default:
			want = 404
		}
		if got.status != want {
			t.Errorf("GET %q: %d, want %d", target, got.status, want)
		}
	})
}

// FuzzRequest reads requests as the server does, and responses all of them.
func FuzzRequest(f *testing.F) {
	for _, route := range bodyRoutes {
		f.Add(route.method + " " + route.path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"name\":\"abcd\"}")
	}
	for _, request := range []string{
		"GET /symbol/folders HTTP/1.1\r\nHost: x\r\nIf-None-Match: W/\"a\", *\r\n\r\n",
		"DELETE /symbol/symbols/1 HTTP/1.1\r\nHost: x\r\nIf-Match: \"\r\nIf-Match: \"x\"\r\n\r\n",
		"OPTIONS /symbol/folders HTTP/1.1\r\nHost: x\r\nOrigin: null\r\nAccess-Control-Request-Method: \xff\r\n\r\n",
		"POST /admin/api-keys/1/rotate HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
		"PATCH /symbol/folders/1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Type: a/b\r\nX-Request-Id: \xff\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add(request)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return
		}
		w := newWorld(t)
		w.options.AllowedOrigins = []string{"https://viewer.example"}
		w.handler = httpapi.Handler(w.options)
		if r.Header.Get("X-Api-Key") == "" {
			r.Header.Set("X-Api-Key", w.rawKey)
		}
		if r.Header.Get("X-Admin-Key") == "" {
			r.Header.Set("X-Admin-Key", adminKey)
		}
		before := w.state()
		got := w.response(r)
		if safe := r.Method == "GET" || r.Method == "HEAD" || r.Method == "OPTIONS"; w.state() != before && (got.status >= 400 || safe) {
			t.Errorf("%q has changed something: %d", text, got.status)
		}
	})
}
