package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"example.com/canvasback/httpapi"
)

// mounts are the ways in which hosts put the handler into their programs.
var mounts = []struct {
	name   string
	prefix string
	mount  func(httpapi.Options) http.Handler
}{
	{"at the root", "", httpapi.Handler},
	{"at the root of a mux", "", func(o httpapi.Options) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/", httpapi.Handler(o))
		return mux
	}},
	{"under /api by option", "/api", func(o httpapi.Options) http.Handler {
		o.Prefix = "/api"
		mux := http.NewServeMux()
		mux.Handle("/api/", httpapi.Handler(o))
		return mux
	}},
	{"under a nested prefix by option, spelt with a slash behind it", "/a/b-c/v1.0", func(o httpapi.Options) http.Handler {
		o.Prefix = "a/b-c/v1.0/"
		return httpapi.Handler(o)
	}},
	{"behind StripPrefix in a mux", "/x/y", func(o httpapi.Options) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/x/y/", http.StripPrefix("/x/y", httpapi.Handler(o)))
		return mux
	}},
	{"behind StripPrefix alone", "/x", func(o httpapi.Options) http.Handler {
		return http.StripPrefix("/x", httpapi.Handler(o))
	}},
	{"in a host that is no mux", "/own", func(o httpapi.Options) http.Handler {
		o.Prefix = "/own"
		api := httpapi.Handler(o)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/own") {
				api.ServeHTTP(w, r)
				return
			}
			http.Error(w, "host", http.StatusTeapot)
		})
	}},
	{"in chi by option", "/chi", func(o httpapi.Options) http.Handler {
		o.Prefix = "/chi"
		r := chi.NewRouter()
		r.Mount("/chi", httpapi.Handler(o))
		return r
	}},
	{"in chi behind StripPrefix, nested", "/v1/chi", func(o httpapi.Options) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(r chi.Router) {
			r.Mount("/chi", http.StripPrefix("/v1/chi", httpapi.Handler(o)))
		})
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

			h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
			h.client("GET", "/symbol/folders/1", "").want(200)
			h.client("GET", "/symbol/folders/7", "").wantError(404, "not_found")
			h.client("GET", "/symbol/folders/x%2Fy", "").wantError(400, "invalid_request")
			h.client("GET", "/symbol/f%6flders/1", "").want(200) // the same path, says RFC 3986
			h.client("PUT", "/symbol/folders", "").wantError(405, "method_not_allowed")
			h.client("GET", "/nope", "").wantError(404, "not_found")
			h.admin("GET", "/admin/api-keys", "").want(200)
			h.send("POST", "/viewer/exports/download", `{}`).wantError(401, "unauthorized")
		})
	}
}

func TestMount_NeverRedirects(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/api"} {
		h := newHarness(t, func(o *httpapi.Options) { o.Prefix = prefix })
		server := httptest.NewServer(httpapi.Handler(h.options)) // no mux of the host before it
		t.Cleanup(server.Close)
		h.url = server.URL
		for _, path := range []string{
			prefix, prefix + "/", prefix + "//", prefix + "//symbol/folders", prefix + "/symbol/folders/", prefix + "/symbol/../symbol/folders",
			prefix + "/./symbol/folders", "/" + prefix + "/symbol/folders", prefix + "x/symbol/folders", "/other" + prefix + "/symbol/folders",
		} {
			if strings.HasPrefix(path, "/") {
				h.client("GET", path, "").wantError(404, "not_found")
			}
		}
	}
}

func TestMount_TwoAPIs(t *testing.T) {
	t.Parallel()
	first, second := newHarness(t), newHarness(t, func(o *httpapi.Options) {
		o.AdminKeys = []string{"other"}
		o.DangerouslySkipClientKeys = true
	})
	first.options.Prefix, second.options.Prefix = "/one", "/two"
	mux := http.NewServeMux()
	mux.Handle("/one/", httpapi.Handler(first.options))
	mux.Handle("/two/", httpapi.Handler(second.options))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	first.url, second.url = server.URL+"/one", server.URL+"/two"

	first.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	second.send("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	first.send("GET", "/symbol/folders", "").want(401)
	second.admin("GET", "/admin/api-keys", "").want(401)
	first.admin("GET", "/admin/api-keys", "").want(200)
}

func TestCORS_Off(t *testing.T) {
	t.Parallel()
	h := serve(t)
	response := h.send("OPTIONS", "/symbol/folders", "", "Origin", "https://viewer.example", "Access-Control-Request-Method", "GET")
	response.wantError(405, "method_not_allowed")
	for name := range response.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("header %s is there", name)
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const origin = "https://viewer.example"
	for _, configured := range [][]string{{"*"}, {"https://other.example", origin}, {"HTTPS://Viewer.example/"}} {
		h := serve(t, func(o *httpapi.Options) { o.AllowedOrigins = configured })
		preflight := h.send("OPTIONS", "/symbol/folders/1", "", "Origin", origin,
			"Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "X-Api-Key, content-type").want(204)
		for _, name := range []string{"x-api-key", "x-admin-key", "Content-Type", "Authorization", "x-access-token", "If-None-Match", "X-Request-Id"} {
			if !strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), name) {
				t.Errorf("header %s is not allowed", name)
			}
		}
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if !strings.Contains(preflight.header.Get("Access-Control-Allow-Methods"), method) {
				t.Errorf("method %s is not allowed", method)
			}
		}
		allowed := origin
		if configured[0] == "*" {
			allowed = "*"
		}
		for _, response := range []response{
			preflight,
			h.send("GET", "/symbol/folders", "", "Origin", origin).wantError(401, "unauthorized"),
			h.send("GET", "/nope", "", "Origin", origin).wantError(404, "not_found"),
			h.send("PUT", "/symbol/folders", "", "Origin", origin).wantError(405, "method_not_allowed"),
			h.send("GET", "/symbol/folders", "", "Origin", origin, "x-api-key", h.rawKey).want(200),
		} {
			if got := response.header.Get("Access-Control-Allow-Origin"); got != allowed {
				t.Errorf("%v: Access-Control-Allow-Origin is %q, want %q", configured, got, allowed)
			}
			if response.status == 204 {
				continue
			}
			for _, name := range []string{"Content-Disposition", "Content-Length", "ETag", "Retry-After", "X-Request-Id"} {
				if !strings.Contains(response.header.Get("Access-Control-Expose-Headers"), name) {
					t.Errorf("header %s is not exposed", name)
				}
			}
		}
		if allowed == "*" {
			continue
		}
		stranger := h.send("GET", "/symbol/folders", "", "Origin", "https://viewer.example.evil", "x-api-key", h.rawKey).want(200)
		if stranger.header.Get("Access-Control-Allow-Origin") != "" || stranger.header.Get("Vary") != "Origin" {
			t.Errorf("headers for a stranger are %v", stranger.header)
		}
	}
}
