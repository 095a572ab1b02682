package prefetch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrUnresponsive is the error of a call that was not made because too many before it,
// of its host or of all, have timed out. It is a [context.DeadlineExceeded].
var ErrUnresponsive = fmt.Errorf("prefetch: too many consecutive timeouts: %w", context.DeadlineExceeded)

// breaker ends calls after many timeouts in a row, so that a queue of a thousand files
// does not wait for the timeout of each. It is safe for concurrent use.
type breaker struct {
	failures atomic.Int32
	limit    int32
	all      *breaker // may be nil
}

// newBreaker returns a breaker that permits a number of consecutive timeouts of its own
// calls, at least two, and what the other one permits, unless that is nil.
func newBreaker(limit int, all *breaker) *breaker {
	return &breaker{limit: int32(max(2, limit)), all: all}
}

// call calls f, whose timeout is given, or returns [ErrUnresponsive]. Other errors than a
// [context.DeadlineExceeded], and those that took less than a second, are not counted.
func (b *breaker) call(timeout time.Duration, f func() error) error {
	if b.failures.Load() >= b.limit || b.all != nil && b.all.failures.Load() >= b.all.limit {
		return ErrUnresponsive
	}
	start := time.Now()
	err := f()
	slow := errors.Is(err, context.DeadlineExceeded) && time.Since(start) >= min(time.Second, timeout)
	for ; b != nil; b = b.all {
		if err == nil {
			b.failures.Store(0)
		} else if slow {
			b.failures.Add(1)
		}
	}
	return err
}

// Parallel calls f for the index of each host, as many at a time as a [Queue] has files in
// flight, and returns the errors. After many timeouts in a row, of a host or of all, the
// other calls are not made.
func Parallel(config Config, hosts []string, f func(i int) error) []error {
	errs := make([]error, len(hosts))
	all, breakers := newBreaker(2*config.Files, nil), make(map[string]*breaker)
	var calls errgroup.Group
	calls.SetLimit(config.Files)
	for i, host := range hosts {
		if breakers[host] == nil {
			breakers[host] = newBreaker(config.Files*3/2, all)
		}
		b := breakers[host]
		calls.Go(func() error {
			errs[i] = b.call(config.Timeout, func() (err error) {
				defer recoverToError(&err)
				return f(i)
			})
			return nil
		})
	}
	calls.Wait()
	return errs
}

// recoverToError converts a panic to an error, in a goroutine where it would end the
// process.
func recoverToError(err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("prefetch: panic: %v\n%s", reason, debug.Stack())
	}
}

// host limits how many files of one host are open, and admits them in order. It is
// safe for concurrent use.
type host struct {
	breaker     *breaker
	concurrency func() int

	mu      sync.Mutex
	files   int // admitted, and not left
	waiting []chan struct{}
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
