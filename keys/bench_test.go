package keys_test

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// running returns a Service under a lease.
func running(tb testing.TB, store keys.Store) *keys.Service {
	tb.Helper()
	s := keys.NewService(store, nil)
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
