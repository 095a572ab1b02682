package httpapi

import (
	"context"
	"net/http"
	"strings"
)

// endpoint responds to an authenticated request, or returns the error to respond
// with.
type endpoint func(c *call) error

// withBody returns an endpoint that decodes the body, calls f and responds with its
// reply.
func withBody[In any](status int, f func(ctx context.Context, c *call, in In) (reply, error)) endpoint {
	return func(c *call) error {
		var in In
		if err := c.decode(&in); err != nil {
			return err
		}
		return c.respond(status, func(ctx context.Context) (reply, error) { return f(ctx, c, in) })
	}
}

// withoutBody is withBody with status 200 for requests whose body is ignored.
func withoutBody(f func(ctx context.Context, c *call) (reply, error)) endpoint {
	return func(c *call) error {
		c.drain()
		return c.respond(http.StatusOK, func(ctx context.Context) (reply, error) { return f(ctx, c) })
	}
}

// idsRequest is the body of a request for several records.
type idsRequest struct {
	IDs ids `json:"ids"`
}

// route is a row of the table in routes.go.
type route struct {
	method   string
	path     string
	auth     credential
	scope    string // that a client key needs
	limit    int64  // of the request body, in bytes
	endpoint endpoint
}

// credential is what a route requires.
type credential int

const (
	clientKey credential = iota
	ownKey               // a client key, even if client routes are open; checking it is no use
	adminKey
	registerKey // an admin key, or a client key whose scopes name the one of the route
	noKey
)

// Scopes that routes require of client keys. Others are the application's own.
const (
	ScopeExportsRead     = "exports:read"     // downloads and links
	ScopeExportsRegister = "exports:register" // registration of exports
	ScopeSymbolsRead     = "symbols:read"     // GET of folders and symbols
	ScopeSymbolsWrite    = "symbols:write"    // all else with folders and symbols
)

// resourceKind returns the kind of record that {id} in a path identifies.
func resourceKind(path string) string {
	for prefix, kind := range map[string]string{
		"/admin/api-keys/{id}": "key",
		"/admin/exports/{id}":  "export",
		"/symbol/folders/{id}": "folder",
		"/symbol/symbols/{id}": "symbol",
		"/symbol/trash/{id}":   "trash",
	} {
		if strings.HasPrefix(path, prefix) {
			return kind
		}
	}
	return ""
}
