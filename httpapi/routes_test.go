package httpapi_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/client"
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
		"/openapi", "/symbol", "/viewer/exports", "/../symbol/folders/1", "/%2e%2e/symbol/folders/1",
		"/symbol/folders%2f1", "/symbol/folders%00/1", "/symbol%2ffolders/1", `/symbol\folders\1`, "/symbol/folders;x/1",
		"/symbol/folders//1", "/symbol/folders/./1", "/symbol/folders/2/../1",
	}
	for _, prefix := range []string{"", "/api"} {
		h := serve(t, func(o *httpapi.Options) { o.Prefix = prefix })
		for _, path := range paths {
			for _, method := range []string{"GET", "POST", "OPTIONS"} {
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
		response.wantHeaders("Cache-Control", "no-store")
	}
}

func TestOpenAPI_NeedsNoKey(t *testing.T) {
	t.Parallel()
	for _, h := range []*harness{serve(t), serve(t, func(o *httpapi.Options) { *o = httpapi.Options{} })} {
		response := h.send("GET", "/openapi.json", "").wantBody(200, string(httpapi.OpenAPI()))
		response.wantHeaders("Content-Type", "application/json", "Content-Length", strconv.Itoa(len(response.body)),
			"Cache-Control", "no-store")
		head := h.send("HEAD", "/openapi.json", "").want(200)
		is.New(t).Equal(len(head.body), 0)
		head.wantHeaders("Content-Length", response.header.Get("Content-Length"))
		h.send("POST", "/openapi.json", "{}").wantError(405, "method_not_allowed").wantHeaders("Allow", "GET, HEAD")
	}
	h := serve(t, func(o *httpapi.Options) { o.AllowedOrigins = []string{"*"} })
	response := h.send("GET", "/openapi.json", "", "Origin", "https://viewer.example").want(200)
	response.wantHeaders("Access-Control-Allow-Origin", "*")
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

func TestClient_FilesNeedNoKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { *o = httpapi.Options{AllowedOrigins: []string{"*"}} })
	for name, mediaType := range map[string]string{"client.js": "text/javascript", "client.d.ts": "text/plain"} {
		content := must(fs.ReadFile(client.Files, name))(t)
		plain := h.send("GET", "/"+name, "", "Origin", "https://viewer.example", "If-None-Match", `"other"`).wantBody(200, string(content))
		plain.wantHeaders("Content-Type", mediaType, "Cache-Control", "no-cache", "Access-Control-Allow-Origin", "*")

		compressed := h.send("GET", "/"+name, "", "Accept-Encoding", "gzip").want(200)
		compressed.wantHeaders("Content-Encoding", "gzip")
		is.Equal(string(compressed.body), string(content))

		tags := []string{plain.header.Get("ETag"), compressed.header.Get("ETag")}
		is.True(tags[0] != tags[1])
		h.send("GET", "/"+name, "", "If-None-Match", tags[0]).want(304)
		h.send("GET", "/"+name, "", "If-None-Match", tags[1], "Accept-Encoding", "gzip").want(304)
		h.send("GET", "/"+name, "", "If-None-Match", tags[1]).want(200)
		is.Equal(len(h.send("HEAD", "/"+name, "").want(200).body), 0)
		h.send("POST", "/"+name, "").wantError(405, "method_not_allowed")
	}
}

// mounts are ways to mount the handler in an application.
var mounts = []struct {
	name   string
	prefix string
	mount  func(httpapi.Options) http.Handler
}{
	{"at the root", "", func(o httpapi.Options) http.Handler { return httpapi.Handler(&o) }},
	{"at the root of a mux", "", func(o httpapi.Options) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/", httpapi.Handler(&o))
		return mux
	}},
	{"under /api by option", "/api", func(o httpapi.Options) http.Handler {
		o.Prefix = "/api"
		mux := http.NewServeMux()
		mux.Handle("/api/", httpapi.Handler(&o))
		return mux
	}},
	{"under a nested prefix by option, with a trailing slash", "/a/b-c/v1.0", func(o httpapi.Options) http.Handler {
		o.Prefix = "a/b-c/v1.0/"
		return httpapi.Handler(&o)
	}},
	{"behind StripPrefix in a mux", "/x/y", func(o httpapi.Options) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/x/y/", http.StripPrefix("/x/y", httpapi.Handler(&o)))
		return mux
	}},
	{"behind StripPrefix alone", "/x", func(o httpapi.Options) http.Handler {
		return http.StripPrefix("/x", httpapi.Handler(&o))
	}},
	{"in a handler without a mux", "/own", func(o httpapi.Options) http.Handler {
		o.Prefix = "/own"
		api := httpapi.Handler(&o)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/own") {
				api.ServeHTTP(w, r)
				return
			}
			http.Error(w, "application", http.StatusTeapot)
		})
	}},
	{"in chi by option", "/chi", func(o httpapi.Options) http.Handler {
		o.Prefix = "/chi"
		r := chi.NewRouter()
		r.Mount("/chi", httpapi.Handler(&o))
		return r
	}},
	{"with a Prefix that URLs escape", "/gr%c3%b6%C3%9Fe(1)", func(o httpapi.Options) http.Handler {
		o.Prefix = "/größe(1)"
		return httpapi.Handler(&o)
	}},
	{"in chi behind StripPrefix, nested", "/v1/chi", func(o httpapi.Options) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(r chi.Router) { r.Mount("/chi", http.StripPrefix("/v1/chi", httpapi.Handler(&o))) })
		return r
	}},
}

func TestMount(t *testing.T) {
	t.Parallel()
	for _, m := range mounts {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			server := httptest.NewServer(m.mount(h.options))
			t.Cleanup(server.Close)
			h.url = server.URL + m.prefix

			h.folder("A")
			h.client("GET", "/symbol/folders/1", "").want(200)
			h.client("GET", "/symbol/folders/7", "").wantError(404, "not_found")
			h.client("GET", "/symbol/folders/x%2Fy", "").wantError(400, "invalid_request")
			h.client("GET", "/symbol/f%6flders/1", "").want(200) // equivalent by RFC 3986
			if m.prefix != "" {                                  // an escaped slash is none, so that rules of a mux for a path hold
				got := must(http.Get(h.url + "%2Fsymbol/folders/1"))(t) // the 404 may be that of the mux
				got.Body.Close()
				is.New(t).Equal(got.StatusCode, 404)
			}
			h.client("PUT", "/symbol/folders", "").wantError(405, "method_not_allowed")
			h.client("GET", "/nope", "").wantError(404, "not_found")
			h.admin("GET", "/admin/api-keys", "").want(200)
			h.send("POST", "/viewer/exports/download", `{}`).wantError(401, "unauthorized")
		})
	}
}
