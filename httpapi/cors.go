package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// cors implements the CORS protocol (Fetch standard, section 3.3). It responds to
// every preflight with the same lists of methods and headers, with which the
// browser compares its request.
type cors []string // allowed origins; empty if CORS is off

const (
	corsMethods = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
	corsHeaders = "Content-Type, Authorization, x-api-key, x-admin-key, x-access-token, If-Match, If-None-Match, If-Range, Last-Event-ID, Range, X-Request-Id"
	corsExposed = "Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, Link, Retry-After, X-Request-Id"
	corsMaxAge  = "7200" // seconds; Chromium honors no more
)

func (c cors) allowAll() bool { return slices.Contains(c, "*") }

// allows reports whether CORS allows an origin; "" is none.
func (c cors) allows(origin string) bool {
	return origin != "" && slices.ContainsFunc(c, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(strings.TrimSuffix(allowed, "/"), origin)
	})
}

// handle sets the CORS headers. It responds to preflights and returns true then.
func (c cors) handle(w http.ResponseWriter, r *http.Request) bool {
	if len(c) == 0 {
		return false
	}
	header := w.Header()
	origin := r.Header.Get("Origin")
	if !c.allowAll() {
		header.Add("Vary", "Origin")
	}
	allowed := c.allowAll() || c.allows(origin) // a cache may have * from a request without Origin
	switch {
	case allowed && c.allowAll():
		header.Set("Access-Control-Allow-Origin", "*")
	case allowed:
		header.Set("Access-Control-Allow-Origin", origin)
	}
	preflight := r.Method == http.MethodOptions && origin != "" && r.Header.Get("Access-Control-Request-Method") != ""
	if preflight {
		if allowed {
			header.Set("Access-Control-Allow-Methods", corsMethods)
			header.Set("Access-Control-Allow-Headers", corsHeaders)
			header.Set("Access-Control-Max-Age", corsMaxAge)
		}
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	if allowed {
		header.Set("Access-Control-Expose-Headers", corsExposed)
	}
	return false
}
