package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"example.com/canvasback/keys"
)

// The headers that carry keys, in canonical form.
const (
	headerAdminKey = "X-Admin-Key"
	headerAPIKey   = "X-Api-Key"
)

// auth is the kind of key that a route requires.
type auth int

const (
	clientKey auth = iota
	adminKey
	noKey
)

// requireAuth returns an endpoint that calls next if the request has the key, and
// the key the scope, that the route requires.
func (a *API) requireAuth(route route, next endpoint) endpoint {
	switch {
	case route.auth == noKey, route.auth == clientKey && a.options.DangerouslySkipClientKeys:
		return next
	case route.auth == adminKey:
		return func(w http.ResponseWriter, r *http.Request) error {
			if err := a.checkAdmin(w.(*response), r); err != nil {
				return err
			}
			return next(w, r)
		}
	}
	scope := []string{route.scope}
	return func(w http.ResponseWriter, r *http.Request) error {
		body := r.Body.(*requestBody)
		authenticated, err := a.checkClientKey(w.(*response), r, scope, route.path)
		if err != nil {
			return err
		}
		if r.Body != body { // Authorize has read it
			body.source, r.Body = r.Body, body
		}
		return next(w, r.WithContext(authenticated))
	}
}

// checkClientKey returns the context of r with its verified client key, which has
// the scopes. It verifies no key twice for a request.
func (a *API) checkClientKey(w *response, r *http.Request, scopes []string, route string) (*authContext, error) {
	out := &authContext{Context: r.Context(), api: a, verified: true, credentials: w.credentials}
	permit := func(key *keys.Key) error { return a.permit(w, r, key, scopes, route) }
	if w.inherited && w.outer.verified && w.outer.api == a {
		out.key = w.outer.key
		return out, permit(&out.key)
	}
	values, _ := w.credentials()
	if len(values) != 1 || a.keys == nil {
		return nil, errClientKeyMissing
	}
	var err error
	out.key, err = a.keys.VerifyFunc(context.WithoutCancel(r.Context()), values[0], permit) // see storeContext
	if err != nil {
		w.keyID = out.key.ID // of the rejected key
		return nil, a.limiter.limit(r, err)
	}
	return out, nil
}

// credentials returns the values of the key headers of a request. It is a
// function, because package fmt prints the fields of structs.
type credentials func() (client, admin []string)

// takeCredentials removes the key headers in place, so that no middleware logs
// them, and returns their values. Values that another API has removed before are
// in outer, which may be nil; inherited reports whether all are from there.
func takeCredentials(header http.Header, outer *authContext) (taken credentials, inherited bool) {
	client, admin := header[headerAPIKey], header[headerAdminKey]
	delete(header, headerAPIKey)
	delete(header, headerAdminKey)
	if outer != nil {
		if client == nil && admin == nil {
			return outer.credentials, true
		}
		outerClient, outerAdmin := outer.credentials()
		if client == nil {
			client = outerClient
		}
		if admin == nil {
			admin = outerAdmin
		}
	}
	return func() ([]string, []string) { return client, admin }, false
}

// authContext carries the authentication of a request to the endpoints of an API
// or the application.
type authContext struct {
	context.Context
	api         *API
	key         keys.Key // if verified
	verified    bool     // by api
	credentials credentials
	observed    *response // if RequireClientKey reports it to Observe
}

type ctxKey struct{}

func (c *authContext) Value(key any) any {
	if key == (ctxKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// KeyFromContext returns the verified client key of a request. It returns false
// on routes that need no client key.
func KeyFromContext(ctx context.Context) (keys.Key, bool) {
	c, ok := ctx.Value(ctxKey{}).(*authContext)
	if !ok || !c.verified {
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
// of the API: CORS headers and preflights, error bodies, rate limit. With
// DangerouslySkipClientKeys it calls next without a key.
//
// It removes x-api-key and x-admin-key from the header of the request, in place,
// so that nothing logs them. The context keeps them for an API behind it.
//
// The request is reported to Observe when next returns. Its Route is r.Pattern,
// which http.ServeMux and chi set, or empty. With Observe set, next gets a
// ResponseWriter with Flush, Hijack and Unwrap.
func (a *API) RequireClientKey(next http.Handler) http.Handler { return a.requireClientKey(next) }

func (a *API) requireClientKey(next http.Handler, scopes ...string) http.Handler {
	return http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		w := a.newResponse(inner, r)
		w.aborted = true // until next returns
		defer func() {
			w.route = cmp.Or(w.route, r.Pattern)
			a.observe(w, r)
		}()
		if authenticated, ok := a.authenticate(w, r, scopes); ok {
			if a.options.Observe != nil {
				authenticated.observed = w
				inner = appResponse{w}
			}
			request := r.WithContext(authenticated)
			defer func() { r.Pattern = request.Pattern }()
			next.ServeHTTP(inner, request)
		}
		w.aborted = false
	})
}

// Authenticate is [API.RequireClientKey] for routers whose handlers are not of
// type http.Handler, such as gin and echo. It returns the client key of r, or
// writes an error response (or that of a preflight) and returns false.
//
//	func auth(c *gin.Context) {
//		if _, ok := api.Authenticate(c.Writer, c.Request); !ok {
//			c.Abort()
//		}
//	}
//
// It replaces the context of r in place, so that [KeyFromContext] finds the key,
// and removes x-api-key and x-admin-key from the header of r like RequireClientKey.
// With DangerouslySkipClientKeys the key is zero. Observe is called for rejected
// requests only. The key must have all scopes, as behind [API.RequireScope].
func (a *API) Authenticate(w http.ResponseWriter, r *http.Request, scopes ...string) (keys.Key, bool) {
	out := a.newResponse(w, r)
	authenticated, ok := a.authenticate(out, r, scopes)
	if !ok {
		out.route = r.Pattern
		a.observe(out, r)
		return keys.Key{}, false
	}
	*r = *r.WithContext(authenticated)
	return authenticated.key, true
}

// authenticate checks the client key of a request to one of the application's
// routes. If it returns false, it has responded.
func (a *API) authenticate(w *response, r *http.Request, scopes []string) (*authContext, bool) {
	if a.cors.handle(w, r) {
		return nil, false
	}
	if a.options.DangerouslySkipClientKeys {
		return &authContext{Context: r.Context(), api: a, credentials: w.credentials}, true
	}
	authenticated, err := a.checkClientKey(w, r, scopes, r.Pattern)
	if err != nil {
		w.route = r.Pattern
		a.fail(w, r, err)
		return nil, false
	}
	return authenticated, true
}
