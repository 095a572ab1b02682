package keys_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// TestVerify_FollowsLifeOfKey uses no cache: Run has not been called.
func TestVerify_FollowsLifeOfKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := testTime
	store := newHookedStore()
	store.unshared = true
	s := newService(t, store, &keys.Options{Now: func() time.Time { return now }})
	issued := issue(t, s, keys.Fields{Name: new("Mine")})

	key := must(s.Verify(t.Context(), string(issued.Raw)))(t)
	is.Equal(key.Name, "Mine")
	is.Equal(key.LastUsedAt, testTime)

	update(t, s, 1, keys.Fields{ExpiresAt: new(testTime.Add(time.Second))})
	is.NoErr(verify(t, s, issued.Raw))
	now = testTime.Add(time.Second)
	is.Equal(verify(t, s, issued.Raw), keys.ErrExpired) // at ExpiresAt exactly
	update(t, s, 1, keys.Fields{Active: new(false)})
	is.Equal(verify(t, s, issued.Raw), keys.ErrInactive)
	update(t, s, 1, keys.Fields{Active: new(true), ExpiresAt: new(time.Time{})})
	is.NoErr(verify(t, s, issued.Raw))

	rotated := rotate(t, s, 1, 0)
	is.Equal(verify(t, s, issued.Raw), keys.ErrUnknown)
	is.NoErr(verify(t, s, rotated.Raw))
	is.NoErr(s.Delete(t.Context(), 1))
	is.Equal(verify(t, s, rotated.Raw), keys.ErrUnknown)
}

func TestVerify_RejectsMalformedWithoutStoreRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newHookedStore()
	s := newService(t, store, nil)
	issued := issue(t, s, keys.Fields{})
	for _, raw := range []string{"", "x", string(issued.Raw) + "x", issued.Key.Mask, issued.Key.Prefix} {
		is.Equal(verify(t, s, keys.RawKey(raw)), keys.ErrMalformed)
	}
	is.Equal(store.finds.Load(), int64(0))
	is.Equal(s.Stats().Rejected, uint64(5))
}

func TestVerify_ReadsStoreWithoutRun(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newHookedStore()
	s := newService(t, store, nil)
	issued := issue(t, s, keys.Fields{})
	for range 10 {
		is.NoErr(verify(t, s, issued.Raw))
	}
	is.Equal(store.finds.Load(), int64(10))
	is.Equal(s.Stats().Uncached, uint64(10))
	is.True(s.Stats().LeaseAge < 0)
}

func TestVerify_ServesFromCache(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		time.Sleep(defaultLease) // until the insertion is applied, which evicts
		for i := range 100 {
			key := must(s.Verify(t.Context(), string(issued.Raw)))(t)
			is.Equal(key.ID, int64(1))
			is.Equal(key.LastUsedAt, time.Now().UTC().Truncate(time.Millisecond))
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
		is.Equal(store.finds.Load(), int64(1))
		stats := s.Stats()
		is.Equal(stats.Hits, uint64(99))
		is.Equal(stats.Misses, uint64(1))
		is.True(stats.LeaseAge >= 0 && stats.LeaseAge <= defaultLease)
	})
}

func TestVerifyDigest_EndsWithRawKey(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		issued := issue(t, s, keys.Fields{})
		settle()
		digest := issued.Key.Digest
		for range 3 {
			is.Equal(must(s.VerifyDigest(t.Context(), digest))(t).ID, issued.Key.ID)
		}
		is.Equal(store.finds.Load(), int64(1))
		key := get(t, s, issued.Key.ID)
		is.Equal(key.UseCount, int64(0))
		is.True(key.LastUsedAt.IsZero())

		for _, active := range []bool{false, true} {
			update(t, other, issued.Key.ID, keys.Fields{Active: &active})
			settle()
			is.Equal(errorOf(s.VerifyDigest(t.Context(), digest)) == nil, active)
		}
		rotated := rotate(t, other, issued.Key.ID, 0)
		is.Equal(errorOf(s.VerifyDigest(t.Context(), digest)), keys.ErrUnknown)
		must(s.VerifyDigest(t.Context(), rotated.Key.Digest))(t)
	})
}

