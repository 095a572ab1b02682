package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"example.com/canvasback/keys"
)

// authenticate checks that the request has the key, and the key the scope, that a route
// requires.
func (c *call) authenticate(route *route) error {
	c.hasTenant = route.auth == clientKey || route.auth == registerKey
	switch route.auth {
	case noKey:
		return nil
	case adminKey:
		return c.checkAdmin()
	case ownKey:
		return c.checkClientKey(nil, func(*keys.Key) error { return keys.SkipUse })
	case registerKey:
		given := c.credentials()
		if given.admin != nil || given.client == nil && c.api.options.AuthenticateAdmin != nil {
			return c.checkAdmin() // it decides alone
		}
		if c.api.options.DangerouslySkipClientKeys {
			return &DeniedError{Message: "only an admin key may register exports"}
		}
		return c.checkClientKey([]string{route.scope}, c.checkRegistrant)
	}
	return c.checkClient([]string{route.scope})
}

// checkClient checks the client key of the request, which must have the scopes. If client
// routes are open, it rejects requests that change something if they come from pages of
// origins that CORS does not allow.
func (c *call) checkClient(scopes []string) error {
	cors := c.api.cors
	switch {
	case !c.api.options.DangerouslySkipClientKeys:
		return c.checkClientKey(scopes, nil)
	case cors.allowAll(), cors.allows(c.r.Header.Get("Origin")), c.api.crossOrigin.Check(c.r) == nil:
		return nil
	}
	return errCrossOrigin
}

// checkRegistrant checks that the scopes of a key name ScopeExportsRegister. Those of a
// page token do not count: whoever holds an unlimited key can make one with any scope.
func (c *call) checkRegistrant(key *keys.Key) error {
	scopes := key.Scopes
	if key.Token != nil {
		owner, err := c.api.options.Keys.VerifyDigest(c.detached(), key.Digest)
		if err != nil {
			return err
		}
		scopes = owner.Scopes
	}
	if !slices.Contains(scopes.List(), ScopeExportsRegister) {
		return &DeniedError{Message: "the scopes of this API key do not name " + ScopeExportsRegister}
	}
	return nil
}

// checkClientKey verifies the client key of the request, which must have the scopes. It
// counts one use for a request, and verifies the key again behind middleware, which may have
// held the request while the key was revoked. The last check may be nil, or return
// [keys.SkipUse].
func (c *call) checkClientKey(scopes []string, last func(*keys.Key) error) error {
	permit := func(key *keys.Key) error {
		err := c.permit(key, scopes)
		if err == nil && last != nil {
			err = last(key)
		}
		if err == nil && c.inherited {
			err = keys.SkipUse
		}
		return err
	}
	values, check := c.credentials(), c.api.auth.Client
	given := values.client
	if given == nil && values.token != nil {
		given, check = values.token, c.api.auth.Token
	}
	key, err := check(c.detached(), c.clientIP, given, permit)
	if err != nil {
		c.setKey(&key) // the rejected one
		return err
	}
	c.key, c.scopes, c.verified = key, scopes, true
	return nil
}

// checkAfterWait returns an error if a request has waited longer than a second, such as for
// its body, and its key was revoked meanwhile: that of another request, unless the tenant of
// the key has changed.
func (c *call) checkAfterWait() error {
	if time.Since(c.start) > time.Second && !c.accepts() {
		skipUse := func(*keys.Key) error { return keys.SkipUse }
		return cmp.Or(c.checkClientKey(c.scopes, skipUse), keys.ErrUnknown)
	}
	return nil
}

// accepts reports whether the request, once accepted, still would be. While the store is
// unavailable it would, until its key or page token ends.
func (c *call) accepts() bool {
	if !c.verified {
		return true
	}
	values := c.credentials()
	raw := append(values.client, values.token...)[0]
	key, err := c.api.options.Keys.VerifyFunc(c.detached(), raw, func(*keys.Key) error { return keys.SkipUse })
	if err != nil {
		end := c.key.ValidUntil()
		return errors.Is(err, keys.ErrUnavailable) && (end.IsZero() || c.api.options.Keys.Now().Before(end))
	}
	if c.hasTenant {
		if tenant, err := c.api.tenantOf(&key); err != nil || tenant != c.tenant {
			return false
		}
	}
	return !slices.ContainsFunc(c.scopes, func(scope string) bool { return !key.Allows(scope) })
}

// KeyFromContext returns the verified client key of a request. It returns false
// on routes that need no client key.
func KeyFromContext(ctx context.Context) (keys.Key, bool) {
	c := callOf(ctx)
	if c == nil || !c.verified {
		return keys.Key{}, false
	}
	return c.key, true
}

// RequireScope returns [API.RequireClientKey] for handlers that require a scope of
// the client key, which may be one of the application's own. Without it the response
// is 403.
func (a *API) RequireScope(scope string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return a.requireClientKey(next, scope) }
}

// RequireClientKey is middleware for the application's own handlers. It calls next
// with the key in the context (see [KeyFromContext]), or responds like the routes
// of the API: CORS headers and preflights, error bodies, rate limit. With a key, caches
// return the response of next for that key only, and ask before, unless next replaces
// Cache-Control and Vary. With DangerouslySkipClientKeys it calls next without a key.
//
// The request is reported to Observe when next returns. Its Route is r.Pattern,
// which http.ServeMux and chi set, or empty. With Observe set, next gets a
// ResponseWriter with Flush, Hijack and Unwrap.
func (a *API) RequireClientKey(next http.Handler) http.Handler { return a.requireClientKey(next) }

func (a *API) requireClientKey(next http.Handler, scopes ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := a.newCall(w, r, nil)
		returned := false
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.aborted = c.aborted || !returned
			c.route = cmp.Or(c.route, r.Pattern)
			c.observe()
		}()
		if c.authenticateOwn(scopes) {
			if a.options.Observe != nil {
				c.observes = true
				w = &c.w
			}
			defer func() { r.Pattern = c.r.Pattern }()
			next.ServeHTTP(w, c.r)
		}
		returned = true
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
// With DangerouslySkipClientKeys there is no key. Observe is called for rejected requests
// and preflights only. The key must have all scopes, as behind [API.RequireScope].
func (a *API) Authenticate(w http.ResponseWriter, r *http.Request, scopes ...string) (*http.Request, bool) {
	c := a.newCall(w, r, nil)
	if !c.authenticateOwn(scopes) {
		c.observe()
		return nil, false
	}
	return c.r, true
}

// authenticateOwn checks the client key of a request to one of the application's
// routes. If it returns false, it has responded.
func (c *call) authenticateOwn(scopes []string) bool {
	defer c.recoverPanic()
	c.setRequestID()
	if c.api.cors.handle(&c.w, c.r) {
		return false
	}
	c.route = c.r.Pattern
	if err := cmp.Or(c.checkClient(scopes), c.checkAfterWait()); err != nil {
		c.fail(err)
		return false
	}
	if c.verified { // the key may be revoked, and a browser may have another one later
		c.w.Header().Set("Cache-Control", cacheControlRevalidate)
		c.w.Header().Add("Vary", headerAPIKey)
	}
	return true
}
