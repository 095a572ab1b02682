package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// Options configure an [API]. The zero value serves nothing but the OpenAPI
// document.
type Options struct {
	// Keys, Symbols and Exports are the services behind the routes. The
	// routes of a nil service do not exist. With nil Keys, every client route
	// returns 401 unless DangerouslySkipClientKeys is set.
	Keys    *keys.Service
	Symbols *symbols.Service
	Exports *exports.Service

	// AdminKeys are the values accepted as x-admin-key, or bcrypt hashes of them,
	// which begin with $2a$, $2b$ or $2y$; empty ones are ignored. Two at a time
	// allow changing an admin key without an outage. Without any, every admin
	// route returns 403.
	//
	// Only the first request with a hashed key pays for bcrypt. At the cost of 10
	// this takes about 60 ms. A hashed key has at most 72 bytes.
	AdminKeys []string

	// AuthenticateAdmin, if set, replaces admin keys by the application's own
	// login, such as a session or the header of a proxy. AdminKeys must be empty
	// then. It returns who the administrator is, for logs. The response to an error
	// is 401, that of a [DeniedError], or 503 if the error matches the ErrUnavailable
	// of a service.
	//
	// Requests that change something must not come from a page of another origin:
	// see [http.CrossOriginProtection].
	AuthenticateAdmin func(r *http.Request) (actor string, err error)

	// Authorize, if set, is called after each successful check of a client key,
	// with the route, such as "/symbol/folders/{id}", or r.Pattern behind
	// [API.RequireClientKey]; for requests of a download link with the key that made
	// it. It may restrict a key to the records of its owner, or count its requests.
	// r.PathValue("id") is the id, which may be invalid. It may read the body if it
	// replaces r.Body. The response to an error is that of a [DeniedError], 503 if it
	// matches the ErrUnavailable of a service, or 403 with a warning in the log. Such
	// a request does not count as a use of the key.
	Authorize func(r *http.Request, key keys.Key, route string) error

	// RegisterWith selects who may register exports; the zero value is
	// RegisterWithClientKey.
	RegisterWith RegisterWith

	// RegisterOwnOnly makes a client key replace only exports that it has
	// registered itself; others are a 403. An export that the application has
	// registered belongs to no key.
	RegisterOwnOnly bool

	// DangerouslySkipClientKeys opens the client routes to everyone.
	DangerouslySkipClientKeys bool

	// AuthRateLimit limits wrong keys per client IP.
	AuthRateLimit RateLimit

	// Prefix is the path in front of all routes, such as "/api". It is not
	// needed behind http.StripPrefix.
	Prefix string

	// AllowedOrigins are the origins that CORS allows: "*" for all, "null",
	// or scheme://host[:port], such as "https://viewer.example". CORS is off
	// if empty.
	AllowedOrigins []string

	// BodyLimit is the maximum size of a request body in bytes; 1 MiB if
	// zero. Other limits apply to creating or updating a symbol (SymbolLimit,
	// 50 MiB), batch downloads (BatchLimit, 16 MiB) and the zips of imports
	// (ImportLimit, 64 MiB).
	BodyLimit   int64
	SymbolLimit int64
	BatchLimit  int64
	ImportLimit int64

	// Import limits the contents of an imported zip, which are in memory
	// until they are stored. Import.Symbol is SymbolLimit if zero, and
	// Import.Total half of MemoryBudget, at most 256 MiB.
	Import bundle.Limits

	// MemoryBudget is how many bytes of memory requests may take together: for
	// bodies and their values, imports, and responses while slow clients receive
	// them; 256 MiB if zero. Requests of up to 64 KiB may use all of it, those of up
	// to 1/128 of it seven eighths, and larger ones three quarters, so that none
	// waits for larger ones. A client key, or a client IP without one, may have half
	// of it, or one request that needs more.
	//
	// A body that waits for memory longer than IdleTimeout, and a response that waits
	// longer than StoreTimeout, gets 503. One request at a time may exceed the budget,
	// so that those that wait for each other end.
	MemoryBudget int64

	// BodyRate is the rate in bytes per second that a request body must have in
	// each ten seconds; 1 KiB if zero, no minimum if negative.
	BodyRate int64

	// StreamsPerClient is how many downloads a client key, or a client IP
	// without one, may have at a time; 64 if zero, unlimited if negative. Others
	// get 429. A download by a link counts for the key of the link.
	StreamsPerClient int

	// StoreTimeout is how long a request may wait for a store before it fails
	// with 503; 5 seconds if zero. Each 16 MiB of an import's data extend it by
	// as much. Key checks have the timeout of [keys.Options] instead.
	StoreTimeout time.Duration

	// IdleTimeout is how long the client of a download may make no progress; a
	// minute if zero. It replaces the server's WriteTimeout, so that a
	// download may last as long as data flows. See [ConnContext] for what
	// counts as progress.
	IdleTimeout time.Duration

	// ListCache is the memory in bytes for the cache of encoded lists and records,
	// compressed bodies and images; 64 MiB if zero, no cache if negative. Each
	// request compares the cached version with the store. A quarter of it, at
	// least 4 MiB, is how much of a list is read before the response begins.
	ListCache int64

	// Observe, if set, is called after each request of the handler, after each
	// request to [API.RequireClientKey], and after each one that
	// [API.Authenticate] rejects. It runs on the request's goroutine and must
	// be fast and safe for concurrent use. [LogRequests] returns one that logs.
	Observe func(ctx context.Context, o Observation)

	// RequestID, if set, returns the request id that the application has given to
	// the request, for example in its context; "" if there is none. An
	// X-Request-Id that the application has set on the response comes first.
	RequestID func(r *http.Request) string

	// Logger receives the causes of failures; slog.Default() if nil.
	Logger *slog.Logger

	_ struct{} // prevents literals without field names
}

