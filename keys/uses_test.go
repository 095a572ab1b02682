package keys_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"runtime"
	"slices"
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

// TestUsage_CountsUsesOfTwoDaysOnce writes uses of two days together, two seconds after midnight.
func TestUsage_CountsUsesOfTwoDaysOnce(t *testing.T) {
	ahead := func() time.Time { return time.Now().Add(2 * time.Second) }
	testRunning(t, keys.Options{Now: ahead}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		raw := issue(t, s, keys.Fields{}).Raw
		time.Sleep(24*time.Hour - 3*time.Second)
		is.NoErr(verify(t, s, raw))
		time.Sleep(2 * time.Second)
		is.NoErr(verify(t, s, raw))
		time.Sleep(3 * defaultFlushInterval)
		is.Equal(get(t, store, 1).UseCount, int64(2))
	})
}

var usesFlag = flag.Int("uses", 10_000, "number of keys of BenchmarkUses")

// BenchmarkUses writes a use of each of many keys while another call writes to the
// store. The baseline writes all uses by one call of the store.
func BenchmarkUses(b *testing.B) {
	list := make([]keys.Key, *usesFlag)
	for i := range list {
		list[i] = randomKey()
	}
	for name, open := range openers {
		b.Run(name, func(b *testing.B) {
			store := &touchTimes{Store: open(b)}
			fill(b, store, list)
			page, err := store.List(b.Context(), keys.Filter{}, keys.Range{})
			is.New(b).NoErr(err)
			var (
				uses                keys.Uses
				parts, once         writeTimes
				flushing, baseline  time.Duration
				heapFirst, heapLast int64
			)
			for b.Loop() {
				now := time.Now()
				all := make([]keys.Use, len(page.Keys))
				for i, key := range page.Keys {
					uses.Record(key)
					all[i] = keys.Use{ID: key.ID, CreatedAt: key.CreatedAt, At: now, Count: 1}
				}
				flushing += parts.measure(b, store, func() error { return flush(b, &uses, store) })
				baseline += once.measure(b, store, func() error { return store.Store.Touch(b.Context(), all, now) })
				heapLast = liveHeap()
				if heapFirst == 0 {
					heapFirst = heapLast
				}
			}
			slices.Sort(store.times)
			b.ReportMetric(milliseconds(store.times[len(store.times)/2]), "ms-part")
			b.ReportMetric(milliseconds(store.times[len(store.times)-1]), "ms-longest-part")
			b.ReportMetric(milliseconds(parts.longest), "ms-writer-waits")
			b.ReportMetric(milliseconds(once.longest), "ms-writer-waits-at-once")
			b.ReportMetric(flushing.Seconds()/float64(b.N), "s-flush")
			b.ReportMetric(float64(flushing)/float64(baseline), "x-at-once")
			b.ReportMetric(float64(heapLast-heapFirst)/(1<<20), "MiB-growth")
		})
	}
}

// flush retries, as Run does, if the machine is too busy for the timeout of a part.
func flush(b *testing.B, uses *keys.Uses, store keys.Store) (err error) {
	for range 3 {
		if err = uses.Flush(b.Context(), store); err == nil {
			return nil
		}
		b.Log(err)
	}
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func liveHeap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// touchTimes records how long calls of Touch take.
type touchTimes struct {
	keys.Store
	times []time.Duration
}

func (s *touchTimes) Touch(ctx context.Context, uses []keys.Use, now time.Time) error {
	began := time.Now()
	defer func() { s.times = append(s.times, time.Since(began)) }()
	return s.Store.Touch(ctx, uses, now)
}

// writeTimes has the longest duration of a write.
type writeTimes struct{ longest time.Duration }

// measure changes a key, one time after the other, until f returns. It returns how
// long f takes.
func (w *writeTimes) measure(b *testing.B, store keys.Store, f func() error) time.Duration {
	is := is.New(b)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			if _, err := store.Insert(b.Context(), randomKey()); err != nil {
				stopped <- err
				return
			}
			w.longest = max(w.longest, time.Since(began))
		}
	}()
	began := time.Now()
	is.NoErr(f())
	duration := time.Since(began)
	close(stop)
	is.NoErr(<-stopped)
	return duration
}
