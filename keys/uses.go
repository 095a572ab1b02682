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

// maxEntryAge bounds how long an entry is served. Every change of a key evicts
// its entries; the bound is for changes that bypass the store's change log.
const maxEntryAge = time.Minute

const (
	// flushTimeout bounds one write of uses, and flushSize how many it has: the
	// only writer of SQLite is free again after about 10 ms, most of it CPU time.
	flushTimeout = 5 * time.Second
	flushSize    = 1000

	// idleTime is how long an unused use is kept. No entry of the cache has it
	// any more, because an entry is served for maxEntryAge after get was called.
	idleTime = 2 * maxEntryAge
)

const (
	day = 24 * time.Hour

	defaultUsageDays = 30  // of UsageFilter
	maxUsageDays     = 400 // of UsageFilter
	maxUsageIDs      = 100

	// pruneInterval is how often expired usage is removed, maxPruned rows at a time.
	pruneInterval = time.Hour
	maxPruned     = 1000
)

// use counts the uses of a key by this process. Times are Unix milliseconds.
type use struct {
	at    atomic.Int64 // of the last use
	count dayCounts

	// What the store has of both. Only flush writes them.
	writtenAt    atomic.Int64
	writtenCount dayCounts

	// When get returned it, or flush found something to write.
	touched atomic.Int64

	public atomic.Pointer[publicKeyOf] // that the store does not have

	// The expiries with which the key, and its previous raw key, were seen
	// expired; see entry.usable.
	expiry, previousExpiry atomic.Int64
}

// publicKeyOf is the public key of the raw key with the digest.
type publicKeyOf struct {
	digest Digest
	public PublicKey
}

// dayCounts counts uses by the parity of their UTC day. Uses are written within seconds, so
// those of one parity are of one day.
type dayCounts [2]atomic.Int64

func (c *dayCounts) of(at int64) *atomic.Int64 { return &c[dayOfMillis(at)&1] }

func (c *dayCounts) sum() int64 { return c[0].Load() + c[1].Load() }

// record counts a use at the given time. It counts last, so that at is never of a day
// before a use that is counted.
func (u *use) record(at int64) {
	for last := u.at.Load(); at > last || last > at+MaxClockSkew.Milliseconds(); last = u.at.Load() {
		if u.at.CompareAndSwap(last, at) {
			break
		}
	}
	u.count.of(at).Add(1)
}

// isWritten reports whether the store has all uses.
func (u *use) isWritten() bool {
	return u.count.sum() == u.writtenCount.sum() && u.at.Load() == u.writtenAt.Load()
}

// unwritten returns what the store does not have of the uses of a key.
func (u *use) unwritten(key useKey) Use {
	counts := [2]int64{u.count[0].Load() - u.writtenCount[0].Load(), u.count[1].Load() - u.writtenCount[1].Load()}
	at := u.at.Load()
	unwritten := Use{
		ID:        key.id,
		CreatedAt: time.UnixMilli(key.created).UTC(),
		At:        time.UnixMilli(at).UTC(),
		Count:     counts[0] + counts[1],
		Today:     counts[dayOfMillis(at)&1],
	}
	if p := u.public.Load(); p != nil {
		unwritten.Digest, unwritten.PublicKey = p.digest, p.public
	}
	return unwritten
}

// uses holds the uses of the keys that this process has checked in the last minutes,
// and of those that it has seen expired.
type uses struct {
	mu    sync.RWMutex
	byKey map[useKey]*use

	writing sync.Mutex // by write: two would write the same uses

	usageDays int64     // that are kept
	nextPrune time.Time // used by flush only
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
	if found := u.touch(key); found != nil {
		return found
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byKey == nil {
		u.byKey = make(map[useKey]*use)
	}
	found := u.byKey[useKeyOf(key)]
	if found == nil {
		found = new(use)
		u.byKey[useKeyOf(key)] = found
	}
	found.touched.Store(time.Now().UnixMilli())
	return found
}

// touch returns the use of a key, or nil. removeIdle does not remove it soon.
func (u *uses) touch(key Key) *use {
	u.mu.RLock()
	defer u.mu.RUnlock()
	found := u.byKey[useKeyOf(key)]
	if found != nil {
		found.touched.Store(time.Now().UnixMilli())
	}
	return found
}

// applyTo adds to the key what the store does not have of its uses.
func (u *uses) applyTo(key *Key) {
	u.mu.RLock()
	found := u.byKey[useKeyOf(*key)]
	u.mu.RUnlock()
	if found == nil {
		return
	}
	if at := found.at.Load(); at > 0 && (key.LastUsedAt.IsZero() || at > key.LastUsedAt.UnixMilli()) {
		key.LastUsedAt = time.UnixMilli(at).UTC()
	}
	key.UseCount += found.count.sum() - found.writtenCount.sum()
}

// remove removes the use of a deleted key.
func (u *uses) remove(key Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byKey, useKeyOf(key))
}