// Format implements [fmt.Formatter]. It redacts the admin keys, and formats all
// verbs like %v, which does not read the fields of the services.
func (o Options) Format(f fmt.State, _ rune) {
	o.AdminKeys = slices.Repeat([]string{"[admin key]"}, len(o.AdminKeys))
	type plain Options
	fmt.Fprintf(f, fmt.FormatString(f, 'v'), plain(o))
}

// withDefaults returns the options with zero and invalid limits replaced.
func (o Options) withDefaults() Options {
	o.BodyLimit = cmp.Or(max(o.BodyLimit, 0), 1<<20)
	o.SymbolLimit = cmp.Or(max(o.SymbolLimit, 0), 50<<20)
	o.BatchLimit = cmp.Or(max(o.BatchLimit, 0), 16<<20)
	o.ImportLimit = cmp.Or(max(o.ImportLimit, 0), 64<<20)
	o.MemoryBudget = cmp.Or(max(o.MemoryBudget, 0), 256<<20)
	o.Import.Total = cmp.Or(max(o.Import.Total, 0), min(256<<20, o.MemoryBudget/2))
	o.Import.Symbol = cmp.Or(max(o.Import.Symbol, 0), o.SymbolLimit)
	o.AuthRateLimit = o.AuthRateLimit.withDefaults()
	o.BodyRate = cmp.Or(o.BodyRate, 1<<10)
	o.StreamsPerClient = cmp.Or(o.StreamsPerClient, 64)
	o.StoreTimeout = cmp.Or(max(o.StoreTimeout, 0), 5*time.Second)
	o.IdleTimeout = cmp.Or(max(o.IdleTimeout, 0), time.Minute)
	o.ListCache = cmp.Or(o.ListCache, 64<<20)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// validate checks the options that may come from configuration.
func (o Options) validate() error {
	if o.RegisterWith < RegisterWithClientKey || o.RegisterWith > RegisterOff {
		return fmt.Errorf("httpapi: unknown RegisterWith %d", o.RegisterWith)
	}
	if o.AuthenticateAdmin != nil && slices.ContainsFunc(o.AdminKeys, func(key string) bool { return key != "" }) {
		return errors.New("httpapi: AuthenticateAdmin replaces AdminKeys, so only one of both can be set")
	}
	for _, origin := range o.AllowedOrigins {
		if !validOrigin(origin) {
			return fmt.Errorf(`httpapi: allowed origin %q is not "*", "null" or scheme://host[:port]`, origin)
		}
	}
	return nil
}

// validOrigin also accepts a slash at the end, which [newCORS] removes.
func validOrigin(origin string) bool {
	if origin == "*" || origin == "null" {
		return true
	}
	u, err := url.Parse(strings.TrimSuffix(origin, "/"))
	return err == nil && u.Hostname() != "" && !strings.Contains(u.Host, "*") && !strings.HasSuffix(u.Host, ":") &&
		strings.EqualFold(u.Scheme+"://"+u.Host, strings.TrimSuffix(origin, "/"))
}

// RegisterWith selects who may register exports.
type RegisterWith int

const (
	// RegisterWithClientKey requires a client key, as other client routes do.
	RegisterWithClientKey RegisterWith = iota

	// RegisterWithAdminKey requires an admin key.
	RegisterWithAdminKey

	// RegisterOff removes the route; exports are registered in Go.
	RegisterOff
)
