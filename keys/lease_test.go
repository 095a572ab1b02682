package keys_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

// verifyBlocked begins a check whose read of the store returns when unblock is called.
func verifyBlocked(t *testing.T, store *hookedStore, s *keys.Service, raw keys.RawKey) (result chan error, unblock func()) {
	blocked, read := make(chan error, 1), make(chan struct{})
	store.find.after(func(*keys.Key) { <-read })
	go func() { blocked <- verify(t, s, raw) }()
	synctest.Wait()
	return blocked, sync.OnceFunc(func() { close(read) })
}

// TestLease_DoesNotCacheReadFromBeforeRevocation blocks a read that has seen the key active
// until the key is revoked.
func TestLease_DoesNotCacheReadFromBeforeRevocation(t *testing.T) {
	inactive := keys.Fields{Active: new(false)}
	for name, revoke := range map[string]func(*testing.T, *hookedStore, *keys.Service){
		"own process": func(t *testing.T, _ *hookedStore, s *keys.Service) { update(t, s, 1, inactive) },
		"other process": func(t *testing.T, store *hookedStore, _ *keys.Service) {
			update(t, newService(t, store, nil), 1, inactive)
		},
		"change that the log does not contain": func(t *testing.T, store *hookedStore, _ *keys.Service) {
			store.changes.after(func(changes *keys.Changes) { *changes = keys.Changes{Epoch: changes.Epoch} })
			change(t, store, 1, deactivate)
			settle()
			store.changes.set(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
				issued := issue(t, s, keys.Fields{})
				settle()
				blocked, unblock := verifyBlocked(t, store, s, issued.Raw)
				defer unblock()
				revoke(t, store, s)
				store.find.set(nil)

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				is.Equal(errorOf(s.Verify(ctx, string(issued.Raw))), keys.ErrInactive) // does not join the blocked read
				unblock()
				is.NoErr(<-blocked)                                  // this check began before the revocation
				is.Equal(verify(t, s, issued.Raw), keys.ErrInactive) // its result is not cached
			})
		})
	}
}

// TestLease_IsNotExtendedByLateResponse delays a response from before a
// revocation until after it.
func TestLease_IsNotExtendedByLateResponse(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		issued := issueCached(t, s)
		settle()                                     // a gap between two leases evicts later reads
		const late = defaultLease - time.Millisecond // just before the timeout
		store.changes.after(func(*keys.Changes) { time.Sleep(late) })
		time.Sleep(defaultLease / 2)
		rotate(t, other, 1, 0)
		is.Equal(verify(t, s, issued.Raw), keys.ErrUnknown)
	})
}

func TestLease_EndsIfStoreIsUnreachable(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		issued := issueCached(t, s)
		store.changes.before(frozen)
		synctest.Wait()
		start := time.Now()
		is.NoErr(other.Delete(t.Context(), 1))
		is.True(time.Since(start) >= defaultLease) // other processes may have a lease
		is.Equal(verify(t, s, issued.Raw), keys.ErrUnknown)

		store.changes.set(nil)
		issued = issue(t, other, keys.Fields{})
		time.Sleep(defaultLease)
		finds := store.finds.Load()
		for range 10 {
			is.NoErr(verify(t, s, issued.Raw))
		}
		is.Equal(store.finds.Load(), finds+1) // the cache is enabled again
	})
}

// TestLease_GapEvictsChangedKeys has a key that another process revokes during an outage.
func TestLease_GapEvictsChangedKeys(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issueCached(t, s)
		settle() // the lease is younger than the read
		store.changes.fail(errors.New("connection refused"))
		time.Sleep(2 * defaultLease)
		change(t, store, 1, deactivate)
		store.changes.set(nil)
		settle()
		is.Equal(verify(t, s, issued.Raw), keys.ErrInactive)
	})
}

