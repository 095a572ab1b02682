package httpapi_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

func TestCORS_Off(t *testing.T) {
	t.Parallel()
	h := serve(t)
	response := h.send("OPTIONS", "/symbol/folders", "", "Origin", "https://viewer.example", "Access-Control-Request-Method", "GET")
	response.wantError(405, "method_not_allowed")
	for name := range response.header {
		t.Log(name)
		is.New(t).True(!strings.HasPrefix(name, "Access-Control-"))
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const origin = "https://viewer.example"
	for _, configured := range [][]string{{"*"}, {"https://other.example", origin}, {"HTTPS://Viewer.example/"}} {
		h := serve(t, func(o *httpapi.Options) { o.AllowedOrigins = configured })
		preflight := h.send("OPTIONS", "/symbol/folders/1", "", "Origin", origin,
			"Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "X-Api-Key, content-type").want(204)
		for _, name := range []string{
			"x-api-key", "x-admin-key", "Content-Type", "Authorization",
			"x-access-token", "If-None-Match", "Last-Event-ID", "X-Request-Id",
		} {
			t.Log(name)
			is.True(strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), name))
		}
		preflight.wantHeaders("Access-Control-Max-Age", "7200")
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			t.Log(method)
			is.True(strings.Contains(preflight.header.Get("Access-Control-Allow-Methods"), method))
		}
		allowed := origin
		if configured[0] == "*" {
			allowed = "*"
			// A cache may serve it to a page of another origin.
			h.send("GET", "/client.js", "").want(200).wantHeaders("Access-Control-Allow-Origin", "*")
		}
		for _, response := range []response{
			preflight,
			h.send("GET", "/symbol/folders", "", "Origin", origin).wantError(401, "unauthorized"),
			h.send("GET", "/nope", "", "Origin", origin).wantError(404, "not_found"),
			h.send("PUT", "/symbol/folders", "", "Origin", origin).wantError(405, "method_not_allowed"),
			h.send("GET", "/symbol/folders", "", "Origin", origin, "x-api-key", h.rawKey).want(200),
		} {
			t.Log(configured)
			response.wantHeaders("Access-Control-Allow-Origin", allowed)
			if response.status == 204 {
				continue
			}
			for _, name := range []string{"Content-Disposition", "Content-Length", "ETag", "Retry-After", "X-Request-Id"} {
				t.Log(name)
				is.True(strings.Contains(response.header.Get("Access-Control-Expose-Headers"), name))
			}
		}
		if allowed == "*" {
			continue
		}
		other := h.send("GET", "/symbol/folders", "", "Origin", "https://viewer.example.evil", "x-api-key", h.rawKey).want(200)
		other.wantHeaders("Access-Control-Allow-Origin", "", "Vary", "Origin")
	}
}

// TestOpenRoutes_RejectPagesOfOtherOrigins sends what browsers send without a preflight.
func TestOpenRoutes_RejectPagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	const allowed, other = "https://viewer.example", "https://evil.example"
	h := serve(t, func(o *httpapi.Options) { o.DangerouslySkipClientKeys, o.AllowedOrigins = true, []string{allowed} })
	create := func(headers ...string) response {
		return h.send("POST", "/symbol/folders", `{"name":"a `+strings.Join(headers, " ")+`"}`, headers...)
	}
	create("Origin", other, "Sec-Fetch-Site", "cross-site").wantError(403, "forbidden")
	create("Origin", other).wantError(403, "forbidden")
	create("Sec-Fetch-Site", "same-site").wantError(403, "forbidden")
	create("Origin", allowed, "Sec-Fetch-Site", "cross-site").want(201)
	create("Origin", h.url, "Sec-Fetch-Site", "same-origin").want(201)
	create().want(201)
	h.send("GET", "/symbol/folders", "", "Origin", other, "Sec-Fetch-Site", "cross-site").want(200)
	is.New(t).True(!strings.Contains(h.log.String(), "all origins"))

	h = serve(t, func(o *httpapi.Options) { o.DangerouslySkipClientKeys, o.AllowedOrigins = true, []string{"*"} })
	create("Origin", other, "Sec-Fetch-Site", "cross-site").want(201)
	h.wantLog("client routes are open to the pages of all origins")
}
