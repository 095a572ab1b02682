package keys_test

import (
	"context"
	"crypto/sha256"
	"path/filepath"
	"testing"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres/pgtest"
)

// running returns a Service under a lease.
func running(tb testing.TB, store keys.Store) *keys.Service {
	tb.Helper()
	s := newService(tb, store, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	tb.Cleanup(func() { cancel(); <-done })
	for s.Stats().EpochAge < 0 {
		time.Sleep(time.Millisecond)
	}
	return s
}

// BenchmarkVerify compares a check that is answered from memory with what it
// cannot do without, the digest of the raw key.
func BenchmarkVerify(b *testing.B) {
	s := running(b, memory.New().Keys())
	issued, err := s.Create(b.Context(), keys.Fields{})
	if err != nil {
		b.Fatal(err)
	}
	raw := string(issued.Raw)
	for s.Stats().EpochAge < 0 { // a creation ends the lease
		time.Sleep(time.Millisecond)
	}
	var floor, check float64
	b.Run("floor=SHA-256", func(b *testing.B) {
		text := []byte(raw)
		for b.Loop() {
			sha256.Sum256(text)
		}
		floor = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	})
	b.Run("cached", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Verify(b.Context(), raw); err != nil {
				b.Fatal(err)
			}
		}
		check = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
		b.ReportMetric(check/floor, "x-floor")
	})
	b.Run("cached,parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := s.Verify(context.Background(), raw); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(check/(float64(b.Elapsed().Nanoseconds())/float64(b.N)), "x-cached")
	})
	b.Run("junk", func(b *testing.B) {
		b.ReportAllocs()
		junk := raw[:len(raw)-1] + "-"
		for b.Loop() {
			s.Verify(b.Context(), junk)
		}
	})
}

// BenchmarkVerify_uncached compares a check that reads the store with that
// read alone.
func BenchmarkVerify_uncached(b *testing.B) {
	for name, open := range map[string]func(testing.TB) keys.Store{
		"memory":   func(testing.TB) keys.Store { return memory.New().Keys() },
		"sqlite":   func(tb testing.TB) keys.Store { return openSQLite(tb, filepath.Join(tb.TempDir(), "keys.db")) },
		"postgres": func(tb testing.TB) keys.Store { return openPostgres(tb, pgtest.Database(tb)) },
	} {
		b.Run(name, func(b *testing.B) {
			store := open(b)
			s := newService(b, store, nil) // it does not run
			issued, err := s.Create(b.Context(), keys.Fields{})
			if err != nil {
				b.Fatal(err)
			}
			// In turn, so that both have the same neighbours.
			var read, check time.Duration
			for b.Loop() {
				start := time.Now()
				_, err := store.Find(b.Context(), issued.Key.Digest)
				middle := time.Now()
				_, err2 := s.Verify(b.Context(), string(issued.Raw))
				read += middle.Sub(start)
				check += time.Since(middle)
				if err != nil || err2 != nil {
					b.Fatal(err, err2)
				}
			}
			b.ReportMetric(float64(check)/float64(read), "x-read")
		})
	}
}

// BenchmarkVerify_lastUse counts the writes that 100,000 checks cost.
func BenchmarkVerify_lastUse(b *testing.B) {
	for b.Loop() {
		store := &countingStore{Store: memory.New().Keys()}
		s := running(b, store)
		issued, err := s.Create(b.Context(), keys.Fields{})
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		for range 100_000 {
			if _, err := s.Verify(b.Context(), string(issued.Raw)); err != nil {
				b.Fatal(err)
			}
		}
		flushes := 1 + int(time.Since(start)/defaultFlushInterval)
		b.ReportMetric(float64(store.touches.Load())/float64(flushes), "writes/flush")
		b.ReportMetric(float64(store.finds.Load()), "reads")
	}
}
