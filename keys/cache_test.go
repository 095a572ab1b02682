package keys_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

// settle waits until s has applied all changes.
func settle() {
	time.Sleep(defaultLease)
	synctest.Wait()
}

// issueCached creates a key that is in the cache of s.
func issueCached(t *testing.T, s *keys.Service) keys.Issued {
	t.Helper()
	issued := issue(t, s, keys.Fields{})
	settle()
	is.New(t).NoErr(verify(t, s, issued.Raw))
	return issued
}

func TestCache_ChangeEvictsOnlyItsKey(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		var raws []keys.RawKey
		for range 100 {
			raws = append(raws, issue(t, s, keys.Fields{}).Raw)
		}
		settle()
		verifyAll := func(except int) {
			t.Helper()
			for i, raw := range raws {
				if i != except {
					is.NoErr(verify(t, s, raw))
				}
			}
		}
		verifyAll(-1)
		finds := store.finds.Load()
		is.Equal(finds, int64(100))
		for id := range int64(10) {
			issue(t, other, keys.Fields{})
			for _, active := range []bool{false, true} {
				update(t, other, id+1, keys.Fields{Active: new(active)})
				settle()
				verifyAll(int(id))
				is.Equal(store.finds.Load(), finds)
				is.Equal(verify(t, s, raws[id]) == nil, active)
				finds++
			}
			is.Equal(store.finds.Load(), finds) // one refill for each change
		}
	})
}

func TestCache_OwnChangesEvictOnlyTheirKeys(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		raw := issueCached(t, s).Raw
		finds := store.finds.Load()
		for range 20 {
			id := issue(t, s, keys.Fields{}).Key.ID
			is.NoErr(verify(t, s, raw))
			rotate(t, s, id, 0)
			is.NoErr(verify(t, s, raw))
			is.NoErr(s.Delete(t.Context(), id))
			is.NoErr(verify(t, s, raw))
		}
		is.Equal(store.finds.Load(), finds)
	})
}

// readStale has a check that caches a key as it was before a change, as when a store has read it
// before the commit.
func readStale(t *testing.T, store *hookedStore, s *keys.Service, issued keys.Issued) {
	store.find.set(func(context.Context, func() (keys.Key, error)) (keys.Key, error) { return issued.Key, nil })
	is.New(t).NoErr(verify(t, s, issued.Raw))
	store.find.set(nil)
}

// Without other processes a revoking call does not wait for a lease.
func TestCache_OwnRevocationNeedsNoLease(t *testing.T) {
	for name, revoke := range map[string]func(context.Context, *keys.Service) error{
		"deactivate": func(ctx context.Context, s *keys.Service) error {
			return errorOf(s.Update(ctx, 1, keys.Fields{Active: new(false)}))
		},
		"rotate": func(ctx context.Context, s *keys.Service) error { return errorOf(s.Rotate(ctx, 1, 0)) },
		"delete": func(ctx context.Context, s *keys.Service) error { return s.Delete(ctx, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
				store.unshared = true
				issued := issueCached(t, s)
				change := func(_ context.Context, next func() ([]keys.Key, error)) ([]keys.Key, error) {
					list, err := next()
					readStale(t, store, s, issued)
					return list, err
				}
				store.updated.set(change)
				store.deleted.set(change)
				start := time.Now()
				is.NoErr(revoke(t.Context(), s))
				is.Equal(time.Since(start), time.Duration(0))
				is.True(verify(t, s, issued.Raw) != nil)
			})
		})
	}
	for name, again := range map[string]func(t *testing.T, is *is.I, s *keys.Service, raw keys.RawKey){
		"delete again": func(t *testing.T, is *is.I, s *keys.Service, _ keys.RawKey) {
			is.Equal(s.Delete(t.Context(), 1), keys.ErrNotFound)
		},
		"revoke after a deletion that has not returned": func(t *testing.T, is *is.I, s *keys.Service, raw keys.RawKey) {
			_, err := s.RevokeRaw(t.Context(), []string{string(raw)}, nil)
			is.NoErr(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
				store.unshared = true
				unblock := make(chan struct{})
				issued := issueCached(t, s)
				store.deleted.set(func(_ context.Context, next func() ([]keys.Key, error)) ([]keys.Key, error) {
					list, err := next()
					if err == nil {
						readStale(t, store, s, issued)
						<-unblock
					}
					return list, err
				})
				deleted := make(chan error, 1)
				go func() { deleted <- s.Delete(t.Context(), 1) }()
				synctest.Wait()
				again(t, is, s, issued.Raw)
				is.Equal(verify(t, s, issued.Raw), keys.ErrUnknown)
				close(unblock)
				is.NoErr(<-deleted)
			})
		})
	}
	t.Run("delete after a rotation that has not returned", func(t *testing.T) {
		testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
			store.unshared = true
			unblock := make(chan struct{})
			store.updated.set(func(_ context.Context, next func() ([]keys.Key, error)) ([]keys.Key, error) {
				list, err := next()
				<-unblock
				return list, err
			})
			issued := issueCached(t, s)
			rotated := make(chan error, 1)
			go func() {
				_, err := s.Rotate(t.Context(), 1, 0)
				rotated <- err
			}()
			synctest.Wait()
			is.NoErr(s.Delete(t.Context(), 1))
			is.Equal(verify(t, s, issued.Raw), keys.ErrUnknown)
			close(unblock)
			is.NoErr(<-rotated)
		})
	})
}