// TestLease_GapEvictsReadsOfLostCommits cuts a process off from a primary with an
// activation that is lost when a standby is promoted.
func TestLease_GapEvictsReadsOfLostCommits(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		lost, kept := issue(t, s, keys.Fields{Active: new(false)}), issue(t, s, keys.Fields{})
		settle()
		is.NoErr(verify(t, s, kept.Raw))
		settle()
		finds := store.finds.Load()
		standby := must(store.Changes(t.Context(), 0))(t)

		update(t, s, lost.Key.ID, keys.Fields{Active: new(true)})
		is.NoErr(verify(t, s, lost.Raw)) // cached
		store.changes.fail(errors.New("connection refused"))
		time.Sleep(2 * defaultLease)

		change(t, store, lost.Key.ID, deactivate)
		current := keys.Changes{Epoch: standby.Epoch, Complete: true}
		store.changes.after(func(changes *keys.Changes) { *changes = current })
		settle()
		is.Equal(verify(t, s, lost.Raw), keys.ErrInactive)
		is.Equal(store.finds.Load(), finds+2)
		is.NoErr(verify(t, s, kept.Raw))
		is.Equal(store.finds.Load(), finds+2) // still cached
	})
}

func TestCache_OwnChangeTakesEffectAtOnce(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		is.NoErr(verify(t, s, issued.Raw))
		for _, c := range []struct {
			fields keys.Fields
			want   error
			waits  bool
		}{
			{keys.Fields{Active: new(false)}, keys.ErrInactive, true},
			{keys.Fields{Active: new(false)}, keys.ErrInactive, true}, // other processes may not know yet
			{keys.Fields{Active: new(true)}, nil, false},
			{keys.Fields{ExpiresAt: new(time.Now().Add(time.Hour))}, nil, true},
			{keys.Fields{ExpiresAt: new(time.Now().Add(2 * time.Hour))}, nil, true},
			{keys.Fields{ExpiresAt: new(time.Now().Add(-time.Hour))}, keys.ErrExpired, true},
			{keys.Fields{ExpiresAt: new(time.Time{})}, nil, false},
			{keys.Fields{Scopes: new(keys.Scopes)}, nil, true}, // names no scope any more
			{keys.Fields{Name: new("other")}, nil, false},
		} {
			start := time.Now()
			update(t, s, 1, c.fields)
			is.Equal(time.Since(start) >= defaultLease, c.waits) // only revoking calls wait
			is.Equal(verify(t, s, issued.Raw), c.want)
			synctest.Wait()
			is.Equal(verify(t, s, issued.Raw), c.want)
		}
	})
}

// TestCache_LateResponseDoesNotUndoOwnChange delays a response until after a
// change that waits for no lease.
func TestCache_LateResponseDoesNotUndoOwnChange(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		store.unshared = true
		issued := issueCached(t, s)
		store.changes.after(func(*keys.Changes) { time.Sleep(10 * time.Millisecond) })
		time.Sleep(defaultLease / 5) // a renewal has begun
		synctest.Wait()
		update(t, s, 1, keys.Fields{Active: new(false)})
		for range 20 {
			is.Equal(verify(t, s, issued.Raw), keys.ErrInactive)
			time.Sleep(time.Millisecond)
		}
	})
}

// TestLease_IsWaitedForByRepeatedRevocation revokes a key while another call that
// revokes it is still waiting.
func TestLease_IsWaitedForByRepeatedRevocation(t *testing.T) {
	for name, revoke := range map[string]func(*testing.T, *keys.Service) error{
		"deactivate": func(t *testing.T, s *keys.Service) error {
			return errorOf(s.Update(t.Context(), 1, keys.Fields{Active: new(false)}))
		},
		"delete": func(t *testing.T, s *keys.Service) error {
			if err := s.Delete(t.Context(), 1); !errors.Is(err, keys.ErrNotFound) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
				issued := issueCached(t, s)
				first, second := newService(t, store, nil), newService(t, store, nil)
				var waiting sync.WaitGroup
				defer waiting.Wait()
				waiting.Go(func() { revoke(t, first) })
				synctest.Wait()
				time.Sleep(time.Millisecond)
				is.NoErr(revoke(t, second))
				err := verify(t, s, issued.Raw)
				is.True(errors.Is(err, keys.ErrInactive) || errors.Is(err, keys.ErrUnknown))
			})
		})
	}
}

