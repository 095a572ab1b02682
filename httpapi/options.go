package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// Options configure an [API]. The zero value, or nil, serves nothing but the OpenAPI
// document and the JavaScript client. Applications usually set some of the first eleven fields.
type Options struct {
	// Keys, Symbols and Exports are the services behind the routes. The
	// routes of a nil service do not exist, nor those of links if the store of
	// Exports has none. With nil Keys, every client route returns 401 unless
	// DangerouslySkipClientKeys is set.
	Keys    *keys.Service
	Symbols *symbols.Service
	Exports *exports.Service

	// Prefix is the path in front of all routes, such as "/api". It is not
	// needed behind http.StripPrefix.
	Prefix string

	// AdminKeys are the values accepted as x-admin-key, or bcrypt hashes of them,
	// which begin with $2a$, $2b$ or $2y$; empty ones are ignored. Two at a time
	// allow changing an admin key without an outage. Without any, every admin
	// route returns 403.
	//
	// Only the first request with a hashed key pays for bcrypt. At the cost of 10
	// this takes about 60 ms. A hashed key has at most 72 bytes.
	AdminKeys []string

	// AllowedOrigins are the origins that CORS allows: "*" for all, "null",
	// or scheme://host[:port], such as "https://viewer.example". CORS is off
	// if empty.
	AllowedOrigins []string

	// ClientIP returns the client IP of a request. If nil it is the remote address of
	// the connection. An application behind a proxy must set it, because only the
	// application knows which header to trust. examples/internal/clientip is an example.
	ClientIP func(*http.Request) string

	// PublicURL is the URL in front of Prefix for clients, such as
	// "https://canvas.example". If empty, the absolute URLs of links to private files
	// have the scheme and host of the request. Set it behind a proxy that terminates
	// TLS or changes the host or path.
	PublicURL string

	// Limits are what a request, a client and all of them may use.
	Limits Limits

	// Observe, if set, is called after each request of the handler, after each
	// request to [API.RequireClientKey], and after each one that
	// [API.Authenticate] rejects. It runs on the request's goroutine and must
	// be fast and safe for concurrent use. [LogRequests] returns one that logs.
	// The API leaves its failures to it: see [Observation.Error].
	Observe func(ctx context.Context, o Observation)

	// Logger receives the causes of failures; slog.Default() if nil.
	Logger *slog.Logger

	// The fields below have their zero value in most applications: who may do what, and
	// what a server has that serves more than the API.

	// AuthenticateAdmin, if set, replaces admin keys by the application's own
	// login, such as a session or the header of a proxy. AdminKeys must be empty
	// then. It returns who the administrator is, for logs. The response to an error
	// is 401, that of a [DeniedError], or 503 if the error matches the ErrUnavailable
	// of a service.
	//
	// Requests that change something must not come from a page of another origin:
	// see [http.CrossOriginProtection].
	AuthenticateAdmin func(r *http.Request) (actor string, err error)

	// Authorize, if set, is called after the first successful check of the client key of a request,
	// and not after later ones, with the route, such as "/symbol/folders/{id}", or r.Pattern behind
	// [API.RequireClientKey]; for requests of a download link with the key that made it. It may
	// restrict a key to the records of its owner, or count its requests. [RequestResources] returns
	// the records that r names; reading the body of r is an error. The response to an error is that
	// of a [DeniedError], 503 if it matches the ErrUnavailable of a service, or 403 with a warning
	// in the log. Such a request does not count as a use of the key.
	Authorize func(r *http.Request, key keys.Key, route string) error

	// Tenant, if set, returns the tenant of a client key, such as [TenantOfOwner]. Folders,
	// symbols, trash, exports and links of a tenant do not exist for another. Without it all
	// keys have the tenant "". It is called for each check of a key, five times a second for a
	// stream of changes, may be called at the same time, and returns a text like the owner of a
	// key. The response to an error is as with Authorize. Administrators see the exports of all
	// tenants, and only they register private files. With open client routes New returns an error.
	Tenant func(key keys.Key) (string, error)

	// RegisterWith selects who may register exports; the zero value is
	// RegisterWithScope.
	RegisterWith RegisterWith

	// RegisterOwnOnly makes a client key replace only exports that it has
	// registered itself; others are a 403. An export that the application has
	// registered belongs to no key.
	RegisterOwnOnly bool

	// RevokeRoute adds the route POST /viewer/key/revoke, by which whoever has found a
	// client key revokes it.
	RevokeRoute bool

	// DangerouslySkipClientKeys opens the client routes to everyone. Requests that change
	// something must not come from pages of other origins, except those that CORS
	// allows: see [http.CrossOriginProtection].
	DangerouslySkipClientKeys bool

	// RequestID, if set, returns the request id that the application has given to
	// the request, for example in its context; "" if there is none. An
	// X-Request-Id that the application has set on the response comes first.
	RequestID func(r *http.Request) string

	_ struct{} // prevents literals without field names
}