// A key can be created with a raw key that is cached as unknown: by SQL, or in a
// restored database.
func TestCache_InsertionEvictsUnknownDigest(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		is.NoErr(s.Delete(t.Context(), 1))
		settle()
		for range 3 {
			is.Equal(verify(t, s, issued.Raw), keys.ErrUnknown)
		}
		must(store.Insert(t.Context(), issued.Key))(t)
		settle()
		is.NoErr(verify(t, s, issued.Raw))
	})
}

func TestCache_EvictsDigestOfPreviousPepper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := newHookedStore()
		previous := newService(t, store, &keys.Options{Pepper: []byte("previous")})
		s := startService(t, store, &keys.Options{Pepper: []byte("current"), PreviousPeppers: [][]byte{[]byte("previous"), nil}})
		issued := issue(t, previous, keys.Fields{})
		settle()
		for range 3 {
			is.NoErr(verify(t, s, issued.Raw))
		}
		is.Equal(store.finds.Load(), int64(2)) // one for each digest until the key is found
		update(t, previous, 1, keys.Fields{Active: new(false)})
		is.Equal(verify(t, s, issued.Raw), keys.ErrInactive)
		is.NoErr(previous.Delete(t.Context(), 1))
		is.Equal(verify(t, s, issued.Raw), keys.ErrUnknown)
	})
}

// An incomplete response stands for a log that was pruned, or for another
// database.
func TestCache_IncompleteResponseEvictsAll(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		raw := issueCached(t, s).Raw
		store.changes.after(func(changes *keys.Changes) { *changes = keys.Changes{Epoch: changes.Epoch} })
		change(t, store, 1, deactivate)
		settle()
		is.Equal(verify(t, s, raw), keys.ErrInactive)
	})
}

// A change that bypasses the change log takes effect when the entry expires.
func TestCache_EntryExpires(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		raw := issueCached(t, s).Raw
		store.changes.after(func(changes *keys.Changes) { changes.Digests, changes.Complete = nil, true })
		change(t, store, 1, deactivate)
		time.Sleep(58 * time.Second)
		is.NoErr(verify(t, s, raw))
		time.Sleep(2 * time.Second)
		is.Equal(verify(t, s, raw), keys.ErrInactive)
	})
}

func TestCache_SmallerThanWorkingSet(t *testing.T) {
	testRunning(t, keys.Options{CacheSize: 256}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		var raws []keys.RawKey
		for range 2000 {
			raws = append(raws, issue(t, s, keys.Fields{}).Raw)
		}
		for range 3 {
			for i, raw := range raws {
				is.Equal(must(s.Verify(t.Context(), string(raw)))(t).ID, int64(i+1))
			}
		}
		for id := range int64(2000) {
			change(t, store, id+1, deactivate)
		}
		settle()
		for _, raw := range raws {
			is.Equal(verify(t, s, raw), keys.ErrInactive)
		}
	})
}

func TestVerify_ExpiredKeyStaysExpiredIfClockIsSetBack(t *testing.T) {
	var offset atomic.Int64 // added to the clock
	options := keys.Options{Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }}
	testRunning(t, options, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{ExpiresAt: new(time.Now().Add(time.Hour))})
		settle()
		is.NoErr(verify(t, s, issued.Raw))
		for _, ahead := range []time.Duration{2 * time.Hour, 0} {
			offset.Store(int64(ahead))
			is.Equal(verify(t, s, issued.Raw), keys.ErrExpired)
		}
		is.Equal(store.finds.Load(), int64(1)) // it is cached
		time.Sleep(2 * time.Minute)            // the entry has expired
		is.Equal(verify(t, s, issued.Raw), keys.ErrExpired)
		update(t, s, 1, keys.Fields{ExpiresAt: new(time.Now().Add(2 * time.Hour))})
		is.NoErr(verify(t, s, issued.Raw)) // an administrator may set another expiry
	})
}

func TestVerify_LastUsedAtRecoversFromClockAhead(t *testing.T) {
	var offset atomic.Int64
	options := keys.Options{Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }}
	testRunning(t, options, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		for _, ahead := range []time.Duration{365 * 24 * time.Hour, 0} {
			offset.Store(int64(ahead))
			is.NoErr(verify(t, s, issued.Raw))
			time.Sleep(defaultFlushInterval + time.Second)
			synctest.Wait()
		}
		key := get(t, s, 1)
		is.True(key.LastUsedAt.Before(time.Now()))
		is.Equal(key.UseCount, int64(2))
	})
}

func TestUseCount_SumsAllProcesses(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := startService(t, store, nil)
		issued := issue(t, s, keys.Fields{})
		settle()
		for range 1000 {
			is.NoErr(verify(t, s, issued.Raw))
			is.NoErr(verify(t, other, issued.Raw))
		}
		is.Equal(get(t, s, 1).UseCount, int64(1000)) // its own are visible at once
		update(t, s, 1, keys.Fields{Active: new(false)})
		is.Equal(verify(t, s, issued.Raw), keys.ErrInactive) // not a use
		time.Sleep(2 * defaultFlushInterval)
		synctest.Wait()
		for _, service := range []*keys.Service{s, other} {
			is.Equal(get(t, service, 1).UseCount, int64(2000))
		}
	})
}

// After a failover that lost commits, an id can belong to another key.
func TestUse_BelongsToOneKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newHookedStore()
	s := newService(t, store, nil)
	issued := issue(t, s, keys.Fields{})
	is.NoErr(verify(t, s, issued.Raw))
	store.Store = newHookedStore() // id 1 is assigned again
	time.Sleep(2 * time.Millisecond)
	issue(t, s, keys.Fields{})
	for range 2 {
		key := get(t, s, 1)
		is.True(key.LastUsedAt.IsZero())
		is.Equal(key.UseCount, int64(0))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		is.NoErr(s.Run(ended)) // writes uses
	}
}
