package keys

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// renewalsPerLease is how often a lease is renewed within its duration, while checks
// need it.
const renewalsPerLease = 5

// lease permits checks to use the cache. When it was obtained, every change that
// was committed before requested had been evicted. A change that the cache does
// not reflect is therefore younger than the lease's duration for as long as the
// lease is valid.
type lease struct {
	requested time.Time // when Store.Changes was called; has a monotonic reading
	expires   time.Time // one duration later
	wall      int64     // expires in Unix nanoseconds
}

// valid reports whether the lease, which may be nil, is valid at now. It
// compares both clocks: the monotonic clock cannot be set back, and the wall
// clock advances while the machine is suspended.
func (l *lease) valid(now time.Time) bool {
	return l != nil && now.Before(l.expires) && now.UnixNano() < l.wall
}

// leases obtains the leases of a process.
type leases struct {
	duration time.Duration
	cache    *cache
	last     atomic.Pointer[lease] // nil before the first one and after Run
	epoch    int64                 // of the last response; used by renew only

	used atomic.Bool   // set by checks, reset by renewLoop
	wake chan struct{} // has an element after a check without a lease
}

// use reports whether a check at now may use the cache.
func (l *leases) use(now time.Time) bool {
	if !l.used.Load() { // writing it each time would slow down checks on other cores
		l.used.Store(true)
	}
	if l.last.Load().valid(now) {
		return true
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return false
}

// renew obtains a new lease. It evicts what has changed since the last one
// before it publishes the new one: a check that sees the new lease must not find
// an entry from before those changes.
//
// After a gap between two leases, the store may be another copy that lacks the
// last commits, such as a promoted standby. The log does not show what that
// undid, so the entries that may contain such commits are evicted too.
func (l *leases) renew(ctx context.Context, store Store) (err error) {
	defer recoverToError(&err)
	ctx, cancel := context.WithTimeout(ctx, l.duration) // a later response yields no valid lease
	defer cancel()
	last, requested := l.last.Load(), time.Now()
	changes, err := store.Changes(ctx, l.epoch)
	switch {
	case err != nil:
		return err
	case !changes.Complete || last == nil:
		l.cache.evictReadSince(time.Time{})
	case !last.valid(time.Now()):
		l.cache.evictReadSince(last.requested)
		l.cache.evict(changes.Digests...)
	case changes.Epoch != l.epoch:
		l.cache.evict(changes.Digests...)
	}
	l.epoch = changes.Epoch
	requested = requested.Add(-changes.Age)
	if last == nil || requested.After(last.requested) {
		expires := requested.Add(l.duration)
		l.last.Store(&lease{requested, expires, expires.UnixNano()})
	}
	return nil
}

// renewLoop renews the lease periodically until ctx ends, except while no key has been
// checked for a minute. It logs each transition between success and failure once.
func (l *leases) renewLoop(ctx context.Context, store Store, log *slog.Logger) {
	defer l.last.Store(nil)
	used := time.Now()
	for healthy := true; ; {
		epoch := l.epoch
		err := l.renew(ctx, store)
		if l.epoch < epoch {
			log.WarnContext(ctx, "key store is older than before: revoke again what was revoked since")
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && healthy:
			log.WarnContext(ctx, "key store unavailable, cache disabled", "error", err)
		case err == nil && !healthy:
			log.InfoContext(ctx, "key store available, cache enabled")
		}
		healthy = err == nil
		interval := l.duration / renewalsPerLease
		select {
		case <-time.After(interval - rand.N(interval/5+1)): // other processes ask at other times
		case <-ctx.Done():
			return
		}
		if l.used.Swap(false) {
			used = time.Now()
		}
		if time.Since(used) > maxEntryAge { // no entry is left to serve
			select {
			case <-l.wake: // a check without a lease
			case <-ctx.Done():
				return
			}
		}
	}
}