func TestVerify_SharesConcurrentReads(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		store.find.before(func(context.Context) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		go func() { _, err := s.Verify(ctx, string(issued.Raw)); first <- err }()
		synctest.Wait()
		cancel() // must not cancel the read for the other callers
		is.True(errors.Is(<-first, keys.ErrUnavailable))

		var accepted atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if verify(t, s, issued.Raw) == nil {
					accepted.Add(1)
				}
			})
		}
		wg.Wait()
		is.Equal(accepted.Load(), int64(1000))
		is.Equal(store.finds.Load(), int64(1))
	})
}

func TestVerify_UnknownKeysDoNotEvictKnownOnes(t *testing.T) {
	testRunning(t, keys.Options{CacheSize: 64}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		foreign := newService(t, memory.New().Keys(), nil)
		synctest.Wait()
		is.NoErr(verify(t, s, issued.Raw))

		unknown := issue(t, foreign, keys.Fields{}).Raw
		for range 10 {
			is.Equal(verify(t, s, unknown), keys.ErrUnknown)
		}
		is.Equal(store.finds.Load(), int64(11)) // only known ones are cached
		for range 1000 {
			is.Equal(verify(t, s, issue(t, foreign, keys.Fields{}).Raw), keys.ErrUnknown)
		}
		finds := store.finds.Load()
		is.NoErr(verify(t, s, issued.Raw))
		is.Equal(store.finds.Load(), finds) // still cached
		is.Equal(s.Stats().Rejected, uint64(1010))
	})
}

func TestNewService_BoundsTheCache(t *testing.T) {
	t.Parallel()
	must(keys.NewService(memory.New().Keys(), &keys.Options{CacheSize: math.MaxInt}))(t)
}

// TestVerify_LeaseReturnsAfterOutage checks one key as often as 3,000 streams of changes do.
// Without a lease, each check reads the store, and renewals wait for a connection behind them. The
// store has four connections, each of which responds within a millisecond, to callers in order.
func TestVerify_LeaseReturnsAfterOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		const connections, streams = 4, 3000
		pool := make(chan struct{}, connections)
		wait := func(ctx context.Context) error {
			select {
			case <-pool:
				time.Sleep(time.Millisecond)
				pool <- struct{}{}
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		store := newHookedStore()
		store.unshared = true
		store.find.before(wait)
		store.changes.before(wait)
		respond := func() {
			for range connections {
				pool <- struct{}{}
			}
		}
		respond()
		service := newService(t, store, nil)
		issued := issue(t, service, keys.Fields{})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { service.Run(ctx) })
		for range streams {
			running.Go(func() {
				for ctx.Err() == nil {
					service.VerifyFunc(ctx, string(issued.Raw), func(*keys.Key) error { return keys.SkipUse })
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		time.Sleep(2 * time.Second)
		for range connections { // none responds for a second
			<-pool
		}
		time.Sleep(time.Second)
		respond()
		time.Sleep(5 * time.Second)
		is.True(service.Stats().LeaseAge < time.Second)
		stop()
		running.Wait()
	})
}

// TestVerify_SharedReadsFail has callers that wait for the read of another, which takes a second
// and may panic.
func TestVerify_SharedReadsFail(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			is := is.New(t)
			store := newHookedStore()
			store.unshared = true
			store.changes.fail(errors.New("down"))
			store.find.before(func(ctx context.Context) error {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				if panics {
					panic("a bug")
				}
				return nil
			})
			service := newService(t, store, nil)
			issued := issue(t, service, keys.Fields{})
			timeout := 500 * time.Millisecond
			if panics {
				timeout = time.Minute
			}
			var running sync.WaitGroup
			for range 4 {
				running.Go(func() {
					defer func() { recover() }() // of the one that reads
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					is.True(errors.Is(errorOf(service.Verify(ctx, string(issued.Raw))), keys.ErrUnavailable))
				})
			}
			running.Wait()
			is.Equal(service.Stats().Rejected, uint64(0))
		})
	}
}
