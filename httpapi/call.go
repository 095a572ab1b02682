package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

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
	outer       *call    // of middleware of the API that the request has passed, or nil
	inherited   bool     // outer has verified the client key, and counted its use, and the request has no other keys
	key         keys.Key // if verified
	scopes      []string // that the key must have
	hasTenant   bool     // the route is about records of a tenant
	tenant      string   // of the verified key, if hasTenant
	verified    bool     // by api; false with open client routes

	route   string // in the route table, or r.Pattern of the application's own routes
	id      int64  // in the path of an endpoint; zero if the route has none
	keyID   int64  // of the client key, also of a rejected one
	tokenID string // of its page token, if it was one
	actor   string // of an admin route
	code    string // of the error
	failure string // of the API, for the log
	touched []Resource
	items   []exports.BatchItem // that an export request asks for; touched in the end
	aborted bool

	link     *exports.FoundLink // of a link's route
	observes bool               // calls Observe for the API behind it too
	mu       sync.Mutex         // of what the API behind it reports, which may outlast it behind http.TimeoutHandler

	body   requestBody
	memory budget.Reservation[client]
}

// newCall begins a request, of which it modifies nothing, with the given tokens of its
// URL. The caller sets the request id.
func (a *API) newCall(w http.ResponseWriter, r *http.Request, tokens []string) *call {
	c := &call{api: a, w: response{ResponseWriter: w}, start: time.Now(), credentials: newCredentials(r, tokens)}
	header, hasKeys := withoutKeys(r.Header)
	if outer := callOf(r.Context()); outer != nil && outer.api == a {
		c.outer, c.inherited = outer, outer.verified && !hasKeys
	}
	if c.credentials().token != nil { // the URL has a secret
		w.Header().Set("Referrer-Policy", "no-referrer")
	}
	ctx := context.WithValue(r.Context(), credentialsKey{}, c.credentials)
	c.r = r.WithContext(context.WithValue(ctx, callKey{}, c))
	c.r.Header = header
	return c
}

type callKey struct{}

// callOf returns the innermost call that a context belongs to, or nil.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// RequestIDFromContext returns the request id of a request to an [API], or "". It may be
// the RequestID of fetch.Options.
func RequestIDFromContext(ctx context.Context) string {
	if c := callOf(ctx); c != nil {
		return c.givenID
	}
	return ""
}

const headerRequestID = "X-Request-Id"

func (c *call) requestID() string { return c.w.Header().Get(headerRequestID) }

// setRequestID sets the request id of the response, also if Options.RequestID panics. It is
// the one that the application has set, else that of Options.RequestID, else the client's,
// else a new one. It replaces invalid ones, because the application may pass on what a client
// sent.
func (c *call) setRequestID() {
	c.givenID = c.requestID()
	defer func() {
		if !validRequestID(c.givenID) {
			c.givenID = c.r.Header.Get(headerRequestID)
		}
		if !validRequestID(c.givenID) {
			c.givenID = uuid.Must(uuid.NewV7()).String()
		}
		c.w.Header().Set(headerRequestID, c.givenID)
	}()
	if f := c.api.options.RequestID; f != nil && !validRequestID(c.givenID) {
		c.givenID = f(c.r)
	}
}

// validRequestID accepts 1 to 128 visible ASCII characters.
func validRequestID(id string) bool {
	isOther := func(c rune) bool { return c <= ' ' || c > '~' }
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, isOther)
}

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

// inTurn calls f. If it is expensive, inTurn first waits until no other expensive request
// of the client runs, as long as for a body's memory. A request that exceeds the budget does
// not wait: the one whose turn it is may wait for the excess to end.
func (c *call) inTurn(expensive bool, f func() error) error {
	checked := func() error {
		if err := c.checkAfterWait(); err != nil {
			return err
		}
		return f()
	}
	if !expensive || c.memory.Exceeds() {
		return checked()
	}
	ctx, cancel := context.WithTimeoutCause(c.detached(), c.api.options.Limits.IdleTimeout, budget.ErrExhausted)
	defer cancel()
	return c.api.turns.Do(ctx, c.client(), checked)
}

// slowly calls f in the turn of the client with a slowContext, if the store is available.
func (c *call) slowly(f func(context.Context) (reply, error)) (out reply, err error) {
	err = c.inTurn(true, func() error {
		ctx, cancel := c.storeContext()
		defer cancel()
		if _, err := c.api.options.Symbols.FolderListVersion(ctx); err != nil {
			return err
		}
		ctx, cancel = c.slowContext()
		defer cancel()
		out, err = f(ctx)
		return err
	})
	return out, err
}

// detached returns the context of the request without its end, see storeContext.
func (c *call) detached() context.Context {
	if c.ctx == nil {
		c.ctx = context.WithoutCancel(c.r.Context())
	}
	return c.ctx
}

func (c *call) disconnected() bool { return c.r.Context().Err() != nil }

// pathID returns the id in the path, or zero if the route has none.
func (c *call) pathID() (int64, error) {
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

// client identifies whom a request counts for: its client key, or the network of its
// client IP if it has none.
type client struct {
	keyID int64
	ip    string
}

func (c *call) client() client {
	if c.keyID != 0 {
		return client{keyID: c.keyID}
	}
	return client{ip: auth.Network(c.clientIP())}
}

func (c *call) clientIP() string { return c.api.options.clientIP(c.r) }

// anyone is who registers an export without a key.
const anyone = "anyone"

// actorName returns who has sent the request, or "".
func (c *call) actorName() string {
	if c.actor == "" && c.keyID != 0 {
		return fmt.Sprint("key ", c.keyID)
	}
	return c.actor
}

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