// pending returns the keys with uses that the store does not have, ids ascending.
func (u *uses) pending() (list []useKey) {
	now := time.Now().UnixMilli()
	u.mu.RLock()
	for key, use := range u.byKey {
		if !use.isWritten() {
			use.touched.Store(now)
			list = append(list, key)
		}
	}
	u.mu.RUnlock()
	slices.SortFunc(list, func(a, b useKey) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.created, b.created))
	})
	return list
}

// unwritten returns what the store does not have of the uses of keys.
func (u *uses) unwritten(keys []useKey) []Use {
	u.mu.RLock()
	defer u.mu.RUnlock()
	list := make([]Use, 0, len(keys))
	for _, key := range keys {
		if use := u.byKey[key]; use != nil {
			list = append(list, use.unwritten(key))
		}
	}
	return list
}

// removeIdle removes written uses after idleTime. A key that was seen expired keeps
// its use, because the clock may be set back.
func (u *uses) removeIdle() {
	before := time.Now().Add(-idleTime).UnixMilli()
	idle := func(use *use) bool {
		return use.touched.Load() < before && use.expiry.Load() == 0 && use.previousExpiry.Load() == 0 && use.isWritten()
	}
	u.mu.RLock()
	var list []useKey
	for key, use := range u.byKey {
		if idle(use) {
			list = append(list, key)
		}
	}
	u.mu.RUnlock()
	for part := range slices.Chunk(list, flushSize) {
		u.mu.Lock()
		for _, key := range part {
			if use := u.byKey[key]; use != nil && idle(use) {
				delete(u.byKey, key)
			}
		}
		u.mu.Unlock()
	}
}

// markWritten records that the store has these uses.
func (u *uses) markWritten(list []Use) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, written := range list {
		if use := u.byKey[useKey{written.ID, written.CreatedAt.UnixMilli()}]; use != nil {
			use.writtenAt.Store(written.At.UnixMilli())
			at := written.At.UnixMilli()
			use.writtenCount.of(at).Add(written.Today)
			use.writtenCount.of(at - day.Milliseconds()).Add(written.Count - written.Today)
			if p := use.public.Load(); p != nil && p.public == written.PublicKey {
				use.public.CompareAndSwap(p, nil)
			}
		}
	}
}

// flush writes the pending uses, and removes idle ones.
func (u *uses) flush(ctx context.Context, store Store, now func() time.Time) (err error) {
	defer recoverToError(&err)
	for part := range slices.Chunk(u.pending(), flushSize) {
		if err := u.write(ctx, store, now, part); err != nil {
			return err
		}
	}
	u.removeIdle()
	return u.pruneUsage(ctx, store, now())
}

// flushKeys writes the pending uses of keys with the ids.
func (u *uses) flushKeys(ctx context.Context, store Store, now func() time.Time, ids []int64) error {
	wanted := make(map[int64]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	list := slices.DeleteFunc(u.pending(), func(key useKey) bool { return !wanted[key.id] })
	if len(list) == 0 {
		return nil
	}
	return u.write(ctx, store, now, list)
}

// write writes the uses of some keys.
func (u *uses) write(ctx context.Context, store Store, now func() time.Time, keys []useKey) error {
	u.writing.Lock()
	defer u.writing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	list := u.unwritten(keys)
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

// dayOf returns the number of the UTC day of a time.
func dayOf(at time.Time) int64 { return dayOfMillis(at.UnixMilli()) }

func dayOfMillis(at int64) int64 { return at / day.Milliseconds() }

// pruneUsage removes expired usage, if it is time to.
func (u *uses) pruneUsage(ctx context.Context, store Store, now time.Time) error {
	if u.usageDays == 0 || now.Before(u.nextPrune) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	removed, err := store.PruneUsage(ctx, dayOf(now)-u.usageDays+1, maxPruned)
	if err != nil {
		return storeError("prune usage", err)
	}
	if removed < maxPruned { // otherwise continue with the next flush
		u.nextPrune = now.Add(pruneInterval)
	}
	return nil
}
