package keys

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lease is what a successful answer to the question for the store's epoch is
// good for. The answer was true at some instant after the question was asked.
// While the lease runs, no change is both unknown here and older than the
// lease's duration.
type lease struct {
	epoch int64
	asked time.Time // with a monotonic reading
}

// covers reports whether the lease still runs at now. Both clocks are asked:
// the monotonic one cannot be set back, and the other one goes on while the
// machine sleeps.
func (l *lease) covers(now time.Time, duration time.Duration) bool {
	return l != nil && now.Sub(l.asked) < duration && now.UnixNano()-l.asked.UnixNano() < int64(duration)
}

// leases keeps the lease of a process.
type leases struct {
	duration time.Duration
	current  atomic.Pointer[lease]
	wanted   chan struct{} // asks for an answer before the next beat

	mu      sync.Mutex // guards changes, and current against two writers
	changes int        // made by this process
}

func newLeases(duration time.Duration) *leases {
	return &leases{duration: duration, wanted: make(chan struct{}, 1)}
}

// at returns the lease that runs at now, or nil.
func (l *leases) at(now time.Time) *lease {
	if current := l.current.Load(); current.covers(now, l.duration) {
		return current
	}
	return nil
}

// end ends the lease, because this process has changed the epoch.
func (l *leases) end() {
	l.mu.Lock()
	l.changes++
	l.current.Store(nil)
	l.mu.Unlock()
	select {
	case l.wanted <- struct{}{}:
	default: // wanted already
	}
}

// renew asks the store for its epoch. The answer does not count if this
// process has changed the epoch since the question: it may be the former one.
func (l *leases) renew(ctx context.Context, store Store) (err error) {
	defer recoverToError(&err)
	ctx, cancel := context.WithTimeout(ctx, l.duration) // a later answer is good for nothing
	defer cancel()
	l.mu.Lock()
	changes := l.changes
	l.mu.Unlock()

	asked := time.Now()
	epoch, err := store.Epoch(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == changes {
		l.current.Store(&lease{epoch: epoch, asked: asked})
	}
	return nil
}
