package keys

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// flushTimeout bounds one write of uses.
const flushTimeout = 5 * time.Second

// use counts the uses of a key by this process. Times are Unix milliseconds.
type use struct {
	at    atomic.Int64 // of the last use
	count atomic.Int64

	// What the store has of both. Only flush writes them.
	writtenAt, writtenCount atomic.Int64

	// The expiries with which the key, and its previous raw key, were seen
	// expired; see entry.usable.
	expiry, previousExpiry atomic.Int64
}

// record counts a use at the given time.
func (u *use) record(at int64) {
	u.count.Add(1)
	for last := u.at.Load(); at > last || last > at+MaxClockSkew.Milliseconds(); last = u.at.Load() {
		if u.at.CompareAndSwap(last, at) {
			return
		}
	}
}

// uses holds the uses of all keys that this process has accepted.
type uses struct {
	mu    sync.RWMutex
	byKey map[useKey]*use
}

// useKey identifies a key. After a failover that lost commits, an id can be
// assigned again.
type useKey struct {
	id      int64
	created int64 // Unix milliseconds
}

func useKeyOf(key Key) useKey { return useKey{key.ID, key.CreatedAt.UnixMilli()} }

// get returns the use of a key, which it adds if necessary.
func (u *uses) get(key Key) *use {
	if found := u.find(key); found != nil {
		return found
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byKey == nil {
		u.byKey = make(map[useKey]*use)
	}
	if u.byKey[useKeyOf(key)] == nil {
		u.byKey[useKeyOf(key)] = new(use)
	}
	return u.byKey[useKeyOf(key)]
}

func (u *uses) find(key Key) *use {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.byKey[useKeyOf(key)]
}

// applyTo adds to the key what the store does not have of its uses.
func (u *uses) applyTo(key *Key) {
	found := u.find(*key)
	if found == nil {
		return
	}
	if at := found.at.Load(); at > 0 && (key.LastUsedAt.IsZero() || at > key.LastUsedAt.UnixMilli()) {
		key.LastUsedAt = time.UnixMilli(at).UTC()
	}
	key.UseCount += found.count.Load() - found.writtenCount.Load()
}

// remove removes the use of a deleted key.
func (u *uses) remove(key Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byKey, useKeyOf(key))
}

// pending returns the uses that the store does not have, ids ascending.
func (u *uses) pending() []Use {
	u.mu.RLock()
	defer u.mu.RUnlock()
	var list []Use
	for key, use := range u.byKey {
		count := use.count.Load() - use.writtenCount.Load()
		if at := use.at.Load(); count > 0 || at != use.writtenAt.Load() {
			list = append(list, Use{
				ID:        key.id,
				CreatedAt: time.UnixMilli(key.created).UTC(),
				At:        time.UnixMilli(at).UTC(),
				Count:     count,
			})
		}
	}
	slices.SortFunc(list, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), a.CreatedAt.Compare(b.CreatedAt))
	})
	return list
}

// markWritten records that the store has these uses.
func (u *uses) markWritten(list []Use) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, written := range list {
		if use := u.byKey[useKey{written.ID, written.CreatedAt.UnixMilli()}]; use != nil {
			use.writtenAt.Store(written.At.UnixMilli())
			use.writtenCount.Add(written.Count)
		}
	}
}

// flush writes the pending uses in one batch.
func (u *uses) flush(ctx context.Context, store Store, now func() time.Time) (err error) {
	defer recoverToError(&err)
	list := u.pending()
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := store.Touch(ctx, list, now()); err != nil {
		return storeError("touch keys", err)
	}
	u.markWritten(list)
	return nil
}

// flushLoop flushes every interval and when ctx ends, and returns the error of
// the last flush. Uses that could not be written remain pending.
func (u *uses) flushLoop(ctx context.Context, store Store, interval time.Duration, now func() time.Time, log *slog.Logger) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for healthy := true; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return u.flush(context.WithoutCancel(ctx), store, now)
		}
		err := u.flush(ctx, store, now)
		switch {
		case ctx.Err() != nil:
		case err != nil && healthy:
			log.WarnContext(ctx, "flush of key uses failed, will retry", "error", err)
		case err == nil && !healthy:
			log.InfoContext(ctx, "flush of key uses succeeded")
		}
		healthy = err == nil
	}
}
