package httpapi

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// API is the [http.Handler] of all routes. Its other methods authenticate the
// application's own routes; they share its rate limiter and Observe. All methods
// are safe for concurrent use.
type API struct {
	options     Options // without AdminKeys
	keys        *keys.Service
	symbols     *symbols.Service
	exports     *exports.Service
	admin       *adminKeys
	crossOrigin *http.CrossOriginProtection
	limiter     *authLimiter
	memory      *budget.Budget[client] // of requests
	sending     *sending
	streams     *streamLimiter
	cors        *cors
	versions    *versionLoader
	bodies      *bodyCache
	prefix      string // with a slash before it, or empty
	log         *slog.Logger
	handler     http.Handler
	arrived     *atomic.Int64 // number of requests so far

	warnServer, warnBuffered func() // log once
}

// New returns the API. It starts no goroutine: the application runs
// [keys.Service.Run] itself. An error means that AllowedOrigins, RegisterWith or a
// bcrypt hash in AdminKeys is invalid, or that AdminKeys and AuthenticateAdmin are set.
func New(opts Options) (*API, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	a := &API{
		options:     opts,
		keys:        opts.Keys,
		symbols:     opts.Symbols,
		exports:     opts.Exports,
		limiter:     newAuthLimiter(opts.AuthRateLimit),
		memory:      budget.New[client](opts.MemoryBudget, opts.StoreTimeout),
		sending:     newSending(opts.MemoryBudget/2, opts.StoreTimeout),
		streams:     &streamLimiter{limit: opts.StreamsPerClient, running: make(map[client]int)},
		cors:        newCORS(opts.AllowedOrigins),
		versions:    newVersionLoader(opts.Symbols),
		log:         opts.Logger,
		arrived:     new(atomic.Int64),
		crossOrigin: http.NewCrossOriginProtection(),
	}
	var err error
	if a.admin, err = newAdminKeys(opts.AdminKeys); err != nil {
		return nil, err
	}
	a.warnServer = sync.OnceFunc(func() {
		a.log.Warn("the server sets no http.ServerContextKey: aborted downloads end without http.ErrAbortHandler")
	})
	a.warnBuffered = sync.OnceFunc(func() {
		a.log.Warn("downloads may be buffered: the ResponseWriter can neither flush nor set deadlines, as behind http.TimeoutHandler")
	})
	a.options.AdminKeys = nil // not shown when the API is printed
	if prefix := strings.Trim(opts.Prefix, "/"); prefix != "" {
		a.prefix = "/" + prefix
	}
	a.bodies = newBodyCache(opts.ListCache)
	a.handler = a.withRecovery(a.cors.wrap(a.withPrefix(a.mux())))
	return a, nil
}

// Handler is [New] for options that are known to be valid. It panics if New
// returns an error.
func Handler(opts Options) http.Handler {
	a, err := New(opts)
	if err != nil {
		panic(err)
	}
	return a
}

// ServeHTTP implements [http.Handler]. Like [http.ServeMux] it sets the Pattern
// of r, prefix included, for middleware around it.
//
// It removes x-api-key and x-admin-key from the header of r, so that middleware
// does not log them; serving the same *http.Request again therefore fails. Behind
// [API.RequireClientKey] and [API.Authenticate] it uses the keys of the context.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Format implements [fmt.Formatter] for all verbs. It prints no state, which other
// goroutines change.
func (a *API) Format(f fmt.State, _ rune) { io.WriteString(f, "httpapi.API") }

