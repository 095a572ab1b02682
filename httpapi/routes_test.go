package httpapi_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

// documentedRoutes are the routes of the API, each with the key that it requires.
var documentedRoutes = map[string]map[string]string{
	"/admin/api-keys":                {"GET": "admin", "POST": "admin", "PATCH": "admin"},
	"/admin/api-keys/delete":         {"POST": "admin"},
	"/admin/api-keys/import":         {"POST": "admin"},
	"/admin/api-keys/1":              {"GET": "admin", "PATCH": "admin", "DELETE": "admin"},
	"/admin/api-keys/1/rotate":       {"POST": "admin"},
	"/admin/api-keys/1/usage":        {"GET": "admin"},
	"/admin/usage":                   {"GET": "admin"},
	"/admin/exports":                 {"GET": "admin"},
	"/admin/exports/1":               {"GET": "admin", "DELETE": "admin"},
	"/admin/exports/1/check":         {"POST": "admin"},
	"/viewer/tokens":                 {"POST": "client"},
	"/viewer/key":                    {"GET": "client"},
	"/viewer/exports/download":       {"POST": "client"},
	"/viewer/exports/download-batch": {"POST": "client"},
	"/viewer/exports/register":       {"POST": "client"},
	"/symbol/folders":                {"GET": "client", "POST": "client"},
	"/symbol/folders/1":              {"GET": "client", "PATCH": "client", "DELETE": "client"},
	"/symbol/folders/1/symbols":      {"GET": "client", "POST": "client"},
	"/symbol/folders/1/export":       {"GET": "client"},
	"/symbol/folders/1/import":       {"POST": "client"},
	"/symbol/symbols":                {"PATCH": "client"},
	"/symbol/symbols/delete":         {"POST": "client"},
	"/symbol/trash":                  {"GET": "client"},
	"/symbol/trash/1":                {"DELETE": "client"},
	"/symbol/trash/1/restore":        {"POST": "client"},
	"/symbol/symbols/1":              {"GET": "client", "PATCH": "client", "DELETE": "client"},
	"/symbol/symbols/1/image":        {"GET": "client"},
	"/symbol/search":                 {"GET": "client"},
}

func TestRoutes_MatchDocumentation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	all := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"}
	for path, methods := range documentedRoutes {
		for _, method := range all {
			t.Log(method, path)
			required, ok := methods[method]
			if method == "HEAD" {
				required, ok = methods["GET"]
			}
			response := h.send(method, path, "")
			if ok {
				is.Equal(response.status, 401)
				is.True(strings.Contains(response.header.Get("WWW-Authenticate"), headerOf(required)))
				continue
			}
			if response.want(405); method != "HEAD" {
				response.wantError(405, "method_not_allowed")
			}
			allowed := strings.Split(response.header.Get("Allow"), ", ")
			for name := range methods {
				t.Log(method, path, name)
				is.True(slices.Contains(allowed, name))
			}
		}
	}
}

func TestRoutes_LinksNeedALinkStore(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) {
		o.Exports = must(exports.NewService(struct{ exports.Store }{memory.New().Exports()}, nil))
	})
	h.client("POST", linksPath, `{}`).wantError(404, "not_found")
	h.send("GET", linksPath+"/x/y", "").wantError(404, "not_found")
	h.client("POST", "/viewer/exports/download-batch", `{}`).wantError(400, "invalid_request")
}

func headerOf(required string) string {
	if required == "admin" {
		return "x-admin-key"
	}
	return "x-api-key"
}

func TestRoutes_UnknownPathIs404(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, path := range []string{
		"/", "/nope", "/admin", "/admin/api-keys/", "/admin/api-keys/1/", "/admin/api-keys/1/rotate/x",
		"//symbol/folders", "/symbol//folders", "/symbol/./folders", "/symbol/x/../folders", "/symbol/folders/",
		"/Symbol/folders", "/symbol/folders/1/symbols/1", "/symbol/folders/1%2Fsymbols/x", "/symbol/folders/1/",
		"/openapi", "/symbol", "/viewer/exports",
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			t.Log(method, path)
			h.client(method, path, "").wantError(404, "not_found")
		}
	}
}

func TestRoutes_MissingServiceIs404(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) { o.Symbols, o.Exports = nil, nil })
	h.admin("GET", "/admin/api-keys", "").want(200)
	h.client("GET", "/symbol/folders", "").wantError(404, "not_found")
	h.client("POST", "/viewer/exports/download", "{}").wantError(404, "not_found")

	empty := serve(t, func(o *httpapi.Options) { *o = httpapi.Options{} })
	for path, methods := range documentedRoutes {
		for method := range methods {
			empty.admin(method, path, "").wantError(404, "not_found")
		}
	}
}

func TestRoutes_MissingKeysServiceIs401(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) { o.Keys = nil })
	h.client("GET", "/symbol/folders", "").wantError(401, "unauthorized")

	open := serve(t, func(o *httpapi.Options) { o.Keys = nil; o.DangerouslySkipClientKeys = true })
	open.send("GET", "/symbol/folders", "").want(200)
}

func TestHead_LikeGetWithoutBody(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"Valves"}`).want(201)
	for range 5 {
		h.client("POST", "/symbol/folders/1/symbols", `{"name":"n","type":"text/plain","data":"`+strings.Repeat("x", 700)+`"}`).want(201)
	}
	for _, path := range []string{"/symbol/folders", "/symbol/folders/1", "/symbol/folders/1/symbols", "/symbol/symbols/1"} {
		response := h.client(http.MethodHead, path, "").want(200)
		is.Equal(len(response.body), 0)                                   // no body
		is.Equal(response.header.Get("Content-Type"), "application/json") // same header
	}
	h.client(http.MethodHead, "/symbol/folders/9", "").want(404)
	response := h.admin(http.MethodHead, "/admin/api-keys", "").want(200)
	is.Equal(response.header.Get("Content-Type"), "application/json")
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
