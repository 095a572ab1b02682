package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"example.com/canvasback/keys"
)

// The headers that carry keys, in the form in which net/http keeps them.
const (
	headerAdminKey = "X-Admin-Key"
	headerAPIKey   = "X-Api-Key"
)

// guard says which key a route asks for.
type guard int

const (
	clientKey guard = iota
	adminKey
	noKey
)

// guarded lets requests with the right key through to an endpoint.
func (a *api) guarded(g guard, next endpoint) endpoint {
	switch {
	case g == noKey, g == clientKey && a.DangerouslySkipClientKeys:
		return next
	case g == adminKey:
		return func(w http.ResponseWriter, r *http.Request) error {
			if err := a.checkAdminKey(r.Header); err != nil {
				return a.guesses.judge(r, err)
			}
			return next(w, r)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		key, err := a.checkClientKey(r)
		if err != nil {
			return a.guesses.judge(r, err)
		}
		if w, ok := w.(*response); ok {
			w.keyID = key.ID
		}
		return next(w, r.WithContext(&keyContext{r.Context(), key}))
	}
}

func (a *api) checkAdminKey(header http.Header) error {
	if len(a.adminKeys) == 0 {
		return errAdminOff
	}
	values := header[headerAdminKey]
	if len(values) != 1 {
		return errAdminKeyMissing
	}
	if !a.isAdminKey(values[0]) {
		return errAdminKeyWrong
	}
	return nil
}

// isAdminKey compares digests, all of them, so that neither the length of a key
// nor the place of the first difference shows in the time it takes.
func (a *api) isAdminKey(value string) bool {
	given := sha256.Sum256([]byte(value))
	match := 0
	for _, key := range a.adminKeys {
		match |= subtle.ConstantTimeCompare(key[:], given[:])
	}
	return match == 1
}

func (a *api) checkClientKey(r *http.Request) (keys.Key, error) {
	values := r.Header[headerAPIKey]
	if len(values) != 1 || a.Keys == nil {
		return keys.Key{}, errClientKeyMissing
	}
	return a.Keys.Verify(context.WithoutCancel(r.Context()), values[0]) // see storeContext
}

// keyContext carries the checked key of a request.
type keyContext struct {
	context.Context
	key keys.Key
}

// keyName is what the key is asked for by.
type keyName struct{}

func (c *keyContext) Value(name any) any {
	if name == (keyName{}) {
		return c
	}
	return c.Context.Value(name)
}

// KeyFromContext returns the client key with which a request was let through,
// and false if none was asked for. The raw key is not part of it.
func KeyFromContext(ctx context.Context) (keys.Key, bool) {
	c, ok := ctx.Value(keyName{}).(*keyContext)
	if !ok {
		return keys.Key{}, false
	}
	return c.key, true
}

// RequireClientKey returns a middleware that asks for a client key in front of
// the host's own routes, and answers like [Handler] if there is no good one.
// It uses Keys, DangerouslySkipClientKeys, Guessing, AllowedOrigins and Logger of
// the options. Behind it, [KeyFromContext] returns the key.
func RequireClientKey(options Options) func(http.Handler) http.Handler {
	a := newAPI(options)
	return func(next http.Handler) http.Handler {
		check := a.guarded(clientKey, func(w http.ResponseWriter, r *http.Request) error {
			next.ServeHTTP(w, r)
			return nil
		})
		return newCORS(options.AllowedOrigins).wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			identify(w, r)
			if err := check(w, r); err != nil {
				a.fail(w, r, err)
			}
		}))
	}
}
