package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// Defaults of [Options].
const (
	DefaultStoreTimeout = 5 * time.Second
	DefaultBodyLimit    = 1 << 20
	DefaultSymbolLimit  = 50 << 20
	DefaultBatchLimit   = 16 << 20
	DefaultImportLimit  = 64 << 20
	DefaultIdleTimeout  = time.Minute
	DefaultListCache    = 64 << 20
)

// Options say what [Handler] serves and to whom. The zero value serves
// nothing but the description of the API.
type Options struct {
	// Keys, Symbols and Exports are the services behind the routes. The
	// routes of a service that is nil do not exist. Without Keys no client
	// key can be checked, so all client routes answer 401 then, unless
	// DangerouslySkipClientKeys is set.
	Keys    *keys.Service
	Symbols *symbols.Service
	Exports *exports.Service

	// AdminKeys are the values accepted as x-admin-key; empty ones are
	// ignored. Two at a time let an admin key be changed without an outage.
	// If there are none, every admin route answers 403.
	AdminKeys []string

	// RegisterWith says who may register exports; with a client key if zero.
	RegisterWith RegisterWith

	// DangerouslySkipClientKeys opens the client routes to everyone.
	DangerouslySkipClientKeys bool

	// Guessing bounds how often an address may send wrong keys.
	Guessing Guessing

	// Prefix is the part of the path in front of all routes, such as
	// "/api". It is not needed behind http.StripPrefix.
	Prefix string

	// AllowedOrigins are the origins of web pages that may read the answers,
	// such as "https://viewer.example", or "*" for all. None turns CORS off.
	AllowedOrigins []string

	// BodyLimit bounds request bodies in bytes, SymbolLimit those that
	// create or update a symbol, BatchLimit those of batch downloads, and
	// ImportLimit the zips of imports. A zero stands for the default.
	BodyLimit   int64
	SymbolLimit int64
	BatchLimit  int64
	ImportLimit int64

	// Import bounds what comes out of the zip of an import; a symbol may
	// have SymbolLimit bytes of data unless it says otherwise. All of it is
	// kept in memory until it is stored.
	Import bundle.Limits

	// StoreTimeout is how long a request that has passed its guard may wait
	// for a store before it is answered 503; DefaultStoreTimeout if zero. An
	// import may wait as long again for each 16 MiB that it stores.
	// The guard waits as long as [keys.Options] say.
	StoreTimeout time.Duration

	// IdleTimeout is how long a client may stand still in a download;
	// DefaultIdleTimeout if zero. It takes the place of the WriteTimeout of
	// the server: a download may last as long as it moves. How little is
	// enough for that depends on whether the server has [ConnContext].
	IdleTimeout time.Duration

	// ListCache bounds the memory, in bytes, in which encoded lists of
	// symbols are cached; DefaultListCache if zero, none if negative. Each
	// request reads the current version from the store. Lists of a store
	// that is not shared are not cached.
	ListCache int64

	// Observe, if set, is called once for each request when it has been
	// answered, on the request's goroutine: it must be quick, and safe for
	// concurrent use. A panic in it is logged and has no other effect.
	Observe func(ctx context.Context, o Observation)

	// Logger receives the causes of failures; slog.Default if nil.
	Logger *slog.Logger

	_ struct{} // literals have field names
}

// Format implements [fmt.Formatter] for every verb, so that a host which prints
// its settings does not print its admin keys.
func (o Options) Format(f fmt.State, verb rune) {
	o.AdminKeys = slices.Repeat([]string{"[admin key]"}, len(o.AdminKeys))
	type plain Options
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(o))
}

// RegisterWith says who may register exports.
type RegisterWith int

const (
	// RegisterWithClientKey asks for a key as on the other client routes.
	RegisterWithClientKey RegisterWith = iota

	// RegisterWithAdminKey asks for an admin key.
	RegisterWithAdminKey

	// RegisterOff leaves the route out; exports are registered in Go.
	RegisterOff
)

// Handler returns the API as a handler that is safe for concurrent use. It
// starts nothing: the host runs [keys.Service.Run] beside it.
//
// Like a ServeMux it sets the Pattern of the request it is given, prefix
// included, for the host's own middleware around it.
func Handler(options Options) http.Handler {
	a := newAPI(options)
	return a.served(newCORS(options.AllowedOrigins).wrap(a.stripped(a.mux())))
}

// api is what the endpoints share.
type api struct {
	Options
	prefix    string // with a slash before it, or empty
	adminKeys [][sha256.Size]byte
	guesses   *guesses
	versions  *versionReads
	lists     *listCache
	log       *slog.Logger
}

