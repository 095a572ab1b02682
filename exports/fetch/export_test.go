package fetch

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ErrWatched ends every connection that the Opener would have made.
var ErrWatched = errors.New("not connected: this is a test")

// Watch puts a hook behind the address guard, so that nothing is sent to any
// address but loopback, and that only on behalf of an allowed host, however
// wrong the guard may be.
func (o *Opener) Watch(dialled func(address string)) {
	guard := o.guarded.ControlContext
	o.guarded.ControlContext = func(ctx context.Context, network, address string, conn syscall.RawConn) error {
		if err := guard(ctx, network, address, conn); err != nil {
			return err
		}
		dialled(address)
		return ErrWatched
	}
	o.direct.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		dialled(address)
		if target, err := netip.ParseAddrPort(address); err != nil || !target.Addr().IsLoopback() {
			return ErrWatched
		}
		return nil
	}
}

// Guard judges an address as if it were about to be dialled.
func (o *Opener) Guard(address string) error {
	network := "tcp4"
	if strings.HasPrefix(address, "[") {
		network = "tcp6"
	}
	return o.policy.guard.control(context.Background(), network, address, nil)
}

// SetFirstPause replaces the pause before a second try.
func (o *Opener) SetFirstPause(d time.Duration) { o.firstPause = d }

// HeaderTimeout is how long the opener waits for the head of an answer.
func (o *Opener) HeaderTimeout() time.Duration { return o.transport.ResponseHeaderTimeout }

var (
	FileName          = fileName
	EntityTag         = entityTag
	ParseContentRange = parseContentRange
)
