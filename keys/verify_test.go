package keys_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// hookedStore is a store in memory that other processes seem to share, and
// whose answers a test can hold up or fail.
type hookedStore struct {
	keys.Store
	alone         bool // no other process shares it
	finds, epochs atomic.Int64

	mu    sync.Mutex
	find  func(next func() (keys.Key, error)) (keys.Key, error)
	epoch func(ctx context.Context, next func() (int64, error)) (int64, error)
}

func newHookedStore() *hookedStore { return &hookedStore{Store: memory.New().Keys()} }

func (s *hookedStore) Shared() bool { return !s.alone }

func (s *hookedStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	s.finds.Add(1)
	s.mu.Lock()
	hook := s.find
	s.mu.Unlock()
	next := func() (keys.Key, error) { return s.Store.Find(ctx, digest) }
	if hook != nil {
		return hook(next)
	}
	return next()
}

func (s *hookedStore) Epoch(ctx context.Context) (int64, error) {
	s.epochs.Add(1)
	s.mu.Lock()
	hook := s.epoch
	s.mu.Unlock()
	next := func() (int64, error) { return s.Store.Epoch(ctx) }
	if hook != nil {
		return hook(ctx, next)
	}
	return next()
}

// hook sets what is done around finding.
func (s *hookedStore) onFind(f func(next func() (keys.Key, error)) (keys.Key, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find = f
}

func (s *hookedStore) onEpoch(f func(ctx context.Context, next func() (int64, error)) (int64, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = f
}

// bubble runs a test on a fake clock, with a Service that runs until its end.
func bubble(t *testing.T, test func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newHookedStore()
		s := newService(t, store, &keys.Options{Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		defer running.Wait()
		defer cancel()
		synctest.Wait()
		test(t, is.New(t), store, s)
	})
}

func TestVerify_answersFromMemory(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		for i := range 100 {
			key, err := s.Verify(t.Context(), string(issued.Raw))
			is.NoErr(err)
			is.Equal(key.ID, int64(1))
			is.Equal(key.LastUsedAt, time.Now().UTC().Truncate(time.Millisecond))
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
		is.Equal(store.finds.Load(), int64(1)) // one read for all
		stats := s.Stats()
		is.Equal(stats.Hits, uint64(99))
		is.Equal(stats.Misses, uint64(1))
		is.True(stats.EpochAge >= 0 && stats.EpochAge <= defaultLease)
	})
}

func TestVerify_withoutRunAlwaysReads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newHookedStore()
	s := newService(t, store, nil)
	issued := issue(t, s, keys.Fields{})
	for range 10 {
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)
	}
	is.Equal(store.finds.Load(), int64(10))
	is.Equal(s.Stats().Uncached, uint64(10))
	is.True(s.Stats().EpochAge < 0)
}

// TestVerify_slowFillDoesNotBringBackADeadKey holds a read that has seen the
// key alive until the key is dead.
func TestVerify_slowFillDoesNotBringBackADeadKey(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		// The revocation comes from another process.
		other := newService(t, store, nil)
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()

		held, release := make(chan error, 1), make(chan struct{})
		released := sync.OnceFunc(func() { close(release) })
		defer released()
		store.onFind(func(next func() (keys.Key, error)) (keys.Key, error) {
			key, err := next()
			<-release
			return key, err
		})
		go func() { _, err := s.Verify(t.Context(), string(issued.Raw)); held <- err }()
		synctest.Wait()
		_, err := other.Update(t.Context(), 1, keys.Fields{Active: new(false)})
		is.NoErr(err)
		store.onFind(nil)

		_, err = s.Verify(t.Context(), string(issued.Raw))
		is.Equal(err, keys.ErrInactive) // while the read is held: it is not joined
		released()
		is.NoErr(<-held) // this check began while the key was alive
		_, err = s.Verify(t.Context(), string(issued.Raw))
		is.Equal(err, keys.ErrInactive) // after it has come back: it is not kept
	})
}

// TestVerify_slowEpochDoesNotProlongTheLease holds an answer that was true
// before a revocation until after it.
func TestVerify_slowEpochDoesNotProlongTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)
		store.onEpoch(func(_ context.Context, next func() (int64, error)) (int64, error) {
			epoch, err := next()
			time.Sleep(defaultLease - time.Millisecond) // just in time
			return epoch, err
		})
		time.Sleep(defaultLease / 2)
		_, err = other.Rotate(t.Context(), 1)
		is.NoErr(err)
		_, err = s.Verify(t.Context(), string(issued.Raw))
		is.Equal(err, keys.ErrUnknown)
	})
}

