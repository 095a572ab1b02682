package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/canvasback/exports"
)

const (
	defaultConnectTimeout = 5 * time.Second
	defaultHeaderTimeout  = 20 * time.Second
	defaultIdleTimeout    = 30 * time.Second
	defaultTries          = 3
	defaultMaxRedirects   = 5
	defaultUserAgent      = "canvasback"

	firstPause = 250 * time.Millisecond // doubles with each try
	maxPause   = 5 * time.Second

	maxHeaderBytes  = 64 << 10
	maxConnsPerHost = 256 // a bound on what one origin can tie up, no throttle
	maxIdlePerHost  = 16  // as many files as a batch opens ahead
	maxIdle         = 64
	maxIdleAge      = 90 * time.Second
)

// Options adjust an [Opener]. The zero value opens public addresses on ports
// 80 and 443. A number below zero counts as zero, but for MaxRedirects.
type Options struct {
	// AllowedHosts may be requested on any port and resolve to any address,
	// private ones included. An entry is a host or host:port, which allows
	// that port alone; *.example.com stands for every name below example.com,
	// at any depth. Hosts are compared label by label, after lower-casing,
	// IDNA mapping and dropping a dot at the end. IPv6 addresses need
	// brackets only before a port.
	AllowedHosts []string

	// OnlyAllowed refuses every host that is not in AllowedHosts.
	OnlyAllowed bool

	// Ports that other hosts may be requested on; 80 and 443 if empty.
	Ports []uint16

	// ConnectTimeout bounds resolving a name and connecting, and once more
	// the TLS handshake; 5 seconds if zero.
	ConnectTimeout time.Duration

	// HeaderTimeout bounds the wait for the head of an answer; 20 seconds if
	// zero. Each try and each redirect has its own.
	HeaderTimeout time.Duration

	// IdleTimeout bounds the wait for the next byte of a file, while someone
	// is reading; 30 seconds if zero. There is no bound on the whole.
	IdleTimeout time.Duration

	// Tries is how often a file is asked for before it has begun, and again
	// each time it breaks off; 3 if zero, and 1 for no second try. It may
	// stand still for the idle time once less than that, and again as often
	// after each MiB.
	Tries int

	// MaxRedirects is how many redirects one try follows; 5 if zero, and
	// none if negative.
	MaxRedirects int

	// MaxBytes is the size of the largest file; no bound if zero.
	MaxBytes int64

	// UserAgent is sent with every request; "canvasback" if empty.
	UserAgent string

	// RootCAs verify the certificates of origins; the system's if nil.
	RootCAs *x509.CertPool

	// Resolver looks up the names of hosts; net.DefaultResolver if nil. It is
	// not trusted: what it answers is judged.
	Resolver *net.Resolver

	// Logger receives a debug record for every try but the first of a file;
	// slog.Default if nil. The values of queries are left out.
	Logger *slog.Logger
}

// Opener opens exported files over HTTP. It is safe for concurrent use, and
// meant to be kept: connections are used again.
type Opener struct {
	policy       policy
	direct       *net.Dialer // to allowed hosts
	guarded      *net.Dialer // to all others
	transport    *http.Transport
	idleTimeout  time.Duration
	tries        int
	firstPause   time.Duration
	maxRedirects int
	maxBytes     int64
	userAgent    string
	log          *slog.Logger
}

var _ exports.Opener = (*Opener)(nil)

// New returns an Opener; nil options are the defaults. It returns an error if an
// entry of [Options.AllowedHosts] is malformed.
func New(options *Options) (*Opener, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	policy, err := newPolicy(&o)
	if err != nil {
		return nil, err
	}
	connect := cmp.Or(max(o.ConnectTimeout, 0), defaultConnectTimeout)
	f := &Opener{
		policy: policy,
		direct: &net.Dialer{Timeout: connect, Resolver: o.Resolver},
		guarded: &net.Dialer{
			Timeout:        connect,
			Resolver:       o.Resolver,
			ControlContext: policy.guard.control,
		},
		idleTimeout:  cmp.Or(max(o.IdleTimeout, 0), defaultIdleTimeout),
		tries:        cmp.Or(max(o.Tries, 0), defaultTries),
		firstPause:   firstPause,
		maxRedirects: max(0, cmp.Or(o.MaxRedirects, defaultMaxRedirects)),
		maxBytes:     o.MaxBytes,
		userAgent:    cmp.Or(o.UserAgent, defaultUserAgent),
		log:          o.Logger,
	}
	f.transport = &http.Transport{
		Proxy:                  nil, // in particular not from the environment
		DialContext:            f.dial,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    connect,
		ResponseHeaderTimeout:  cmp.Or(max(o.HeaderTimeout, 0), defaultHeaderTimeout),
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: connect, PingTimeout: connect}, // else a dead connection is used on and on
		MaxConnsPerHost:        maxConnsPerHost,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        maxIdleAge,
	}
	return f, nil
}

// Serves reports whether the address has the scheme http or https.
func (o *Opener) Serves(address *url.URL) bool {
	return strings.EqualFold(address.Scheme, "http") || strings.EqualFold(address.Scheme, "https")
}

// Check judges all but what a name resolves to. Its error is an
// [exports.ForbiddenError].
func (o *Opener) Check(address *url.URL) error {
	_, err := o.policy.judge(address)
	return err
}

// CloseIdleConnections closes connections that are kept to be used again, and
// leaves alone those in use.
func (o *Opener) CloseIdleConnections() {
	o.transport.CloseIdleConnections()
}

// dial connects to a host. The transport keeps connections by scheme, host and
// port, so the choice made here holds for every request that shares one.
func (o *Opener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if o.policy.allows(host, port) {
		return o.direct.DialContext(ctx, network, address)
	}
	return o.guarded.DialContext(ctx, network, address)
}
