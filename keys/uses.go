package keys

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// uses holds times of use that the store does not have yet. There is at most
// one for each key, so memory is bounded by the number of keys.
type uses struct {
	mu      sync.Mutex
	pending map[int64]time.Time
}

// note records a use, unless a later one is known.
func (u *uses) note(id int64, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pending == nil {
		u.pending = make(map[int64]time.Time)
	}
	if at.After(u.pending[id]) {
		u.pending[id] = at
	}
}

// merge moves the key's LastUsedAt forward to what is known here.
func (u *uses) merge(key *Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.pending[key.ID]; at.After(key.LastUsedAt) {
		key.LastUsedAt = at
	}
}

// forget drops what is known of a key.
func (u *uses) forget(id int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pending, id)
}

// snapshot returns all pending uses, ids ascending.
func (u *uses) snapshot() []Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]Use, 0, len(u.pending))
	for id, at := range u.pending {
		list = append(list, Use{ID: id, At: at})
	}
	slices.SortFunc(list, func(a, b Use) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// written drops the uses that have reached the store and were not followed by
// later ones.
func (u *uses) written(list []Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, use := range list {
		if u.pending[use.ID].Equal(use.At) {
			delete(u.pending, use.ID)
		}
	}
}

// lastFlushTimeout bounds the write at the end of [Service.Run].
const lastFlushTimeout = 5 * time.Second

// Run writes the times of last use every flush interval, and once more when
// ctx ends, which ends Run too. A write that fails is logged and its uses are
// kept for the next. Start it once, beside the server, and wait for it before
// the store is closed; the error is that of the last write.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.flushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := s.flush(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "times of last use could not be written, will try again", "error", err)
			}
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlushTimeout)
			defer cancel()
			return s.flush(ctx)
		}
	}
}

// flush writes what is pending in one batch.
func (s *Service) flush(ctx context.Context) error {
	list := s.uses.snapshot()
	if len(list) == 0 {
		return nil
	}
	if err := s.store.Touch(ctx, list); err != nil {
		return storeError("touch keys", err)
	}
	s.uses.written(list)
	return nil
}