func TestVerify_lostEpochEndsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)
		store.onEpoch(func(ctx context.Context, _ func() (int64, error)) (int64, error) {
			<-ctx.Done() // as if the connection were frozen
			return 0, ctx.Err()
		})
		synctest.Wait()
		start := time.Now()
		is.NoErr(other.Delete(t.Context(), 1))
		is.True(time.Since(start) >= defaultLease) // others may hold a lease
		_, err = s.Verify(t.Context(), string(issued.Raw))
		is.Equal(err, keys.ErrUnknown)

		store.onEpoch(nil)
		issued = issue(t, other, keys.Fields{})
		time.Sleep(defaultLease)
		before := store.finds.Load()
		for range 10 {
			_, err = s.Verify(t.Context(), string(issued.Raw))
			is.NoErr(err)
		}
		is.Equal(store.finds.Load(), before+1) // the lease is back
	})
}

func TestVerify_ownChangesCountAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		verify := func() error { _, err := s.Verify(t.Context(), string(issued.Raw)); return err }
		synctest.Wait()
		is.NoErr(verify())
		for _, c := range []struct {
			fields keys.Fields
			want   error
			waits  bool
		}{
			{keys.Fields{Active: new(false)}, keys.ErrInactive, true},
			{keys.Fields{Active: new(false)}, keys.ErrInactive, true}, // others may not know yet
			{keys.Fields{Active: new(true)}, nil, false},
			{keys.Fields{ExpiresAt: new(time.Now().Add(time.Hour))}, nil, true},
			{keys.Fields{ExpiresAt: new(time.Now().Add(2 * time.Hour))}, nil, true},
			{keys.Fields{ExpiresAt: new(time.Now().Add(-time.Hour))}, keys.ErrExpired, true},
			{keys.Fields{ExpiresAt: new(time.Time{})}, nil, false},
			{keys.Fields{Name: new("other")}, nil, false},
		} {
			start := time.Now()
			_, err := s.Update(t.Context(), 1, c.fields)
			is.NoErr(err)
			is.Equal(time.Since(start) >= defaultLease, c.waits) // what revokes waits, nothing else
			is.Equal(verify(), c.want)
			synctest.Wait()
			is.Equal(verify(), c.want)
		}
	})
}

// TestVerify_answerFromBeforeAnOwnChangeDoesNotCount holds an answer about the
// epoch until after a change that nobody waits for.
func TestVerify_answerFromBeforeAnOwnChangeDoesNotCount(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		store.alone = true
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)
		store.onEpoch(func(_ context.Context, next func() (int64, error)) (int64, error) {
			epoch, err := next()
			time.Sleep(10 * time.Millisecond)
			return epoch, err
		})
		time.Sleep(defaultLease / 5) // a beat has begun
		synctest.Wait()
		_, err = s.Update(t.Context(), 1, keys.Fields{Active: new(false)})
		is.NoErr(err)
		for range 20 {
			_, err = s.Verify(t.Context(), string(issued.Raw))
			is.Equal(err, keys.ErrInactive)
			time.Sleep(time.Millisecond)
		}
	})
}

// TestVerify_revokingAgainWaitsToo: that nothing is left to change does not
// mean that everybody knows.
func TestVerify_revokingAgainWaitsToo(t *testing.T) {
	for name, revoke := range map[string]func(*testing.T, *keys.Service) error{
		"deactivate": func(t *testing.T, s *keys.Service) error {
			_, err := s.Update(t.Context(), 1, keys.Fields{Active: new(false)})
			return err
		},
		"delete": func(t *testing.T, s *keys.Service) error {
			if err := s.Delete(t.Context(), 1); !errors.Is(err, keys.ErrNotFound) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
				issued := issue(t, s, keys.Fields{})
				synctest.Wait()
				_, err := s.Verify(t.Context(), string(issued.Raw))
				is.NoErr(err)
				first, second := newService(t, store, nil), newService(t, store, nil)
				var waiting sync.WaitGroup
				waiting.Go(func() { revoke(t, first) })
				synctest.Wait()
				time.Sleep(time.Millisecond)
				is.NoErr(revoke(t, second))
				_, err = s.Verify(t.Context(), string(issued.Raw))
				is.True(errors.Is(err, keys.ErrInactive) || errors.Is(err, keys.ErrUnknown))
				waiting.Wait()
			})
		})
	}
}

