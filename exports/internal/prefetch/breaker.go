package prefetch

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrUnresponsive is the error of a file that was not opened because too many
// before it, on its host or overall, have timed out.
var ErrUnresponsive = errors.New("prefetch: too many consecutive timeouts")

// breaker counts consecutive slow failures, so that a queue of a thousand files
// does not wait for the timeout of each. It is safe for concurrent use.
type breaker struct {
	failures atomic.Int32
	limit    int32
}

func newBreaker(limit int) *breaker { return &breaker{limit: int32(limit)} }

// open reports whether files must fail without being opened.
func (b *breaker) open() bool { return b.failures.Load() >= b.limit }

// record counts the outcome of opening a file. Errors that took less than slow
// cost little and are not counted.
func (b *breaker) record(err error, took, slow time.Duration) {
	switch {
	case err == nil:
		b.failures.Store(0)
	case took >= slow:
		b.failures.Add(1)
	}
}
