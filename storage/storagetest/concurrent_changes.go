package storagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/keys"
)

// concurrentChanges lets replicas follow the log while writers change keys. At
// the end each replica must equal the storage, and have seen the same log.
func concurrentChanges(t *testing.T, handles []Storage) {
	const writers, replicas = 6, 4
	rounds := iterations(25, 1000)
	start := epoch(t, handles[0])
	list := make([]*replica, replicas)
	var running atomic.Int64
	running.Store(writers)
	for _, err := range parallel(handles, writers+replicas, func(s Storage, i int) error {
		if i >= writers {
			r := &replica{keys: make(map[keys.Digest]keys.Key), since: start}
			list[i-writers] = r
			return r.follow(t.Context(), s.Keys(), func() bool { return running.Load() > 0 })
		}
		defer running.Add(-1)
		for round := range rounds {
			if err := changeRandomKey(t.Context(), s.Keys(), fmt.Sprint(i, round)); err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	want := make(map[keys.Digest]keys.Key)
	all := listKeys(t, handles[0])
	for _, key := range all.Keys {
		want[key.Digest] = key
	}
	log := changesSince(t, handles[0], start)
	if len(log.Digests) < writers*rounds/2 || !log.Complete { // some keys were deleted meanwhile
		t.Errorf("the log has %d entries, complete: %v, want at least %d", len(log.Digests), log.Complete, writers*rounds/2)
	}
	for i, r := range list {
		if !maps.Equal(r.keys, want) {
			t.Errorf("replica %d has %d keys that differ from the %d of the storage", i, len(r.keys), len(want))
		}
		if !slices.Equal(r.log, log.Digests) {
			t.Errorf("replica %d has seen %d entries that differ from the %d of the log", i, len(r.log), len(log.Digests))
		}
	}
}

// replica is a copy of the keys that follows the log.
type replica struct {
	keys  map[keys.Digest]keys.Key
	since int64
	log   []keys.Digest
}

// follow applies changes until more returns false, and then once more.
func (r *replica) follow(ctx context.Context, store keys.Store, more func() bool) error {
	for last := false; !last; {
		last = !more()
		changes, err := store.Changes(ctx, r.since)
		if err != nil {
			return err
		}
		if !changes.Complete {
			return fmt.Errorf("the log does not reach back to %d", r.since)
		}
		r.since = changes.Epoch
		r.log = append(r.log, changes.Digests...)
		for _, digest := range changes.Digests {
			key, err := store.Find(ctx, digest)
			switch {
			case err == nil:
				r.keys[digest] = key
			case errors.Is(err, keys.ErrNotFound):
				delete(r.keys, digest)
			default:
				return err
			}
		}
	}
	return nil
}

// changeRandomKey inserts a key, or changes or deletes one that others change
// too. The name is unique.
func changeRandomKey(ctx context.Context, store keys.Store, name string) error {
	all, err := store.List(ctx, keys.Filter{}, keys.Range{})
	if err != nil {
		return err
	}
	choice := rand.N(6)
	if len(all.Keys) < 4 || choice == 0 {
		_, err := store.Insert(ctx, newKey(name))
		return err
	}
	id := all.Keys[rand.N(len(all.Keys))].ID
	if choice == 1 {
		_, err = DeleteKey(ctx, store, id)
	} else {
		_, err = UpdateKey(ctx, store, id, func(key *keys.Key) error {
			switch choice {
			case 2:
				key.Active = !key.Active
			case 3:
				key.ExpiresAt = testTime.Add(rand.N(time.Hour)).Truncate(time.Millisecond)
			default:
				key.Digest = newKey(name).Digest
			}
			return nil
		})
	}
	if errors.Is(err, keys.ErrNotFound) {
		return nil
	}
	return err
}