func TestVerify_othersChangesCountWithinABeat(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		issued := issue(t, other, keys.Fields{Active: new(false)})
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.Equal(err, keys.ErrInactive)
		_, err = other.Update(t.Context(), 1, keys.Fields{Active: new(true)})
		is.NoErr(err)
		time.Sleep(defaultLease / 5)
		synctest.Wait()
		_, err = s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)
	})
}

func TestVerify_expiryIsLookedAtOnEveryUse(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{ExpiresAt: new(time.Now().Add(time.Minute))})
		synctest.Wait()
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)
		time.Sleep(time.Minute)
		_, err = s.Verify(t.Context(), string(issued.Raw))
		is.Equal(err, keys.ErrExpired)
		is.Equal(store.finds.Load(), int64(1)) // known from memory
	})
}

func TestVerify_concurrentMissesReadOnce(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		store.onFind(func(next func() (keys.Key, error)) (keys.Key, error) {
			time.Sleep(20 * time.Millisecond)
			return next()
		})
		leaving, leave := context.WithCancel(t.Context())
		first := make(chan error)
		go func() { _, err := s.Verify(leaving, string(issued.Raw)); first <- err }()
		synctest.Wait()
		leave() // the first caller gives up; nobody else may notice
		is.True(errors.Is(<-first, keys.ErrUnavailable))

		var good atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if _, err := s.Verify(t.Context(), string(issued.Raw)); err == nil {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		is.Equal(good.Load(), int64(1000))
		is.Equal(store.finds.Load(), int64(1))
	})
}

func TestVerify_unknownKeysAreReadOnceAndPushNothingOut(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		stranger := newService(t, memory.New().Keys(), nil)
		synctest.Wait()
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)

		unknown := string(issue(t, stranger, keys.Fields{}).Raw)
		for range 10 {
			_, err := s.Verify(t.Context(), unknown)
			is.Equal(err, keys.ErrUnknown)
		}
		is.Equal(store.finds.Load(), int64(2))
		for range 20_000 {
			_, err := s.Verify(t.Context(), string(issue(t, stranger, keys.Fields{}).Raw))
			is.Equal(err, keys.ErrUnknown)
		}
		before := store.finds.Load()
		_, err = s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)
		is.Equal(store.finds.Load(), before) // still in memory
		is.Equal(s.Stats().Unknown, uint64(20_010))
	})
}

func TestVerify_moreKeysThanFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := newService(t, newHookedStore(), &keys.Options{CacheSize: 256})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		var raws []string
		for range 2000 {
			raws = append(raws, string(issue(t, s, keys.Fields{}).Raw))
		}
		synctest.Wait()
		for range 3 {
			for i, raw := range raws {
				key, err := s.Verify(t.Context(), raw)
				is.NoErr(err)
				is.Equal(key.ID, int64(i+1)) // the right one
			}
		}
		cancel()
		is.NoErr(<-done)
	})
}

func TestVerify_storeThatFailsIsNoRefusal(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		down := errors.New("no connection")
		store.onFind(func(func() (keys.Key, error)) (keys.Key, error) { return keys.Key{}, down })
		for range 3 {
			_, err := s.Verify(t.Context(), string(issued.Raw))
			is.True(errors.Is(err, keys.ErrUnavailable) && errors.Is(err, down))
		}
		store.onFind(nil)
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err) // a failure is not kept
		is.Equal(s.Stats().Unavailable, uint64(3))
	})
}

func TestVerify_storeThatPanicsFailsTheCheckAlone(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		store.onFind(func(func() (keys.Key, error)) (keys.Key, error) { panic("a bug") })
		_, err := s.Verify(t.Context(), string(issued.Raw))
		is.True(errors.Is(err, keys.ErrUnavailable))
		store.onFind(nil)
		_, err = s.Verify(t.Context(), string(issued.Raw))
		is.NoErr(err)
	})
}

func TestRun_logsEachChangeOfStateOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var log strings.Builder
		store := newHookedStore()
		s := newService(t, store, &keys.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		for range 3 {
			store.onEpoch(func(context.Context, func() (int64, error)) (int64, error) { return 0, fmt.Errorf("down") })
			time.Sleep(time.Minute)
			store.onEpoch(nil)
			time.Sleep(time.Minute)
		}
		cancel()
		is.NoErr(<-done)
		is.Equal(strings.Count(log.String(), "key store unavailable, cache disabled"), 3)
		is.Equal(strings.Count(log.String(), "key store available, cache enabled"), 3)
		is.True(s.Stats().EpochAge < 0) // no lease outlives Run
	})
}
