package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/auth"
	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/keys"
)

// call is one request and its response. It is made once for each request to an API
// or its middleware, and its methods are what endpoints do with both. It is not safe
// for concurrent use.
type call struct {
	api   *API
	r     *http.Request   // a clone without keys, whose path has no prefix
	ctx   context.Context // of detached, once it was called
	w     response
	start time.Time

	givenID     string // the request id, for goroutines that must not read the header of w
	credentials credentials
	outer       *call    // of middleware that the request has passed, or nil
	inherited   bool     // credentials are those of outer
	key         keys.Key // if verified
	hasTenant   bool     // the route is about records of a tenant
	tenant      string   // of the key, if hasTenant
	verified    bool     // by api; false with open client routes

	route   string // in the route table, or r.Pattern of the application's own routes
	keyID   int64  // of the client key, also of a rejected one
	tokenID string // of its page token, if it was one
	actor   string // of an admin route
	code    string // of the error
	failure string // of the API, for the log
	touched []Resource
	aborted bool

	link     *exports.FoundLink // of a link's route
	observes bool               // calls Observe for the API behind it too

	body   requestBody
	memory budget.Reservation[client]
}

// newCall begins a request, of which it modifies nothing, with the given tokens of its
// URL. The caller sets the request id.
func (a *API) newCall(w http.ResponseWriter, r *http.Request, tokens []string) *call {
	c := &call{api: a, w: response{ResponseWriter: w}, start: time.Now()}
	c.credentials = newCredentials(r.Header, tokens)
	header := withoutKeys(r.Header)
	if passed, ok := r.Context().Value(callKey{}).(*passedCall); ok {
		c.outer, c.inherited = passed.call, passed.call != nil && len(header) == len(r.Header)
		c.credentials = passed.join(c.credentials)
	}
	if c.credentials().token != nil { // the URL has a secret
		w.Header().Set("Referrer-Policy", "no-referrer")
	}
	c.r = r.WithContext(context.WithValue(r.Context(), callKey{}, &passedCall{c.credentials, c}))
	c.r.Header = header
	return c
}

// passedCall is what this package knows of a request, in its context.
type passedCall struct {
	credentials credentials
	call        *call // nil behind HideKeys, unless it has the same keys
}

type callKey struct{}

// RequestIDFromContext returns the request id of a request to an [API], or "". It may be
// the RequestID of fetch.Options.
func RequestIDFromContext(ctx context.Context) string {
	if passed, ok := ctx.Value(callKey{}).(*passedCall); ok && passed.call != nil {
		return passed.call.givenID
	}
	return ""
}

// join returns the credentials that are given, and instead of absent ones those that
// the request had before.
func (p *passedCall) join(given credentials) credentials {
	return func() keyValues {
		values, outer := given(), p.credentials()
		if values.client == nil {
			values.client = outer.client
		}
		if values.admin == nil {
			values.admin = outer.admin
		}
		if values.token == nil {
			values.token = outer.token
		}
		return values
	}
}

// HideKeys returns a handler that calls next with a clone of the request, whose header
// has neither x-api-key nor x-admin-key, and whose URL, if it is one of an image or of
// changes, has no page token. An [API] behind it finds them in the context.
//
// Put it in front of middleware that logs the headers of requests, as gin.Recovery does
// when a download is aborted.
func HideKeys(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, tokens := cutToken(r)
		header, hidden := withoutKeys(r.Header), &passedCall{newCredentials(r.Header, tokens), nil}
		if passed, ok := r.Context().Value(callKey{}).(*passedCall); ok {
			hidden.credentials = passed.join(hidden.credentials)
			if len(header) == len(r.Header) { // otherwise the call may have verified another key
				hidden.call = passed.call
			}
		}
		inner := shown.WithContext(context.WithValue(r.Context(), callKey{}, hidden))
		inner.Header = header
		next.ServeHTTP(w, inner)
		r.Pattern = inner.Pattern
	})
}

// callOf returns the call of a request that the mux of an API serves.
func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*passedCall).call }

// storeContext returns the context of store calls. It ends after StoreTimeout and
// not when the client disconnects: a client may close its side of the connection
// after the request, and a driver may discard a database connection whose call is
// canceled.
func (c *call) storeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.detached(), c.api.options.Limits.StoreTimeout)
}

// slowContext is storeContext for a call about many records, with ten times the timeout.
func (c *call) slowContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.detached(), 10*c.api.options.Limits.StoreTimeout)
}

// detached returns the context of the request without its end, see storeContext.
func (c *call) detached() context.Context {
	if c.ctx == nil {
		c.ctx = context.WithoutCancel(c.r.Context())
	}
	return c.ctx
}

// disconnected reports whether the client has disconnected.
func (c *call) disconnected() bool { return c.r.Context().Err() != nil }

// id returns the id in the path, or zero if the route has none.
func (c *call) id() (int64, error) {
	if !strings.Contains(c.r.Pattern, "{id}") {
		return 0, nil
	}
	text := c.r.PathValue("id")
	id, ok := parseNumber(text)
	escaped := !strings.Contains(c.r.URL.EscapedPath()+"/", "/"+text+"/") // would give one record several URLs
	if !ok || id < 1 || escaped {
		return 0, invalidRequest("id must be a positive whole number")
	}
	return id, nil
}

func (c *call) client() client {
	if c.keyID != 0 {
		return client{keyID: c.keyID}
	}
	return client{ip: auth.Network(c.clientIP())}
}

func (c *call) clientIP() string { return c.api.options.clientIP(c.r) }

// actorName returns who has sent the request, or "".
func (c *call) actorName() string {
	if c.actor == "" && c.keyID != 0 {
		return fmt.Sprint("key ", c.keyID)
	}
	return c.actor
}

// requestID returns the request id of the response.
func (c *call) requestID() string { return c.w.Header().Get(headerRequestID) }

// logFailure logs a failure of the request. Its status is that of the response, or
// the given one if no header is written yet.
func (c *call) logFailure(level slog.Level, message string, status int, more ...any) {
	c.api.options.Logger.Log(c.r.Context(), level, message, append([]any{
		"method", knownMethod(c.r.Method),
		"route", c.route,
		"status", cmp.Or(c.w.status, status),
		"keyId", c.keyID,
		"requestId", c.requestID(),
		"duration", time.Since(c.start),
	}, more...)...)
}

func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "OTHER"
}
