package keys

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// renewalsPerLease is how often the epoch is read within a lease.
const renewalsPerLease = 5

// lease permits checks to use the cache. The epoch was current at some instant
// after requested. While the lease is valid, a change that this process does not
// know of is therefore younger than the lease's duration.
type lease struct {
	epoch     int64
	requested time.Time // when Store.Changes was called; has a monotonic reading
}

// valid reports whether the lease, which may be nil, is valid at now. It
// compares both clocks: the monotonic clock cannot be set back, and the wall
// clock advances while the machine is suspended.
func (l *lease) valid(now time.Time, duration time.Duration) bool {
	return l != nil && now.Sub(l.requested) < duration && now.UnixNano()-l.requested.UnixNano() < int64(duration)
}

// leases holds the lease of a process.
type leases struct {
	duration time.Duration
	last     atomic.Pointer[lease] // nil: invalidated or never obtained
	renewNow chan struct{}         // requests a renewal before the next tick

	mu      sync.Mutex // for changes, and writes of last
	changes int        // key changes made by this process
}

func newLeases(duration time.Duration) *leases {
	return &leases{duration: duration, renewNow: make(chan struct{}, 1)}
}

// current returns the lease that is valid at now, or nil.
func (l *leases) current(now time.Time) *lease {
	if last := l.last.Load(); last.valid(now, l.duration) {
		return last
	}
	return nil
}

// hasEpoch reports whether the last lease has the epoch.
func (l *leases) hasEpoch(epoch int64) bool {
	last := l.last.Load()
	return last != nil && last.epoch == epoch
}

// age returns the time since the epoch was requested, or -1 without a lease.
func (l *leases) age() time.Duration {
	if last := l.last.Load(); last != nil {
		return time.Since(last.requested)
	}
	return -1
}

// invalidate ends the lease, because this process may have changed the epoch.
func (l *leases) invalidate() {
	l.mu.Lock()
	l.changes++
	l.last.Store(nil)
	l.mu.Unlock()
	select {
	case l.renewNow <- struct{}{}:
	default: // already requested
	}
}

// waitExpiry waits until all leases that other processes obtained before the
// call have expired, plus a margin for clocks of different speed. It takes no
// context: the change is committed, and its result must be neither early nor
// lost.
func (l *leases) waitExpiry() { time.Sleep(l.duration + l.duration/50) }

// renew obtains a new lease from the store. It discards the epoch if this
// process has changed a key since the request: it may be the previous epoch.
func (l *leases) renew(ctx context.Context, store Store) (err error) {
	defer recoverToError(&err)
	ctx, cancel := context.WithTimeout(ctx, l.duration) // a later response yields no valid lease
	defer cancel()
	l.mu.Lock()
	own := l.changes
	l.mu.Unlock()

	requested := time.Now()
	changes, err := store.Changes(ctx, 0)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == own {
		l.last.Store(&lease{epoch: changes.Epoch, requested: requested})
	}
	return nil
}

// renewLoop renews the lease periodically, and at once after invalidate, until
// ctx ends. It logs each transition between success and failure once.
func (l *leases) renewLoop(ctx context.Context, store Store, log *slog.Logger) {
	defer l.invalidate()
	ticker := time.NewTicker(max(l.duration/renewalsPerLease, 1))
	defer ticker.Stop()
	for healthy := true; ; {
		err := l.renew(ctx, store)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && healthy:
			log.WarnContext(ctx, "key store unavailable, cache disabled", "error", err)
		case err == nil && !healthy:
			log.InfoContext(ctx, "key store available, cache enabled")
		}
		healthy = err == nil
		select {
		case <-ticker.C:
		case <-l.renewNow:
		case <-ctx.Done():
			return
		}
	}
}
