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
	breaker     *Breaker
	concurrency func() int

	mu      sync.Mutex
	files   int // admitted, and not left
	waiting []chan struct{}
}

// newHost returns a host whose files fail after two rounds of timeouts: the second one
// may have half as many files.
func newHost(concurrency func() int, all *Breaker) *host {
	return &host{breaker: NewBreaker(concurrency()*3/2, all), concurrency: concurrency}
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

// ErrUnresponsive is the error of a call that was not made because too many before it,
// of its host or of all, have timed out.
var ErrUnresponsive = errors.New("prefetch: too many consecutive timeouts")

// Breaker ends calls after many timeouts in a row, so that a queue of a thousand files
// does not wait for the timeout of each. It is safe for concurrent use.
type Breaker struct {
	failures atomic.Int32
	limit    int32
	all      *Breaker // may be nil
}

// NewBreaker returns a Breaker that permits a number of consecutive slow failures of its
// own calls, and what the other Breaker permits, unless that is nil.
func NewBreaker(limit int, all *Breaker) *Breaker { return &Breaker{limit: int32(limit), all: all} }

// Call calls f, whose timeout is given, or returns [ErrUnresponsive]. Errors that took less
// than a second cost little and are not counted.
func (b *Breaker) Call(timeout time.Duration, f func() error) error {
	if b.failures.Load() >= b.limit || b.all != nil && b.all.failures.Load() >= b.all.limit {
		return ErrUnresponsive
	}
	start := time.Now()
	err := f()
	slow := time.Since(start) >= min(time.Second, timeout)
	for ; b != nil; b = b.all {
		if err == nil {
			b.failures.Store(0)
		} else if slow {
			b.failures.Add(1)
		}
	}
	return err
}
