package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"example.com/canvasback/exports"
)

// followRedirects returns the first response that is not a redirect. If none are
// followed, a redirect is a response like any other.
func (o *Opener) followRedirects(ctx context.Context, u *url.URL, header http.Header) (*http.Response, error) {
	signed := o.options.Sign != nil
	var from *url.URL
	for redirects := 0; ; redirects++ {
		checked, err := o.policy.checkURL(u)
		var response *http.Response
		if err == nil {
			signed = signed && (from == nil || checked.Scheme == from.Scheme && checked.Host == from.Host)
			response, err = o.roundTrip(ctx, checked, header, signed)
		}
		if err != nil && redirects > 0 {
			err = fmt.Errorf("redirect to %s: %w", redact(u), err)
		}
		if err != nil || o.options.MaxRedirects == 0 || !slices.Contains([]int{301, 302, 303, 307, 308}, response.StatusCode) {
			return response, err
		}
		go io.CopyN(io.Discard, response.Body, 2<<10) // so that the connection is reused
		time.AfterFunc(time.Second, func() { response.Body.Close() })
		if redirects == o.options.MaxRedirects {
			return nil, fmt.Errorf("stopped after %d redirects", redirects)
		}
		if u, err = redirectURL(checked, response); err != nil {
			return nil, err
		}
		from = checked
	}
}

// loopID names this library in the headers User-Agent and CDN-Loop (RFC 8586). Package
// httpapi rejects requests that have the latter on the routes of links.
const loopID = "canvasback"

// roundTrip sends one request to a checked URL, with the given header fields and
// credentials only: no Referer, no cookies and nothing from an earlier hop. It does
// not use http.Client, which follows redirects by rules of its own.
func (o *Opener) roundTrip(ctx context.Context, u *url.URL, header http.Header, signed bool) (*http.Response, error) {
	request := (&http.Request{Method: http.MethodGet, URL: new(*u), Header: header.Clone()}).WithContext(ctx)
	request.Header.Set("User-Agent", o.options.UserAgent)
	request.Header.Set("Accept-Encoding", "identity")
	request.Header.Set("CDN-Loop", loopID)
	if o.options.Traceparent != nil {
		if parent := o.options.Traceparent(ctx); parent != "" {
			request.Header.Set("Traceparent", parent)
		}
	}
	if signed {
		if err := o.options.Sign(request); err != nil {
			return nil, fmt.Errorf("sign request: %w", err)
		}
		if request.URL.Scheme != u.Scheme || request.URL.Host != u.Host {
			return nil, errors.New("sign request: Sign has changed the host")
		}
	}
	o.stats.attempts.Add(1)
	return o.transport.RoundTrip(request)
}

// redirectURL returns the target of a redirect of from. Its errors do not contain the
// target, which may hold secrets.
func redirectURL(from *url.URL, response *http.Response) (*url.URL, error) {
	location := response.Header.Get("Location")
	if location == "" {
		return nil, fmt.Errorf("status %s without Location header", response.Status)
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, errors.New("invalid Location header")
	}
	if from.Scheme == "https" && !strings.EqualFold(to.Scheme, "https") {
		return nil, fmt.Errorf("%w: redirect from https to %s", exports.ErrForbidden, to.Scheme)
	}
	return to, nil
}

// Opener opens exported files over HTTP. It is safe for concurrent use and
// should be reused, because it pools connections.
type Opener struct {
	options        Options // with defaults
	policy         urlPolicy
	allowedDialer  *net.Dialer // for AllowedHosts
	publicDialer   *net.Dialer // for all other hosts, with the SSRF guard
	transport      *http.Transport
	initialBackoff time.Duration
	stats          struct{ attempts, retries, resumes atomic.Uint64 }
	hosts          hosts
}

// New returns an Opener; nil options are the defaults. It returns an error if an
// entry of [Options.AllowedHosts] is malformed.
func New(options *Options) (*Opener, error) {
	opts := *cmp.Or(options, new(Options))
	policy, err := newURLPolicy(&opts)
	if err != nil {
		return nil, err
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.RequestID == nil {
		opts.RequestID = func(context.Context) string { return "" }
	}
	opts.ConnectTimeout = cmp.Or(max(opts.ConnectTimeout, 0), 5*time.Second)
	opts.IdleTimeout = cmp.Or(max(opts.IdleTimeout, 0), 30*time.Second)
	opts.MaxAttempts = cmp.Or(max(opts.MaxAttempts, 0), 3)
	opts.MaxRedirects = max(0, cmp.Or(opts.MaxRedirects, 5))
	opts.MaxBytes = min(cmp.Or(max(opts.MaxBytes, 0), 1<<62), 1<<62) // one more does not overflow
	opts.UserAgent = cmp.Or(opts.UserAgent, loopID)
	dialer := func(control func(context.Context, string, string, syscall.RawConn) error) *net.Dialer {
		return &net.Dialer{Timeout: opts.ConnectTimeout, Resolver: opts.Resolver, ControlContext: control}
	}
	o := &Opener{
		options:        opts,
		policy:         policy,
		allowedDialer:  dialer(rejectOwnListener),
		publicDialer:   dialer(policy.ssrf.controlContext),
		initialBackoff: initialBackoff,
		hosts:          hosts{loads: make(map[string]*load)},
	}
	o.transport = &http.Transport{
		Proxy:                  nil, // not from the environment: see SSRF guard in the package comment
		DialContext:            o.dial,
		TLSClientConfig:        &tls.Config{RootCAs: opts.RootCAs}, // with both set, net/http uses no HTTP/2: see the package comment
		TLSHandshakeTimeout:    opts.ConnectTimeout,
		ResponseHeaderTimeout:  cmp.Or(max(opts.HeaderTimeout, 0), 20*time.Second),
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		MaxConnsPerHost:        16 << 10, // far above what one client may use
		MaxIdleConnsPerHost:    64,       // four batches
		MaxIdleConns:           128,
		IdleConnTimeout:        90 * time.Second,
	}
	return o, nil
}

// dial connects to a host. The transport pools connections by scheme, host and
// port, so the choice of dialer holds for every request on a connection.
func (o *Opener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, _ := net.SplitHostPort(address) // the transport has joined them
	if o.policy.isAllowed(host, port) {
		return o.allowedDialer.DialContext(ctx, network, address)
	}
	return o.publicDialer.DialContext(ctx, network, address)
}

// CloseIdleConnections closes pooled connections that are not in use.
func (o *Opener) CloseIdleConnections() { o.transport.CloseIdleConnections() }

// Stats counts what an [Opener] has done since it was created.
type Stats struct {
	Attempts uint64 // requests to origin servers, redirects included
	Retries  uint64 // after a failed attempt
	Resumes  uint64 // of a file whose transfer was interrupted
}

// Stats returns the counters.
func (o *Opener) Stats() Stats {
	return Stats{o.stats.attempts.Load(), o.stats.retries.Load(), o.stats.resumes.Load()}
}

const (
	initialBackoff = 250 * time.Millisecond // doubles with each attempt
	maxBackoff     = 5 * time.Second
)

func redact(u *url.URL) string { return exports.RedactURL(u.String()) }
