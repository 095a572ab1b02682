package keys

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// use is the latest known use of a key, in Unix milliseconds.
type use struct {
	at      atomic.Int64
	written atomic.Int64 // what of it the store has
}

// note records a use, unless a later one is known.
func (u *use) note(at int64) {
	for former := u.at.Load(); at > former; former = u.at.Load() {
		if u.at.CompareAndSwap(former, at) {
			return
		}
	}
}

// uses holds the uses of keys, one for each key that has been accepted here.
type uses struct {
	mu  sync.RWMutex
	all map[int64]*use
}

// of returns the use of a key.
func (u *uses) of(id int64) *use {
	u.mu.RLock()
	found := u.all[id]
	u.mu.RUnlock()
	if found != nil {
		return found
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = make(map[int64]*use)
	}
	if u.all[id] == nil {
		u.all[id] = new(use)
	}
	return u.all[id]
}

// merge moves the key's LastUsedAt forward to what is known here.
func (u *uses) merge(key *Key) {
	u.mu.RLock()
	known := u.all[key.ID]
	u.mu.RUnlock()
	if known == nil {
		return
	}
	if at := known.at.Load(); at > 0 && (key.LastUsedAt.IsZero() || at > key.LastUsedAt.UnixMilli()) {
		key.LastUsedAt = time.UnixMilli(at).UTC()
	}
}

// forget drops what is known of a key.
func (u *uses) forget(id int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, id)
}

// pending returns the uses that the store does not have, ids ascending.
func (u *uses) pending() []Use {
	u.mu.RLock()
	defer u.mu.RUnlock()
	var list []Use
	for id, known := range u.all {
		if at := known.at.Load(); at > known.written.Load() {
			list = append(list, Use{ID: id, At: time.UnixMilli(at).UTC()})
		}
	}
	slices.SortFunc(list, func(a, b Use) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// written notes that the store has these uses.
func (u *uses) written(list []Use) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, used := range list {
		if known := u.all[used.ID]; known != nil {
			known.written.Store(used.At.UnixMilli())
		}
	}
}