// mux registers the routes, and for each path a handler of other methods.
func (a *API) mux() http.Handler {
	mux := http.NewServeMux()
	allow := make(map[string][]string)
	for _, route := range a.routes() {
		mux.Handle(route.method+" "+route.path, a.handleRoute(route))
		allow[route.path] = append(allow[route.path], route.method)
		if route.method == http.MethodGet {
			allow[route.path] = append(allow[route.path], http.MethodHead)
		}
	}
	for path, methods := range allow {
		allowed := strings.Join(methods, ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.(*response).route = path
			w.Header().Set("Allow", allowed)
			a.fail(w, r, errMethodNotAllowed)
		})
	}
	mux.HandleFunc("/", a.noRoute)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/viewer/exports/links/") { // the URL has a secret
			w.Header().Set("Referrer-Policy", "no-referrer")
		}
		// ServeMux redirects unclean paths, without the prefix under which
		// it is mounted.
		if p := r.URL.EscapedPath(); !strings.HasPrefix(p, "/") || path.Clean(p) != p {
			a.noRoute(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (a *API) noRoute(w http.ResponseWriter, r *http.Request) { a.fail(w, r, errNoRoute) }

// handleRoute applies the key check and the body limit of a route, and responds
// to errors.
func (a *API) handleRoute(route route) http.Handler {
	endpoint := a.requireAuth(route, func(w http.ResponseWriter, r *http.Request) error {
		if r.ContentLength > route.limit {
			return errTooLarge
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			drain(w, r)
		}
		return route.endpoint(w, r)
	})
	kind := route.resource()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(*response).route = route.path
		if id, err := pathID(r); err == nil && kind != "" {
			touch(w, Resource{Kind: kind, ID: id})
		}
		r = r.WithContext(exports.WithRequestID(r.Context(), requestID(w)))
		body := a.setBody(w.(*response), r, route.limit)
		defer body.memory.Release()
		if err := endpoint(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// withRecovery is the outermost middleware: default headers, panic recovery,
// Observe. A panic becomes a 500, or aborts a response that has begun.
func (a *API) withRecovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		a.arrived.Add(1)
		w := a.newResponse(inner, r)
		defer func() { a.observe(w, r) }()
		setHeader(w, "Cache-Control", "no-store")
		setHeader(w, "X-Content-Type-Options", "nosniff")
		defer func() {
			reason := recover()
			if reason == nil {
				return
			}
			if reason != http.ErrAbortHandler {
				a.logFailure(w, r, slog.LevelError, "panic in handler", cmp.Or(w.status, http.StatusInternalServerError),
					"panic", reason, "stack", string(debug.Stack()))
				if w.status == 0 {
					a.fail(w, r, errPanic)
					return
				}
			}
			w.aborted = true
			if !stream.IsNetHTTP(r) {
				a.warnServer()
				stream.AbortElsewhere(w, r)
				return
			}
			stream.Abort(w, r)
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// newStream returns a Writer of the body of a response that may be long.
func (a *API) newStream(w http.ResponseWriter, r *http.Request) *stream.Writer {
	if stream.Buffers(w, r) {
		a.warnBuffered()
	}
	out := stream.New(w, r, a.options.IdleTimeout)
	if !stream.IsNetHTTP(r) {
		out.Flush() // the adaptor of fasthttp streams what is written after a Flush
	}
	return out
}

// abort aborts a response that has begun and cannot be completed. It does not
// return.
func (a *API) abort(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		a.logFailure(w, r, slog.LevelWarn, "response aborted", recordOf(w).status, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// withPrefix removes the prefix from the path. Other paths have no route.
func (a *API) withPrefix(next http.Handler) http.Handler {
	if a.prefix == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := strings.CutPrefix(r.URL.Path, a.prefix)
		raw, rawOK := strings.CutPrefix(r.URL.RawPath, a.prefix)
		if !ok || (!rawOK && r.URL.RawPath != "") {
			a.noRoute(w, r)
			return
		}
		inner := *r
		inner.URL = new(url.URL)
		*inner.URL = *r.URL
		inner.URL.Path, inner.URL.RawPath = p, raw
		defer func() { r.Pattern = strings.Replace(inner.Pattern, "/", a.prefix+"/", 1) }()
		next.ServeHTTP(w, &inner)
	})
}
