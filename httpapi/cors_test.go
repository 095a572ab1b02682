package httpapi_test

import (
	"strings"
	"testing"

	"example.com/canvasback/httpapi"
)

func TestCORS_Off(t *testing.T) {
	t.Parallel()
	h := serve(t)
	response := h.send("OPTIONS", "/symbol/folders", "", "Origin", "https://viewer.example", "Access-Control-Request-Method", "GET")
	response.wantError(405, "method_not_allowed")
	for name := range response.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("header %s is set", name)
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
		other := h.send("GET", "/symbol/folders", "", "Origin", "https://viewer.example.evil", "x-api-key", h.rawKey).want(200)
		if other.header.Get("Access-Control-Allow-Origin") != "" || other.header.Get("Vary") != "Origin" {
			t.Errorf("headers for another origin are %v", other.header)
		}
	}
}
