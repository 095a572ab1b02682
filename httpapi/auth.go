package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"example.com/canvasback/keys"
)

// credential is what a route requires.
type credential int

const (
	clientKey credential = iota
	adminKey
	noKey
)

// authenticate checks that the request has the key, and the key the scope, that a route
// requires.
func (c *call) authenticate(route *route) error {
	switch {
	case route.auth == noKey, route.auth == clientKey && c.api.options.DangerouslySkipClientKeys:
		return nil
	case route.auth == adminKey:
		return c.checkAdmin()
	}
	defer c.replaceBody() // Authorize may have read it
	return c.checkClientKey([]string{route.scope})
}

// checkClientKey verifies the client key of the request, which must have the scopes. It
// verifies no key twice for a request.
func (c *call) checkClientKey(scopes []string) error {
	permit := func(key *keys.Key) error { return c.permit(key, scopes) }
	if c.inherited && c.outer.verified && c.outer.api == c.api {
		c.key, c.verified = c.outer.key, true
		return permit(&c.key)
	}
	values, _ := c.credentials()
	key, err := c.api.auth.Client(c.detached(), c.clientIP, values, permit)
	if err != nil {
		c.keyID = key.ID // of the rejected key
		return err
	}
	c.key, c.verified = key, true
	return nil
}

// KeyFromContext returns the verified client key of a request. It returns false
// on routes that need no client key.
func KeyFromContext(ctx context.Context) (keys.Key, bool) {
	passed, ok := ctx.Value(callKey{}).(*callContext)
	if !ok || passed.call == nil || !passed.call.verified {
		return keys.Key{}, false
	}
	return passed.call.key, true
}

// RequireScope returns [API.RequireClientKey] for handlers that require a scope of
// the client key, which may be one of the application's own. Without it the response
// is 403.
func (a *API) RequireScope(scope string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return a.requireClientKey(next, scope) }
}

// RequireClientKey is middleware for the application's own handlers. It calls next
// with the key in the context (see [KeyFromContext]), or responds like the routes
// of the API: CORS headers and preflights, error bodies, rate limit. With
// DangerouslySkipClientKeys it calls next without a key.
//
// The request of next has neither x-api-key nor x-admin-key in its header, so that
// nothing logs them. Its context keeps them for an API behind it.
//
// The request is reported to Observe when next returns. Its Route is r.Pattern,
// which http.ServeMux and chi set, or empty. With Observe set, next gets a
// ResponseWriter with Flush, Hijack and Unwrap.
func (a *API) RequireClientKey(next http.Handler) http.Handler { return a.requireClientKey(next) }

func (a *API) requireClientKey(next http.Handler, scopes ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := a.newCall(w, r)
		c.aborted = true // until next returns
		defer func() {
			c.route = cmp.Or(c.route, r.Pattern)
			c.observe()
		}()
		if c.authenticateOwn(scopes) {
			if a.options.Observe != nil {
				c.observes = true
				w = appResponse{&c.w}
			}
			defer func() { r.Pattern = c.r.Pattern }()
			next.ServeHTTP(w, c.r)
		}
		c.aborted = false
	})
}

// Authenticate is [API.RequireClientKey] for routers whose handlers are not of
// type http.Handler, such as gin and echo. It returns the request to continue with,
// whose context has the client key (see [KeyFromContext]), or writes an error response
// (or that of a preflight) and returns false.
//
//	func auth(c *gin.Context) {
//		r, ok := api.Authenticate(c.Writer, c.Request)
//		if !ok {
//			c.Abort()
//			return
//		}
//		c.Request = r
//	}
//
// The header of the returned request has neither x-api-key nor x-admin-key. With
// DangerouslySkipClientKeys there is no key. Observe is called for rejected requests
// only. The key must have all scopes, as behind [API.RequireScope].
func (a *API) Authenticate(w http.ResponseWriter, r *http.Request, scopes ...string) (*http.Request, bool) {
	c := a.newCall(w, r)
	if !c.authenticateOwn(scopes) {
		c.observe()
		return nil, false
	}
	return c.r, true
}

// authenticateOwn checks the client key of a request to one of the application's
// routes. If it returns false, it has responded.
func (c *call) authenticateOwn(scopes []string) bool {
	if c.api.cors.handle(&c.w, c.r) {
		return false
	}
	if c.api.options.DangerouslySkipClientKeys {
		return true
	}
	c.route = c.r.Pattern
	if err := c.checkClientKey(scopes); err != nil {
		c.fail(err)
		return false
	}
	return true
}
