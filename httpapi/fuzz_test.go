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

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// fuzzTarget is a handler with one record of each kind. It serves requests without
// a connection.
type fuzzTarget struct {
	*harness
	handler http.Handler
}

func newFuzzTarget(t *testing.T, change ...func(*httpapi.Options)) *fuzzTarget {
	t.Helper()
	h := newHarness(t, change...)
	h.options.Logger = slog.New(slog.DiscardHandler)
	h.files["a.pdf"] = &fstest.MapFile{Data: []byte("%PDF-2.0")}
	ctx := t.Context()
	must(h.options.Symbols.CreateFolder(ctx, "A"))(t)
	must(h.options.Symbols.CreateSymbol(ctx, 1, symbols.NewSymbol{Name: "s", Type: "a/b", Data: "c"}))(t)
	h.export("s", filesURL+"a.pdf")
	must(h.options.Keys.Verify(ctx, h.rawKey))(t) // sets lastUsedAt, which does not change anymore
	return &fuzzTarget{h, httpapi.Handler(&h.options)}
}

// state returns the contents of all stores.
func (f *fuzzTarget) state() string {
	ctx := f.t.Context()
	keyPage, err := f.options.Keys.List(ctx, keys.Filter{}, keys.Range{})
	for i := range keyPage.Keys {
		keyPage.Keys[i].UseCount = 0 // any request with a key is a use
	}
	folders, err2 := f.options.Symbols.ListFolders(ctx, symbols.Range{})
	page, err3 := f.options.Symbols.ListSymbols(ctx, 1, symbols.Range{})
	export, err4 := f.options.Exports.Find(ctx, "s")
	return fmt.Sprint(keyPage, folders, page, export, err, err2, err3, err4)
}

// serve serves a request and checks what holds for every response.
func (f *fuzzTarget) serve(r *http.Request) response {
	f.t.Helper()
	recorder := httptest.NewRecorder()
	f.handler.ServeHTTP(recorder, r)
	got := response{t: f.t, status: recorder.Code, header: recorder.Header(), body: recorder.Body.Bytes()}
	switch {
	case got.status >= 500, got.status >= 300 && got.status < 400 && got.status != 304:
		f.t.Fatalf("status is %d: %.300s", got.status, got.body)
	case got.status >= 400:
		f.checkError(got)
	}
	return got
}

// codes are the error codes of the statuses that a request alone can cause.
var codes = map[int]string{
	400: "invalid_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 409: "conflict",
	412: "precondition_failed", 413: "too_large", 415: "unsupported_media_type", 429: "too_many_requests",
}

func (f *fuzzTarget) checkError(got response) {
	f.t.Helper()
	var body struct {
		Message, Code, RequestID string
		Skipped                  []struct{ SourceFileURL, Reason string }
	}
	decoder := json.NewDecoder(strings.NewReader(string(got.body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil || decoder.More() {
		f.t.Fatalf("%d with the body %.300q: %v", got.status, got.body, err)
	}
	if body.Code != codes[got.status] || body.Message == "" || body.RequestID != got.header.Get("X-Request-Id") || got.header.Get("Content-Type") != "application/json" {
		f.t.Fatalf("%d with the body %.300q and %v", got.status, got.body, got.header)
	}
}

// bodyRoutes are the routes with a JSON body.
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

// FuzzBody checks that a body gets 2xx or a well-formed 4xx, that a 4xx changes
// nothing, and that a body with 2xx is JSON for encoding/json, too.
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
		is := is.New(f)
		api := newFuzzTarget(t)
		route := bodyRoutes[int(which)%len(bodyRoutes)]
		r := httptest.NewRequest(route.method, route.path, strings.NewReader(string(body)))
		r.Header.Set("X-Api-Key", api.rawKey)
		r.Header.Set("X-Admin-Key", adminKey)
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		before := api.state()
		got := api.serve(r)
		if got.status >= 400 {
			is.Equal(api.state(), before)
			return
		}
		var object map[string]json.RawMessage
		is.True(len(body) == 0 || json.Unmarshal(body, &object) == nil && object != nil)
		if strings.HasSuffix(route.path, "download") || strings.HasSuffix(route.path, "download-batch") {
			return
		}
		is.True(json.Valid(got.body))
	})
}

// id is the syntax of an id.
var id = regexp.MustCompile(`^[1-9][0-9]*$`)

// FuzzPath sends paths of a folder and any others.
func FuzzPath(f *testing.F) {
	for _, target := range []string{
		"1", "2", "0", "01", "+1", "-1", "%31", "%2b1", "1%20", "1;x", "1/", "/1", ".", "..", "%2e%2e", "1%2fsymbols", "%2f", "1/symbols", "1?x", "1?responseType=%zz", "1#x",
		"\u0661", "%D9%A1", "\uff11", "9223372036854775807", "9223372036854775808", "1%00", "%", "%zz", "1\\", "%5c", "*", "1e0", "a b",
		"1?", "1?x=/../2;y", "%201", "1%09", "1%0a", "1%0d%0aX-Y:%20z", "1;", "1,1", "1%23x", "1%3fx", "1%2f",
		"%2e", "%2e%2e%2f1", "1%5c", "%EF%BC%91", "1\u200b", "%ff1", "0x1", "1.0", "null", "1_0", "1\x00", "1\x7f",
		"%2531", "1 ", " 1", "18446744073709551617", "./1", "2/../1", strings.Repeat("1", 3000), strings.Repeat("0", 3000) + "1",
	} {
		f.Add("/symbol/folders/" + target)
	}
	f.Add("*")
	f.Add("http://other.example/symbol/folders/1")
	f.Add("//symbol/folders/1")
	f.Add("/symbol/folders/../../admin/api-keys")
	f.Fuzz(func(t *testing.T, target string) {
		is := is.New(f)
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil {
			return // net/http responds 400
		}
		api := newFuzzTarget(t)
		r.Header.Set("X-Api-Key", api.rawKey)
		before := api.state()
		got := api.serve(r)
		is.Equal(api.state(), before)
		segment, ok := strings.CutPrefix(r.URL.EscapedPath(), "/symbol/folders/")
		if !ok || segment == "" || segment == "." || segment == ".." || strings.Contains(segment, "/") {
			return
		}
		text, err := url.PathUnescape(segment)
		n, _ := new(big.Int).SetString(text, 10)
		want := 400
		switch {
		case text == "/":
			want = 404 // http.ServeMux takes it for a trailing slash
		case err != nil || !id.MatchString(segment) || !n.IsInt64():
		case text == "1":
			want = 200
		default:
			want = 404
		}
		is.Equal(got.status, want)
	})
}

// FuzzRequest sends complete requests, as parsed by net/http.
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
		api := newFuzzTarget(t, func(o *httpapi.Options) { o.AllowedOrigins = []string{"https://viewer.example"} })
		if r.Header.Get("X-Api-Key") == "" {
			r.Header.Set("X-Api-Key", api.rawKey)
		}
		if r.Header.Get("X-Admin-Key") == "" {
			r.Header.Set("X-Admin-Key", adminKey)
		}
		before := api.state()
		got := api.serve(r)
		if got.status >= 400 || r.Method == "GET" || r.Method == "HEAD" || r.Method == "OPTIONS" {
			is.New(f).Equal(api.state(), before)
		}
	})
}
