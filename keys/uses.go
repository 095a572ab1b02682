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

const (
	// flushTimeout bounds one write of uses, and flushSize how many it has: the
	// only writer of SQLite is free again after about 10 ms, most of it CPU time.
	flushTimeout = 5 * time.Second
	flushSize    = 1000

	// idleTime is how long an unused use is kept. No entry of the cache has it
	// any more, because an entry is served for maxEntryAge after get was called.
	idleTime = 2 * maxEntryAge

	// pruneInterval is how often expired usage is removed, maxPruned rows at a time.
	pruneInterval = time.Hour
	maxPruned     = 1000
)

// use counts the uses of a key by this process. Times are Unix milliseconds.
type use struct {
	id    useID
	at    atomic.Int64 // of the last use
	count dayCounts

	// What the store has of both. Only write changes them.
	writtenAt    atomic.Int64
	writtenCount dayCounts

	public atomic.Pointer[publicKeyOf] // that the store does not have

	// The expiries with which the key, and its previous raw key, were seen
	// expired; see entry.usable.
	expiry, previousExpiry atomic.Int64

	// When get returned it, or pending found something to write. Guarded by uses.mu.
	touched time.Time
}

// useID identifies a key. After a failover that lost commits, an id can be
// assigned again.
type useID struct {
	key     int64
	created int64 // Unix milliseconds
}

func useIDOf(key Key) useID { return useID{key.ID, key.CreatedAt.UnixMilli()} }

// publicKeyOf is the public key of the raw key with the digest.
type publicKeyOf struct {
	digest Digest
	public PublicKey
}

// dayCounts counts uses by the parity of their UTC day. Uses are written within seconds, so
// those of one parity are of one day.
type dayCounts [2]atomic.Int64

func (c *dayCounts) of(at int64) *atomic.Int64 { return &c[dayOf(at)&1] }

func (c *dayCounts) sum() int64 { return c[0].Load() + c[1].Load() }

const day = 24 * time.Hour

// dayOf returns the number of the UTC day of a time.
func dayOf(at int64) int64 { return at / day.Milliseconds() }

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

// unwritten returns what the store does not have.
func (u *use) unwritten() Use {
	counts := [2]int64{u.count[0].Load() - u.writtenCount[0].Load(), u.count[1].Load() - u.writtenCount[1].Load()}
	at := u.at.Load()
	unwritten := Use{
		ID:        u.id.key,
		CreatedAt: time.UnixMilli(u.id.created).UTC(),
		At:        time.UnixMilli(at).UTC(),
		Count:     counts[0] + counts[1],
		Today:     counts[dayOf(at)&1],
	}
	if p := u.public.Load(); p != nil {
		unwritten.Digest, unwritten.PublicKey = p.digest, p.public
	}
	return unwritten
}

// uses holds the uses of the keys that this process has checked in the last minutes,
// and of those that it has seen expired in the last day.
type uses struct {
	store Store
	now   func() time.Time

	mu   sync.Mutex
	byID map[useID]*use

	writing chan struct{} // holds an element during write: two would write the same uses

	usageDays int64     // that are kept
	nextPrune time.Time // used by flushLoop only
}

func newUses(store Store, now func() time.Time, usageDays int) *uses {
	return &uses{store: store, now: now, byID: make(map[useID]*use), writing: make(chan struct{}, 1), usageDays: int64(usageDays)}
}

// get returns the use of a key, which it adds if necessary.
func (u *uses) get(key Key) *use {
	u.mu.Lock()
	defer u.mu.Unlock()
	id := useIDOf(key)
	found := u.byID[id]
	if found == nil {
		found = &use{id: id}
		u.byID[id] = found
	}
	found.touched = time.Now()
	return found
}

// applyTo adds to the key what the store does not have of its uses.
func (u *uses) applyTo(key *Key) {
	u.mu.Lock()
	found := u.byID[useIDOf(*key)]
	u.mu.Unlock()
	if found == nil {
		return
	}
	if at := found.at.Load(); at > 0 && (key.LastUsedAt.IsZero() || at > key.LastUsedAt.UnixMilli()) {
		key.LastUsedAt = time.UnixMilli(at).UTC()
	}
	key.UseCount += found.count.sum() - found.writtenCount.sum()
}

func (u *uses) remove(key Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byID, useIDOf(key))
}

// pending returns uses that the store does not have, keys ascending: of the keys with the
// ids, or of all if ids is nil. It removes written uses after idleTime. A key that was seen
// expired keeps its use for a day, because the clock may be set back.
func (u *uses) pending(ids []int64) (list []*use) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, use := range u.byID {
		idle, expired := now.Sub(use.touched), use.expiry.Load() != 0 || use.previousExpiry.Load() != 0
		switch {
		case use.count.sum() != use.writtenCount.sum() || use.at.Load() != use.writtenAt.Load():
			use.touched = now
			if ids == nil || slices.Contains(ids, id.key) {
				list = append(list, use)
			}
		case idle > day || idle > idleTime && !expired:
			delete(u.byID, id)
		}
	}
	slices.SortFunc(list, func(a, b *use) int { return cmp.Compare(a.id.key, b.id.key) })
	return list
}

// flush writes the pending uses of the keys with the ids, or all if ids is nil.
func (u *uses) flush(ctx context.Context, ids []int64) (err error) {
	defer recoverToError(&err)
	for part := range slices.Chunk(u.pending(ids), flushSize) {
		if err := u.write(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (u *uses) write(ctx context.Context, list []*use) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	select {
	case u.writing <- struct{}{}:
		defer func() { <-u.writing }()
	case <-ctx.Done():
		return storeError("touch keys", ctx.Err())
	}
	unwritten := make([]Use, len(list))
	for i, use := range list {
		unwritten[i] = use.unwritten()
	}
	// A primary without its standby commits each Touch but returns an error, so that each
	// retry would count the uses again. Changes fails before that.
	if _, err := u.store.Changes(ctx, 0); err != nil {
		return storeError("read changes of keys", err)
	}
	if err := u.store.Touch(ctx, unwritten, u.now()); err != nil {
		return storeError("touch keys", err)
	}
	for i, use := range list {
		written, at := unwritten[i], unwritten[i].At.UnixMilli()
		use.writtenAt.Store(at)
		use.writtenCount.of(at).Add(written.Today)
		use.writtenCount.of(at - day.Milliseconds()).Add(written.Count - written.Today)
		if p := use.public.Load(); p != nil && p.public == written.PublicKey {
			use.public.CompareAndSwap(p, nil)
		}
	}
	return nil
}

// flushLoop flushes every interval and when ctx ends, and returns the error of
// the last flush. Uses that could not be written remain pending.
func (u *uses) flushLoop(ctx context.Context, interval time.Duration, log *slog.Logger) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for healthy := true; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return u.flush(context.WithoutCancel(ctx), nil)
		}
		err := u.flush(context.WithoutCancel(ctx), nil) // what is written when ctx ends must not count again
		if err == nil {
			err = u.pruneUsage(ctx)
		}
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

// pruneUsage removes expired usage, if it is time to.
func (u *uses) pruneUsage(ctx context.Context) (err error) {
	defer recoverToError(&err)
	now := u.now()
	if time.Now().Before(u.nextPrune) { // not now, which may be set back by years
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	removed, err := u.store.PruneUsage(ctx, dayOf(now.UnixMilli())-u.usageDays+1, maxPruned)
	if err == nil && removed < maxPruned { // otherwise continue with the next flush
		u.nextPrune = time.Now().Add(pruneInterval)
	}
	return storeError("prune usage", err)
}
