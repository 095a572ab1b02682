package keys_test

import (
	"context"
	"flag"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

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
