package prefetch

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// host limits how many files of one host are open, and admits them in order. It is
// safe for concurrent use.
type host struct {
	breaker     *breaker
	concurrency func() int

	mu      sync.Mutex
	files   int // admitted, and not left
	waiting []chan struct{}
}

// newHost returns a host whose files fail after two rounds of timeouts: the second one
// may have half as many files.
func newHost(concurrency func() int) *host {
	return &host{breaker: newBreaker(concurrency() * 3 / 2), concurrency: concurrency}
}

// enter adds a file. It returns a channel that is closed when the file is admitted.
func (h *host) enter() <-chan struct{} {
	admitted := make(chan struct{})
	h.mu.Lock()
	h.waiting = append(h.waiting, admitted)
	h.mu.Unlock()
	h.admit()
	return admitted
}

// leave removes an admitted file.
func (h *host) leave() {
	h.mu.Lock()
	h.files--
	h.mu.Unlock()
	h.admit()
}

// admit admits as many files as Concurrency allows now.
func (h *host) admit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.waiting) > 0 && h.files < h.concurrency() {
		close(h.waiting[0])
		h.waiting = h.waiting[1:]
		h.files++
	}
}

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