// Format implements [fmt.Formatter]. It redacts the admin keys, and formats all
// verbs like %v, which does not read the fields of the services.
func (o Options) Format(f fmt.State, _ rune) {
	o.AdminKeys = slices.Repeat([]string{"[admin key]"}, len(o.AdminKeys))
	type plain Options
	fmt.Fprintf(f, fmt.FormatString(f, 'v'), plain(o))
}

// validate checks the options that may come from configuration.
func (o Options) validate() error {
	if o.RegisterWith < RegisterWithScope || o.RegisterWith > RegisterOff {
		return fmt.Errorf("httpapi: unknown RegisterWith %d", o.RegisterWith)
	}
	if o.AuthenticateAdmin != nil && slices.ContainsFunc(o.AdminKeys, func(key string) bool { return key != "" }) {
		return errors.New("httpapi: AuthenticateAdmin replaces AdminKeys, so only one of both can be set")
	}
	if o.Tenant != nil && o.DangerouslySkipClientKeys {
		return errors.New("httpapi: Tenant needs client keys, but DangerouslySkipClientKeys is set")
	}
	if u, err := url.Parse(o.PublicURL); o.PublicURL != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(o.PublicURL, "?#")) {
		return errors.New("httpapi: PublicURL is not an http or https URL without user, query and fragment")
	}
	for _, origin := range o.AllowedOrigins {
		if !validOrigin(origin) {
			return fmt.Errorf(`httpapi: allowed origin %q is not "*", "null" or scheme://host[:port] as browsers send it`, origin)
		}
	}
	return nil
}

// validOrigin also accepts a slash at the end, which [cors] ignores.
func validOrigin(origin string) bool {
	if origin == "*" || origin == "null" {
		return true
	}
	u, err := url.Parse(strings.TrimSuffix(origin, "/"))
	if err != nil || slices.Contains([]string{"http:80", "https:443"}, u.Scheme+":"+u.Port()) {
		return false // browsers send no default port
	}
	isOther := func(c rune) bool { return c > unicode.MaxASCII } // browsers send xn-- names
	return u.Hostname() != "" && !strings.ContainsFunc(u.Host, isOther) && !strings.Contains(u.Host, "*") && !strings.HasSuffix(u.Host, ":") &&
		strings.EqualFold(u.Scheme+"://"+u.Host, strings.TrimSuffix(origin, "/"))
}

// RegisterWith selects who may register exports.
type RegisterWith int

const (
	// RegisterWithScope requires an admin key, or a client key whose scopes name
	// ScopeExportsRegister: unlimited scopes are not enough, because client keys are in
	// browsers, and who registers decides what others download.
	RegisterWithScope RegisterWith = iota

	// RegisterWithClientKey requires a client key, as other client routes do.
	RegisterWithClientKey

	// RegisterWithAdminKey requires an admin key.
	RegisterWithAdminKey

	// RegisterOff removes the route; exports are registered in Go.
	RegisterOff
)

func (o *Options) clientIP(r *http.Request) string {
	if o.ClientIP != nil {
		return o.ClientIP(r)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