func TestLease_IsNotRenewedWithoutChecks(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		first, second := issue(t, s, keys.Fields{}), issue(t, s, keys.Fields{})
		settle()
		is.NoErr(verify(t, s, first.Raw))
		is.NoErr(verify(t, s, second.Raw))
		time.Sleep(70 * time.Second)
		questions := store.questions.Load()
		time.Sleep(50 * time.Second)
		is.Equal(store.questions.Load(), questions)

		update(t, other, first.Key.ID, keys.Fields{Active: new(false)})
		time.Sleep(time.Second) // a lease that began meanwhile has ended
		finds := store.finds.Load()
		is.Equal(verify(t, s, first.Raw), keys.ErrInactive) // without a lease
		synctest.Wait()
		for range 10 {
			is.Equal(verify(t, s, first.Raw), keys.ErrInactive)
			is.NoErr(verify(t, s, second.Raw))
		}
		is.Equal(store.finds.Load(), finds+3) // the check has obtained a lease
		questions = store.questions.Load()
		time.Sleep(50 * time.Second)
		is.True(store.questions.Load() >= questions+500)
	})
}

// A lease begins when the result of the store was certain to be current.
func TestLease_BeginsWithAgeOfChanges(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		settle()
		var age atomic.Int64 // of the results
		var fails atomic.Bool
		store.changes.set(func(_ context.Context, next func() (keys.Changes, error)) (keys.Changes, error) {
			if fails.Load() {
				return keys.Changes{}, errors.New("connection refused")
			}
			changes, err := next()
			changes.Age = time.Duration(age.Load())
			return changes, err
		})
		cachedFor := func() time.Duration {
			began := time.Now()
			for uncached := s.Stats().Uncached; s.Stats().Uncached == uncached; time.Sleep(time.Millisecond) {
				is.NoErr(verify(t, s, issued.Raw))
			}
			return time.Since(began)
		}
		for _, old := range []time.Duration{0, 300 * time.Millisecond} {
			age.Store(int64(old))
			fails.Store(false)
			time.Sleep(time.Second)
			fails.Store(true)
			got := cachedFor()
			is.True(got > defaultLease-old-110*time.Millisecond && got <= defaultLease-old+2*time.Millisecond)
		}
		// An older result does not shorten a lease.
		age.Store(0)
		fails.Store(false)
		time.Sleep(time.Second)
		age.Store(int64(450 * time.Millisecond))
		time.Sleep(defaultLease / 5)
		is.True(cachedFor() > defaultLease/2)
		age.Store(int64(defaultLease))
		time.Sleep(time.Second)
		uncached := s.Stats().Uncached
		is.NoErr(verify(t, s, issued.Raw))
		is.Equal(s.Stats().Uncached, uncached+1)
	})
}

func TestRun_LogsOlderStoreOnce(t *testing.T) {
	var log strings.Builder
	options := keys.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	testRunning(t, options, func(_ *testing.T, _ *is.I, store *hookedStore, _ *keys.Service) {
		for _, epoch := range []int64{1<<63 - 2, 1<<63 - 1, 10, 11} {
			store.changes.after(func(changes *keys.Changes) { *changes = keys.Changes{Epoch: epoch} })
			time.Sleep(time.Second)
		}
	})
	is := is.New(t)
	is.Equal(strings.Count(log.String(), "key store is older than before"), 1)
}

func TestRun_LogsTransitionsOfStoreOnce(t *testing.T) {
	var log strings.Builder
	var service *keys.Service
	options := keys.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	testRunning(t, options, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		service = s
		for range 3 {
			store.changes.fail(errors.New("connection refused"))
			time.Sleep(9 * time.Second)
			store.changes.set(nil)
			time.Sleep(9 * time.Second)
		}
	})
	is := is.New(t)
	is.Equal(strings.Count(log.String(), "key store unavailable, cache disabled"), 3)
	is.Equal(strings.Count(log.String(), "key store available, cache enabled"), 3)
	is.True(service.Stats().LeaseAge < 0) // no lease outlives Run
}
