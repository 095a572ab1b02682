package httpapi_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

// documented are the routes of the API reference, each with its guard.
var documented = map[string]map[string]string{
	"/admin/api-keys":                {"GET": "admin", "POST": "admin"},
	"/admin/api-keys/1":              {"GET": "admin", "PATCH": "admin", "DELETE": "admin"},
	"/admin/api-keys/1/rotate":       {"POST": "admin"},
	"/viewer/exports/download":       {"POST": "client"},
	"/viewer/exports/download-batch": {"POST": "client"},
	"/viewer/exports/register":       {"POST": "client"},
	"/symbol/folders":                {"GET": "client", "POST": "client"},
	"/symbol/folders/1":              {"GET": "client", "PATCH": "client", "DELETE": "client"},
	"/symbol/folders/1/symbols":      {"GET": "client", "POST": "client"},
	"/symbol/folders/1/export":       {"GET": "client"},
	"/symbol/folders/1/import":       {"POST": "client"},
	"/symbol/symbols/1":              {"GET": "client", "PATCH": "client", "DELETE": "client"},
}

func TestRoutes_areThoseDocumented(t *testing.T) {
	t.Parallel()
	h := start(t)
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"}
	for path, guards := range documented {
		for _, method := range methods {
			guard, ok := guards[method]
			if method == "HEAD" {
				guard, ok = guards["GET"]
			}
			answer := h.send(method, path, "")
			if ok {
				if answer.status != 401 || !strings.Contains(answer.header.Get("WWW-Authenticate"), headerOf(guard)) {
					t.Errorf("%s %s without a key: %d %s", method, path, answer.status, answer.header.Get("WWW-Authenticate"))
				}
				continue
			}
			if answer.want(405); method != "HEAD" {
				answer.wantError(405, "method_not_allowed")
			}
			allowed := strings.Split(answer.header.Get("Allow"), ", ")
			for name := range guards {
				if !slices.Contains(allowed, name) {
					t.Errorf("%s %s: Allow is %q, want %s in it", method, path, allowed, name)
				}
			}
		}
	}
}

func headerOf(guard string) string {
	if guard == "admin" {
		return "x-admin-key"
	}
	return "x-api-key"
}

func TestRoutes_unknownPathIs404InJSON(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, path := range []string{
		"/", "/nope", "/admin", "/admin/api-keys/", "/admin/api-keys/1/", "/admin/api-keys/1/rotate/x",
		"//symbol/folders", "/symbol//folders", "/symbol/./folders", "/symbol/x/../folders", "/symbol/folders/",
		"/Symbol/folders", "/symbol/folders/1/symbols/1", "/symbol/folders/1%2Fsymbols/x", "/symbol/folders/1/",
		"/openapi", "/symbol/symbols", "/viewer/exports",
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			answer := h.send(method, path, "", "x-api-key", h.raw)
			if answer.status != 404 {
				t.Errorf("%s %s: %d, want 404", method, path, answer.status)
				continue
			}
			answer.wantError(404, "not_found")
		}
	}
}

func TestRoutes_ofAServiceThatIsMissingAreUnknown(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *httpapi.Options) { o.Symbols, o.Exports = nil, nil })
	h.admin("GET", "/admin/api-keys", "").want(200)
	h.client("GET", "/symbol/folders", "").wantError(404, "not_found")
	h.client("POST", "/viewer/exports/download", "{}").wantError(404, "not_found")

	empty := start(t, func(o *httpapi.Options) { *o = httpapi.Options{} })
	for path, guards := range documented {
		for method := range guards {
			empty.admin(method, path, "").wantError(404, "not_found")
		}
	}
}

func TestRoutes_withoutKeysServiceClientRoutesAreClosed(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *httpapi.Options) { o.Keys = nil })
	h.client("GET", "/symbol/folders", "").wantError(401, "unauthorized")

	open := start(t, func(o *httpapi.Options) { o.Keys = nil; o.DangerouslySkipClientKeys = true })
	open.send("GET", "/symbol/folders", "").want(200)
}

func TestHead_answersLikeGetWithoutBody(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := start(t)
	h.client("POST", "/symbol/folders", `{"name":"Valves"}`).want(201)
	for range 5 {
		h.client("POST", "/symbol/folders/1/symbols", `{"name":"n","type":"text/plain","data":"`+strings.Repeat("x", 700)+`"}`).want(201)
	}
	for _, path := range []string{"/symbol/folders", "/symbol/folders/1", "/symbol/folders/1/symbols", "/symbol/symbols/1"} {
		answer := h.client(http.MethodHead, path, "").want(200)
		is.Equal(len(answer.body), 0)                                   // no body
		is.Equal(answer.header.Get("Content-Type"), "application/json") // but its headers
	}
	h.client(http.MethodHead, "/symbol/folders/9", "").want(404)
	answer := h.admin(http.MethodHead, "/admin/api-keys", "").want(200)
	is.Equal(answer.header.Get("Content-Type"), "application/json")
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, own := range []string{"a", "trace-0123/xyz~!", strings.Repeat("x", 128)} {
		if got := h.send("GET", "/nope", "", "X-Request-Id", own).header.Get("X-Request-Id"); got != own {
			t.Errorf("request id is %q, want the caller's %q", got, own)
		}
	}
	for _, bad := range []string{"", "with space", "tab\there", "umlaut-ü", strings.Repeat("x", 129)} {
		got := h.send("GET", "/nope", "", "X-Request-Id", bad).header.Get("X-Request-Id")
		if len(got) != 36 || got[14] != '7' {
			t.Errorf("request id for %q is %q, want a UUIDv7", bad, got)
		}
	}
	for _, answer := range []answer{
		h.admin("GET", "/admin/api-keys", ""),
		h.client("POST", "/symbol/folders", `{"name":"A"}`),
		h.client("GET", "/symbol/folders/9", ""),
		h.send("PUT", "/symbol/folders", ""),
	} {
		if answer.header.Get("X-Request-Id") == "" || answer.header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers are %v, want a request id and no-store", answer.header)
		}
	}
}

func TestDocument_isOpenToAll(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, h := range []*harness{start(t), start(t, func(o *httpapi.Options) { *o = httpapi.Options{} })} {
		answer := h.send("GET", "/openapi.json", "").want(200)
		is.Equal(string(answer.body), string(httpapi.OpenAPI()))
		is.Equal(answer.header.Get("Content-Type"), "application/json")
		is.Equal(answer.header.Get("Content-Length"), strconv.Itoa(len(answer.body)))
		is.Equal(answer.header.Get("Cache-Control"), "no-store")
		head := h.send("HEAD", "/openapi.json", "").want(200)
		is.Equal(len(head.body), 0)
		is.Equal(head.header.Get("Content-Length"), answer.header.Get("Content-Length"))
		is.Equal(h.send("POST", "/openapi.json", "{}").wantError(405, "method_not_allowed").header.Get("Allow"), "GET, HEAD")
	}
	h := start(t, func(o *httpapi.Options) { o.AllowedOrigins = []string{"*"} })
	answer := h.send("GET", "/openapi.json", "", "Origin", "https://viewer.example").want(200)
	is.Equal(answer.header.Get("Access-Control-Allow-Origin"), "*")
}
