package httpapi

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"example.com/canvasback/httpapi/internal/auth"
	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/httpapi/internal/turns"
)

// API is the [http.Handler] of all routes. Its other methods authenticate the
// application's own routes; they share its rate limiter and Observe. All methods
// are safe for concurrent use.
type API struct {
	options     Options // without AdminKeys
	auth        *auth.Checker
	crossOrigin *http.CrossOriginProtection
	memory      *budget.Budget[client]
	streams     *streamLimiter // downloads
	changes     *streamLimiter // streams of changes
	turns       *turns.Turns[client]
	rejections  *rejections
	cors        cors
	prefix      string // with a slash before it, or empty
	mux         *http.ServeMux

	warnOnce        *sync.Once // logs a warning about a ResponseWriter
	loadSearchIndex func()     // begins once, in the background
}

// Format implements [fmt.Formatter] for all verbs. It prints no state, which other
// goroutines change.
func (a *API) Format(f fmt.State, _ rune) { io.WriteString(f, "httpapi.API") }

// New returns the API. It starts no goroutine: the application runs [keys.Service.Run]
// itself, and the first readiness check or read of symbols begins to load the index of
// searches, for a minute at most. An error means that AllowedOrigins, PublicURL,
// RegisterWith or a bcrypt hash in AdminKeys is invalid, or that two options exclude each other.
func New(options *Options) (*API, error) {
	opts := *cmp.Or(options, new(Options))
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts.Limits = opts.Limits.withDefaults()
	opts.PublicURL = strings.TrimRight(opts.PublicURL, "/")
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	checker, err := auth.New(auth.Options{
		Keys:      opts.Keys,
		AdminKeys: opts.AdminKeys,
		Burst:     opts.Limits.WrongKeys.Burst,
		Interval:  opts.Limits.WrongKeys.Interval,
		Timeout:   opts.Limits.StoreTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	opts.AdminKeys = nil // not shown when the API is printed
	a := &API{
		options:     opts,
		auth:        checker,
		crossOrigin: http.NewCrossOriginProtection(),
		memory:      budget.New[client](opts.Limits.Memory),
		turns:       new(turns.Turns[client]),
		streams:     newStreamLimiter(opts.Limits.Downloads, 0, "downloads"),
		changes:     newStreamLimiter(opts.Limits.ChangeStreams, opts.Limits.AllChangeStreams, "streams of changes"),
		rejections:  &rejections{parked: make(chan struct{}, 1000)},
		cors:        slices.Clone(opts.AllowedOrigins),
		warnOnce:    new(sync.Once),
	}
	a.loadSearchIndex = sync.OnceFunc(func() {
		if a.options.Symbols != nil {
			go a.loadIndex()
		}
	})
	if opts.DangerouslySkipClientKeys && a.cors.allowAll() {
		a.options.Logger.Warn("client routes are open to the pages of all origins")
	}
	if prefix := strings.Trim(opts.Prefix, "/"); prefix != "" {
		a.prefix = "/" + prefix
	}
	a.mux = newMux(a.routes())
	return a, nil
}

// Handler is [New] for a program that cannot go on without it: it panics if New
// returns an error, so that one expression mounts the API.
func Handler(options *Options) http.Handler {
	a, err := New(options)
	if err != nil {
		panic(err)
	}
	return a
}

// Stats are current figures of an [API].
type Stats struct {
	Downloads     int // that run
	ChangeStreams int // that are open
}

// Stats returns the current figures.
func (a *API) Stats() Stats { return Stats{a.streams.all(), a.changes.all()} }
