package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ErrIntercepted ends every connection outside loopback.
var ErrIntercepted = errors.New("not connected: this is a test")

// InterceptDials installs a hook behind the SSRF guard, which receives every
// address that the Opener would connect to. Only loopback is connected, and only
// for an allowed host, even if the SSRF guard fails.
func (o *Opener) InterceptDials(dialed func(address string)) {
	checked := o.publicDialer.ControlContext
	o.publicDialer.ControlContext = func(ctx context.Context, network, address string, conn syscall.RawConn) error {
		if err := checked(ctx, network, address, conn); err != nil {
			return err
		}
		dialed(address)
		return ErrIntercepted
	}
	checkedAllowed := o.allowedDialer.ControlContext
	o.allowedDialer.ControlContext = func(ctx context.Context, network, address string, conn syscall.RawConn) error {
		if err := checkedAllowed(ctx, network, address, conn); err != nil {
			return err
		}
		dialed(address)
		if target, err := netip.ParseAddrPort(address); err != nil || !target.Addr().IsLoopback() {
			return ErrIntercepted
		}
		return nil
	}
}

// SetDial replaces all dialing, including the SSRF guard.
func (o *Opener) SetDial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	o.transport.DialContext = dial
}

// CheckDial runs the SSRF guard as if address were about to be dialed.
func (o *Opener) CheckDial(address string) error {
	network := "tcp4"
	if strings.HasPrefix(address, "[") {
		network = "tcp6"
	}
	return o.policy.ssrf.controlContext(context.Background(), network, address, nil)
}

// SetInitialBackoff replaces the longest delay before the second attempt.
func (o *Opener) SetInitialBackoff(d time.Duration) { o.initialBackoff = d }

// HeaderTimeout returns the effective [Options.HeaderTimeout].
func (o *Opener) HeaderTimeout() time.Duration { return o.transport.ResponseHeaderTimeout }

var (
	FileName  = fileName
	EntityTag = entityTag
)

// ParseContentRange returns the fields of the part in a Content-Range header.
func ParseContentRange(header string) (first, length, size int64, ok bool) {
	p, ok := parseContentRange(header)
	return p.first, p.length, p.size, ok
}
