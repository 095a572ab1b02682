package fetch

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/canvasback/exports"
)

var (
	_ exports.RangeOpener    = (*Opener)(nil)
	_ exports.AdaptiveOpener = (*Opener)(nil)
	_ exports.PrivateOpener  = (*Opener)(nil)
)

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
	b, err := o.open(ctx, u, &body{size: -1, end: -1})
	if err != nil {
		return nil, err
	}
	file := b.file()
	file.Body = b
	return file, nil
}

// Stat implements [exports.RangeOpener]. It sends a GET request for the first
// byte, because presigned URLs reject HEAD requests.
func (o *Opener) Stat(ctx context.Context, u *url.URL) (*exports.File, error) {
	b, err := o.open(ctx, u, &body{size: -1})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.file(), nil
}

// OpenRange implements [exports.RangeOpener]. Its errors are like those of Open.
func (o *Opener) OpenRange(ctx context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	b, err := o.open(ctx, u, &body{pinned: true, size: r.Size, validator: r.Validator, offset: r.Offset, end: r.Offset + r.Length})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Concurrency implements [exports.AdaptiveOpener].
func (o *Opener) Concurrency(u *url.URL) int {
	o.hosts.mu.Lock()
	defer o.hosts.mu.Unlock()
	if l := o.hosts.loads[strings.ToLower(u.Host)]; l != nil {
		return int(l.concurrency)
	}
	return initialConcurrency
}

// Options configure an [Opener]. The zero value allows public hosts on ports 80
// and 443. Negative numbers count as zero, except in MaxRedirects.
type Options struct {
	// AllowedHosts are allowed on any port and with any IP address, private
	// ones included. An entry is host or host:port, which allows that port
	// only; *.example.com matches all names below example.com, at any depth.
	// Hosts are compared after lower-casing, IDNA mapping and removal of a
	// trailing dot. IPv6 addresses need brackets only before a port.
	AllowedHosts []string

	// OnlyAllowed rejects every host that is not in AllowedHosts.
	OnlyAllowed bool

	// Ports are the allowed ports of all other hosts; 80 and 443 if empty.
	Ports []uint16

	// ConnectTimeout limits DNS lookup and connect together, and separately
	// the TLS handshake; 5 seconds if zero.
	ConnectTimeout time.Duration

	// HeaderTimeout limits the wait for a response header, in each attempt
	// and after each redirect; 20 seconds if zero.
	HeaderTimeout time.Duration

	// IdleTimeout limits the wait for the next byte during a Read; 30 seconds
	// if zero. The total time is not limited.
	IdleTimeout time.Duration

	// MaxAttempts limits the attempts to open a file, and to resume it after
	// each interruption; 3 if zero, and no retries if 1. It also limits idle
	// timeouts: the last one is final. Their count restarts after 1 MiB
	// without one.
	MaxAttempts int

	// MaxRedirects is the number of redirects that one attempt follows; 5 if
	// zero, and none if negative.
	MaxRedirects int

	// MaxBytes is the size of the largest file; unlimited if zero.
	MaxBytes int64

	// UserAgent is sent with every request; "canvasback" if empty.
	UserAgent string

	// Sign adds credentials to the header or the query of a request. It is
	// called for each attempt, when all other header fields are set, and must
	// be safe for concurrent use. The host is request.URL.Host, in lower
	// case and without a default port. The text of an error is logged.
	//
	// Clients choose the URLs, so Sign must decide by the host which credentials to
	// add, if any. Only requests to the scheme, host and port of the opened URL are
	// signed. After a redirect to others, no request is signed any more.
	Sign func(*http.Request) error

	// Traceparent, if set, returns the traceparent header (W3C Trace Context) of a
	// request, or "" for none. All origins and redirect targets see it.
	Traceparent func(ctx context.Context) string

	// RequestID, if set, returns the id of the request on whose behalf a file is
	// opened, or "". Log records have it.
	RequestID func(ctx context.Context) string

	// RootCAs verify the certificates of origins; the system's if nil.
	RootCAs *x509.CertPool

	// Resolver resolves host names; net.DefaultResolver if nil. It is not
	// trusted: the SSRF guard checks its results.
	Resolver *net.Resolver

	// Logger receives a debug record for each retry and resume, with redacted
	// URLs; slog.Default if nil.
	Logger *slog.Logger
}