func newAPI(options Options) *api {
	a := &api{Options: options, guesses: newGuesses(options.Guessing), log: options.Logger}
	if a.log == nil {
		a.log = slog.Default()
	}
	if prefix := strings.Trim(options.Prefix, "/"); prefix != "" {
		a.prefix = "/" + prefix
	}
	a.StoreTimeout = cmp.Or(max(a.StoreTimeout, 0), DefaultStoreTimeout)
	a.BodyLimit = cmp.Or(max(a.BodyLimit, 0), DefaultBodyLimit)
	a.SymbolLimit = cmp.Or(max(a.SymbolLimit, 0), DefaultSymbolLimit)
	a.BatchLimit = cmp.Or(max(a.BatchLimit, 0), DefaultBatchLimit)
	a.ImportLimit = cmp.Or(max(a.ImportLimit, 0), DefaultImportLimit)
	a.Import.Symbol = cmp.Or(max(a.Import.Symbol, 0), a.SymbolLimit)
	a.IdleTimeout = cmp.Or(max(a.IdleTimeout, 0), DefaultIdleTimeout)
	a.ListCache = cmp.Or(a.ListCache, DefaultListCache)
	if a.Symbols != nil && !a.Symbols.Shared() {
		a.ListCache = 0
	}
	a.versions = newVersionReads(a.Symbols)
	a.lists = newListCache(a.ListCache)
	for _, key := range options.AdminKeys {
		if key != "" {
			a.adminKeys = append(a.adminKeys, sha256.Sum256([]byte(key)))
		}
	}
	return a
}

// mux registers the routes, and for each path what answers other methods.
func (a *api) mux() http.Handler {
	mux := http.NewServeMux()
	allow := make(map[string][]string)
	for _, route := range a.routes() {
		mux.Handle(route.method+" "+route.path, a.answered(route))
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
		// A ServeMux would answer an unclean path with a redirect that
		// lacks the prefix under which it is mounted.
		if p := r.URL.EscapedPath(); !strings.HasPrefix(p, "/") || path.Clean(p) != p {
			a.noRoute(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (a *api) noRoute(w http.ResponseWriter, r *http.Request) { a.fail(w, r, errNoRoute) }

// answered serves a route: guard, body limit, endpoint, and the answer to an
// error.
func (a *api) answered(route route) http.Handler {
	endpoint := a.guarded(route.guard, func(w http.ResponseWriter, r *http.Request) error {
		if r.ContentLength > route.limit {
			return errTooLarge
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			drain(w, r)
		}
		return route.endpoint(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(*response).route = route.path
		r.Body = http.MaxBytesReader(w, r.Body, route.limit)
		if err := endpoint(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// served is what stands around everything: it gives the answer a request id
// and the headers that all answers have, turns a panic into an answer or, when
// one has begun, into a broken connection, and tells the host how it went.
func (a *api) served(next http.Handler) http.Handler {
	return http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		w := &response{ResponseWriter: inner}
		if a.Observe != nil {
			start := time.Now()
			defer func() { a.observe(w, r, start) }()
		}
		identify(w, r)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		defer func() {
			reason := recover()
			if reason == nil {
				return
			}
			if reason != http.ErrAbortHandler {
				a.report(r.Context(), slog.LevelError, "panic while answering a request",
					"panic", reason, "stack", string(debug.Stack()), "requestId", requestID(w))
				if w.status == 0 {
					a.fail(w, r, errPanic)
					return
				}
			}
			w.brokenOff = true
			stream.Abort(w, r)
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// stripped removes the prefix from the path. Other paths are no routes.
func (a *api) stripped(next http.Handler) http.Handler {
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

const headerRequestID = "X-Request-Id"

// identify sets the request id: the one the host has set on the answer, else
// the caller's own, else a new one. It takes none that is not presentable, for a
// host may just pass on what a client sends.
func identify(w http.ResponseWriter, r *http.Request) {
	if presentable(requestID(w)) {
		return
	}
	id := r.Header.Get(headerRequestID)
	if !presentable(id) {
		id = uuid.Must(uuid.NewV7()).String()
	}
	w.Header().Set(headerRequestID, id)
}

// presentable accepts 1 to 128 visible ASCII characters.
func presentable(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

// requestID returns the request id of an answer.
func requestID(w http.ResponseWriter) string { return w.Header().Get(headerRequestID) }

// abort ends a response that has begun and cannot be completed, so that the
// client does not take it for complete. It does not return.
func (a *api) abort(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		a.report(r.Context(), slog.LevelWarn, "response aborted", "error", err, "requestId", requestID(w))
	}
	panic(http.ErrAbortHandler)
}
