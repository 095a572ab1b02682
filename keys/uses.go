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

// flushTimeout bounds one write of last-used times.
const flushTimeout = 5 * time.Second

// use is the last use of a key, in Unix milliseconds.
type use struct {
	created time.Time // of the key
	at      atomic.Int64
	written atomic.Int64 // the value of at that the store has
}

// record records a use at the given time unless a later one is recorded.
func (u *use) record(at int64) {
	for last := u.at.Load(); at > last; last = u.at.Load() {
		if u.at.CompareAndSwap(last, at) {
			return
		}
	}
}

// uses holds the uses of all keys that this process has accepted, by key id.
type uses struct {
	mu   sync.RWMutex
	byID map[int64]*use
}

// get returns the use of a key, which it adds if necessary.
func (u *uses) get(key Key) *use {
	u.mu.RLock()
	found := u.byID[key.ID]
	u.mu.RUnlock()
	if found != nil && found.created.Equal(key.CreatedAt) {
		return found
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byID == nil {
		u.byID = make(map[int64]*use)
	}
	if found := u.byID[key.ID]; found != nil && found.created.Equal(key.CreatedAt) {
		return found
	}
	added := &use{created: key.CreatedAt}
	u.byID[key.ID] = added
	return added
}

// applyTo moves the key's LastUsedAt forward to the last recorded use.
func (u *uses) applyTo(key *Key) {
	u.mu.RLock()
	last := u.byID[key.ID]
	u.mu.RUnlock()
	if last == nil || !last.created.Equal(key.CreatedAt) {
		return
	}
	if at := last.at.Load(); at > 0 && (key.LastUsedAt.IsZero() || at > key.LastUsedAt.UnixMilli()) {
		key.LastUsedAt = time.UnixMilli(at).UTC()
	}
}

// remove removes the use of a deleted key.
func (u *uses) remove(id int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byID, id)
}

// pending returns the uses that the store does not have, ids ascending.
func (u *uses) pending() []Use {
	u.mu.RLock()
	defer u.mu.RUnlock()
	var list []Use
	for id, last := range u.byID {
		if at := last.at.Load(); at > last.written.Load() {
			list = append(list, Use{ID: id, CreatedAt: last.created, At: time.UnixMilli(at).UTC()})
		}
	}
	slices.SortFunc(list, func(a, b Use) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// markWritten records that the store has these uses.
func (u *uses) markWritten(list []Use) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, written := range list {
		if last := u.byID[written.ID]; last != nil {
			last.written.Store(written.At.UnixMilli())
		}
	}
}

// flush writes the pending uses in one batch.
func (u *uses) flush(ctx context.Context, store Store, now time.Time) (err error) {
	defer recoverToError(&err)
	list := u.pending()
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := store.Touch(ctx, list, now); err != nil {
		return storeError("touch keys", err)
	}
	u.markWritten(list)
	return nil
}

// flushLoop flushes every interval and when ctx ends, and returns the error of
// the last flush. Uses that could not be written remain pending.
func (u *uses) flushLoop(ctx context.Context, store Store, now func() time.Time, interval time.Duration, log *slog.Logger) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for healthy := true; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return u.flush(context.WithoutCancel(ctx), store, now())
		}
		err := u.flush(ctx, store, now())
		switch {
		case ctx.Err() != nil:
		case err != nil && healthy:
			log.WarnContext(ctx, "flush of last-used times failed, will retry", "error", err)
		case err == nil && !healthy:
			log.InfoContext(ctx, "flush of last-used times succeeded")
		}
		healthy = err == nil
	}
}
