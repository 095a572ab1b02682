package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"example.com/canvasback/exports"
)

const (
	initialBackoff = 250 * time.Millisecond // doubles with each attempt
	maxBackoff     = 5 * time.Second

	maxHeaderBytes  = 64 << 10
	maxConnsPerHost = 1024 // far above what one client may use
	maxIdlePerHost  = 64   // four batches
	maxIdleConns    = 128
	idleConnTimeout = 90 * time.Second
)

// Opener opens exported files over HTTP. It is safe for concurrent use and
// should be reused, because it pools connections.
type Opener struct {
	options        Options // with defaults
	policy         urlPolicy
	allowedDialer  *net.Dialer // for AllowedHosts
	publicDialer   *net.Dialer // for all other hosts, with the SSRF guard
	transport      *http.Transport
	initialBackoff time.Duration
	stats          counters
	hosts          hosts
}

var (
	_ exports.RangeOpener    = (*Opener)(nil)
	_ exports.AdaptiveOpener = (*Opener)(nil)
	_ exports.PrivateOpener  = (*Opener)(nil)
)

// New returns an Opener; nil options are the defaults. It returns an error if an
// entry of [Options.AllowedHosts] is malformed.
func New(options *Options) (*Opener, error) {
	var opts Options
	if options != nil {
		opts = *options
	}
	policy, err := newURLPolicy(&opts)
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.RequestID == nil {
		opts.RequestID = func(context.Context) string { return "" }
	}
	opts.ConnectTimeout = cmp.Or(max(opts.ConnectTimeout, 0), 5*time.Second)
	opts.IdleTimeout = cmp.Or(max(opts.IdleTimeout, 0), 30*time.Second)
	opts.MaxAttempts = cmp.Or(max(opts.MaxAttempts, 0), 3)
	opts.MaxRedirects = max(0, cmp.Or(opts.MaxRedirects, 5))
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
		TLSClientConfig:        &tls.Config{RootCAs: opts.RootCAs},
		TLSHandshakeTimeout:    opts.ConnectTimeout,
		ResponseHeaderTimeout:  cmp.Or(max(opts.HeaderTimeout, 0), 20*time.Second),
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		// Pings detect dead connections.
		HTTP2:               &http.HTTP2Config{SendPingTimeout: opts.ConnectTimeout, PingTimeout: opts.ConnectTimeout},
		MaxConnsPerHost:     maxConnsPerHost,
		MaxIdleConnsPerHost: maxIdlePerHost,
		MaxIdleConns:        maxIdleConns,
		IdleConnTimeout:     idleConnTimeout,
	}
	return o, nil
}

// Serves reports whether the scheme of u is http or https.
func (o *Opener) Serves(u *url.URL) bool {
	return strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "https")
}

// IsPrivate implements [exports.PrivateOpener]: clients lack the credentials of
// [Options.Sign].
func (o *Opener) IsPrivate(*url.URL) bool { return o.options.Sign != nil }

// Check applies the URL policy to u, without DNS resolution. The error is an
// [exports.ForbiddenError].
func (o *Opener) Check(u *url.URL) error {
	_, err := o.policy.checkURL(u)
	return err
}

// Open implements [exports.Opener]. Its error also wraps the error of ctx if ctx
// has ended. The text of the error is for logs and contains redacted URLs.
//
// A failed Read of the Body returns an error of the same kind. It wraps
// [io.ErrUnexpectedEOF] if the file is truncated, and [exports.ErrTimeout] after
// an idle timeout.
func (o *Opener) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	b, err := o.openBody(ctx, u, source{size: -1}, 0, -1)
	if err != nil {
		return nil, err
	}
	file := b.file()
	file.Body = b
	return file, nil
}

// Stat implements [exports.RangeOpener]. It sends a GET request for the first
// byte, because presigned URLs reject HEAD requests; see [Options.StatWithHead].
func (o *Opener) Stat(ctx context.Context, u *url.URL) (*exports.File, error) {
	if o.options.StatWithHead {
		file, err := o.stat(ctx, u, true)
		if err == nil && file.Size >= 0 || err != nil && !isRejected(err) {
			return file, err
		}
	}
	return o.stat(ctx, u, false)
}

func (o *Opener) stat(ctx context.Context, u *url.URL, head bool) (*exports.File, error) {
	b, err := o.openBody(ctx, u, source{size: -1, head: head}, 0, 0)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.file(), nil
}

// OpenRange implements [exports.RangeOpener]. Its errors are like those of Open.
func (o *Opener) OpenRange(ctx context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	pin := source{pinned: true, size: r.Size, validator: r.Validator}
	b, err := o.openBody(ctx, u, pin, r.Offset, r.Offset+r.Length)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// CloseIdleConnections closes pooled connections that are not in use.
func (o *Opener) CloseIdleConnections() { o.transport.CloseIdleConnections() }

// dial connects to a host. The transport pools connections by scheme, host and
// port, so the choice of dialer holds for every request on a connection.
func (o *Opener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if o.policy.isAllowed(host, port) {
		return o.allowedDialer.DialContext(ctx, network, address)
	}
	return o.publicDialer.DialContext(ctx, network, address)
}

// Stats counts what an [Opener] has done since it was created.
type Stats struct {
	Attempts uint64 // requests to origin servers, redirects included
	Retries  uint64 // after a failed attempt
	Resumes  uint64 // of a file whose transfer was interrupted
}

type counters struct{ attempts, retries, resumes atomic.Uint64 }

// Stats returns the counters.
func (o *Opener) Stats() Stats {
	return Stats{o.stats.attempts.Load(), o.stats.retries.Load(), o.stats.resumes.Load()}
}
