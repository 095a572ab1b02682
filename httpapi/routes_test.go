package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

func TestRoutes_LinksNeedALinkStore(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) {
		o.Exports = must(exports.NewService(struct{ exports.Store }{memory.New().Exports()}, nil))(t)
	})
	h.client("POST", linksPath, `{}`).wantError(404, "not_found")
	h.send("GET", linksPath+"/x/y", "").wantError(404, "not_found")
	h.client("POST", "/viewer/exports/download-batch", `{}`).wantError(400, "invalid_request")
}

// TestRoutes_UnknownPathIs404 has no mux in front of the API, which would redirect.
func TestRoutes_UnknownPathIs404(t *testing.T) {
	t.Parallel()
	paths := []string{
		"/", "/nope", "/admin", "/admin/api-keys/", "/admin/api-keys/1/", "/admin/api-keys/1/rotate/x",
		"//symbol/folders", "/symbol//folders", "/symbol/./folders", "/symbol/x/../folders", "/symbol/folders/",
		"/Symbol/folders", "/symbol/folders/1/symbols/1", "/symbol/folders/1%2Fsymbols/x", "/symbol/folders/1/",
		"/openapi", "/symbol", "/viewer/exports",
	}
	for _, prefix := range []string{"", "/api"} {
		h := serve(t, func(o *httpapi.Options) { o.Prefix = prefix })
		for _, path := range paths {
			for _, method := range []string{"GET", "POST", "OPTIONS"} {
				t.Log(method, prefix, path)
				h.client(method, prefix+path, "").wantError(404, "not_found")
			}
		}
		paths = append(paths, "", "x/symbol/folders")
	}
	h := serve(t, func(o *httpapi.Options) { o.Prefix = "/api" })
	h.client("GET", "//api/symbol/folders", "").wantError(404, "not_found")
	h.client("GET", "/other/api/symbol/folders", "").wantError(404, "not_found")
}

func TestRoutes_MissingServiceIs404(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) { o.Symbols, o.Exports = nil, nil })
	h.admin("GET", "/admin/api-keys", "").want(200)
	h.client("GET", "/symbol/folders", "").wantError(404, "not_found")
	h.client("POST", "/viewer/exports/download", "{}").wantError(404, "not_found")

	empty := serve(t, func(o *httpapi.Options) { *o = httpapi.Options{} })
	for _, route := range httpapi.Routes(&newHarness(t).options) {
		if route.Key != "" {
			empty.admin(route.Method, strings.ReplaceAll(route.Path, "{id}", "1"), "").wantError(404, "not_found")
		}
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for _, own := range []string{"a", "trace-0123/xyz~!", strings.Repeat("x", 128)} {
		t.Log(own)
		is.Equal(h.send("GET", "/nope", "", "X-Request-Id", own).header.Get("X-Request-Id"), own)
	}
	for _, bad := range []string{"", "with space", "tab\there", "umlaut-ü", strings.Repeat("x", 129)} {
		t.Log(bad)
		got := h.send("GET", "/nope", "", "X-Request-Id", bad).header.Get("X-Request-Id")
		is.Equal(len(got), 36)
		is.Equal(got[14], byte('7'))
	}
	for _, response := range []response{
		h.admin("GET", "/admin/api-keys", ""),
		h.client("POST", "/symbol/folders", `{"name":"A"}`),
		h.client("GET", "/symbol/folders/9", ""),
		h.send("PUT", "/symbol/folders", ""),
	} {
		t.Log(response.header)
		is.True(response.header.Get("X-Request-Id") != "")
		is.Equal(response.header.Get("Cache-Control"), "no-store")
	}
}

func TestOpenAPI_NeedsNoKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, h := range []*harness{serve(t), serve(t, func(o *httpapi.Options) { *o = httpapi.Options{} })} {
		response := h.send("GET", "/openapi.json", "").want(200)
		is.Equal(string(response.body), string(httpapi.OpenAPI()))
		is.Equal(response.header.Get("Content-Type"), "application/json")
		is.Equal(response.header.Get("Content-Length"), strconv.Itoa(len(response.body)))
		is.Equal(response.header.Get("Cache-Control"), "no-store")
		head := h.send("HEAD", "/openapi.json", "").want(200)
		is.Equal(len(head.body), 0)
		is.Equal(head.header.Get("Content-Length"), response.header.Get("Content-Length"))
		is.Equal(h.send("POST", "/openapi.json", "{}").wantError(405, "method_not_allowed").header.Get("Allow"), "GET, HEAD")
	}
	h := serve(t, func(o *httpapi.Options) { o.AllowedOrigins = []string{"*"} })
	response := h.send("GET", "/openapi.json", "", "Origin", "https://viewer.example").want(200)
	is.Equal(response.header.Get("Access-Control-Allow-Origin"), "*")
}

// TestErrorBody_InvalidRequestID is behind an application that copies the request id
// of the client to the response without checking it.
func TestErrorBody_InvalidRequestID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	api := httpapi.Handler(&h.options)
	h.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		api.ServeHTTP(w, r)
	}))
	for _, id := range []string{"\xff", "a\xc3(", "\xed\xa0\x80", "\xc0\x80", "ü", `"\`} {
		body := h.send("GET", "/symbol/folders", "", "X-Request-Id", id).want(401).object()
		is.Equal(body["code"], "unauthorized")
		is.True(body["requestId"] != "")
		h.send("GET", "/nope", "", "X-Request-Id", id).want(404)
		h.send("PUT", "/symbol/folders", "", "X-Request-Id", id).want(405)
		h.send("POST", "/symbol/folders", "{", "X-Request-Id", id, "x-api-key", h.rawKey).want(400)
	}
}
