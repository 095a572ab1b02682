package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"example.com/canvasback/httpapi"
)

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
	{"in chi behind StripPrefix, nested", "/v1/chi", func(o httpapi.Options) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(r chi.Router) {
			r.Mount("/chi", http.StripPrefix("/v1/chi", httpapi.Handler(&o)))
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
			h.client("GET", "/symbol/f%6flders/1", "").want(200) // equivalent by RFC 3986
			h.client("PUT", "/symbol/folders", "").wantError(405, "method_not_allowed")
			h.client("GET", "/nope", "").wantError(404, "not_found")
			h.admin("GET", "/admin/api-keys", "").want(200)
			h.send("POST", "/viewer/exports/download", `{}`).wantError(401, "unauthorized")
		})
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
	mux.Handle("/one/", httpapi.Handler(&first.options))
	mux.Handle("/two/", httpapi.Handler(&second.options))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	first.url, second.url = server.URL+"/one", server.URL+"/two"

	first.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	second.send("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	first.send("GET", "/symbol/folders", "").want(401)
	second.admin("GET", "/admin/api-keys", "").want(401)
	first.admin("GET", "/admin/api-keys", "").want(200)
}
