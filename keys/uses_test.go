package keys_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

func TestRun_WritesUsesInBatches(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		var raws []keys.RawKey
		for range 10 {
			raws = append(raws, issue(t, s, keys.Fields{}).Raw)
		}
		for i := range 10_000 {
			is.NoErr(verify(t, s, raws[i%len(raws)]))
		}
		stored := get(t, store, 1)
		is.True(stored.LastUsedAt.IsZero()) // not written yet
		time.Sleep(defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(1)) // one write for all
		stored = get(t, store, 10)
		is.True(!stored.LastUsedAt.IsZero())
		time.Sleep(10 * defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(1)) // no write without a use
	})
}

func TestRun_RetriesFailedFlush(t *testing.T) {
	var store *hookedStore
	var used time.Time
	var log strings.Builder
	options := keys.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	testRunning(t, options, func(t *testing.T, is *is.I, s *hookedStore, service *keys.Service) {
		store = s
		raw := issue(t, service, keys.Fields{}).Raw
		store.touch.fail(errors.New("connection refused"))
		is.NoErr(verify(t, service, raw))
		used = time.Now().UTC().Truncate(time.Millisecond)
		time.Sleep(3 * defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(3))
		is.Equal(get(t, service, 1).LastUsedAt, used) // pending uses are visible
		store.touch.set(nil)
		time.Sleep(3 * defaultFlushInterval)
		synctest.Wait()
		is.Equal(strings.Count(log.String(), "flush of key uses failed"), 1)
		is.Equal(strings.Count(log.String(), "flush of key uses succeeded"), 1)
		is.NoErr(verify(t, service, raw))
		used = time.Now().UTC().Truncate(time.Millisecond)
	})
	stored := get(t, store, 1)
	is.New(t).Equal(stored.LastUsedAt, used) // written when Run ended
}

// TestRun_StoppedDuringFlushCountsOnce stops Run between a commit and its response.
func TestRun_StoppedDuringFlushCountsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := newHookedStore()
		s := newService(t, store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		is.NoErr(verify(t, s, issue(t, s, keys.Fields{}).Raw))
		store.touch.set(func(ctx context.Context, next func() (struct{}, error)) (none struct{}, err error) {
			next()
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			return none, ctx.Err()
		})
		time.Sleep(defaultFlushInterval + 50*time.Millisecond)
		cancel()
		is.NoErr(<-done)
		is.Equal(get(t, store, 1).UseCount, int64(1))
	})
}

// TestRun_CountsOnceWithoutStandby has a store that commits each write but returns an error, as a
// server does whose standby is lost.
func TestRun_CountsOnceWithoutStandby(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		is.NoErr(verify(t, s, issue(t, s, keys.Fields{}).Raw))
		lost := errors.New("the commit is not confirmed")
		store.changes.fail(lost)
		store.touch.set(func(_ context.Context, next func() (struct{}, error)) (none struct{}, err error) {
			next()
			return none, lost
		})
		time.Sleep(10 * defaultFlushInterval)
		store.changes.set(nil)
		store.touch.set(nil)
		time.Sleep(2 * defaultFlushInterval)
		is.Equal(get(t, store, 1).UseCount, int64(1))
	})
}

// TestDelete_DoesNotWaitForUsesOfOtherKeys deletes a key while the uses of another one cannot
// be written, for example because a transaction has locked its row.
func TestDelete_DoesNotWaitForUsesOfOtherKeys(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		locked, other := issue(t, s, keys.Fields{}), issue(t, s, keys.Fields{})
		store.touch.before(frozen)
		is.NoErr(verify(t, s, locked.Raw))
		time.Sleep(defaultFlushInterval + time.Millisecond) // Run writes the use
		is.NoErr(verify(t, s, other.Raw))
		const storeTimeout = 4 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), storeTimeout)
		defer cancel()
		began := time.Now()
		is.NoErr(s.Delete(ctx, other.Key.ID))
		is.True(time.Since(began) < storeTimeout)
		is.True(errors.Is(verify(t, s, other.Raw), keys.ErrUnknown))
		store.touch.set(nil)
	})
}

// TestUsage_IsKeptForDays uses a key once a day.
func TestUsage_IsKeptForDays(t *testing.T) {
	testRunning(t, keys.Options{UsageDays: 3, FlushInterval: time.Hour}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		raw := issue(t, s, keys.Fields{}).Raw
		for range 6 {
			is.NoErr(verify(t, s, raw))
			time.Sleep(24 * time.Hour)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		usage := must(s.Usage(t.Context(), keys.UsageFilter{Days: 7}))(t)
		var requests []int64
		for _, day := range usage[0].Days {
			requests = append(requests, day.Requests)
		}
		is.Equal(requests, []int64{0, 0, 0, 0, 1, 1, 0}) // today it is not used
	})
}

// TestUsage_IsKeptForDaysAfterTheClockWasAhead sets the clock a year forward, and back.
func TestUsage_IsKeptForDaysAfterTheClockWasAhead(t *testing.T) {
	const day = 24 * time.Hour
	var ahead atomic.Int64
	options := keys.Options{UsageDays: 3, FlushInterval: time.Hour, Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
	testRunning(t, options, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		ahead.Store(int64(365 * day))
		time.Sleep(2 * time.Hour)
		ahead.Store(0)
		is.NoErr(verify(t, s, issue(t, s, keys.Fields{}).Raw))
		time.Sleep(4 * day)
		synctest.Wait()
		usage := must(s.Usage(t.Context(), keys.UsageFilter{Days: 7}))(t)
		for _, day := range usage[0].Days {
			is.Equal(day.Requests, int64(0))
		}
	})
}

// TestUsage_CountsUsesBeforeAChange uses keys immediately before they are deleted or get
// another owner.
func TestUsage_CountsUsesBeforeAChange(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		requests := func(owner string) int64 {
			usage := must(s.Usage(t.Context(), keys.UsageFilter{Owner: &owner, Days: 1}))(t)
			return usage[0].Days[0].Requests
		}
		deleted, moved := issue(t, s, keys.Fields{Owner: new("a")}), issue(t, s, keys.Fields{Owner: new("b")})
		is.NoErr(verify(t, s, deleted.Raw))
		is.NoErr(verify(t, s, moved.Raw))
		is.NoErr(s.Delete(t.Context(), deleted.Key.ID))
		is.Equal(requests("a"), int64(1))
		update(t, s, moved.Key.ID, keys.Fields{Owner: new("c")})
		is.Equal(requests("b"), int64(1))

		is.NoErr(verify(t, s, moved.Raw))
		time.Sleep(defaultFlushInterval)
		synctest.Wait()
		is.Equal(requests("b"), int64(1))
		is.Equal(requests("c"), int64(1))

		is.NoErr(verify(t, s, moved.Raw))
		store.touch.fail(errors.New("connection refused"))
		is.NoErr(s.Delete(t.Context(), moved.Key.ID)) // nevertheless
	})
}
