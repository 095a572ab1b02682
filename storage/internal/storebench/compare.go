package storebench

import (
	"testing"
	"time"
)

// Compare reports the speed of calls relative to that of others. It alternates, so
// that other load affects both alike. Each round calls them times times in each of
// some goroutines.
func Compare(b *testing.B, times, goroutines int, call, other func(goroutine, i int) error) {
	round := func(call func(goroutine, i int) error) time.Duration {
		start := time.Now()
		errs := make(chan error, goroutines)
		for g := range goroutines {
			go func() {
				for i := range times {
					if err := call(g, i); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range goroutines {
			if err := <-errs; err != nil {
				b.Error(err)
			}
		}
		return time.Since(start)
	}
	round(call)
	round(other)
	var spent, others time.Duration
	n := 0
	for b.Loop() {
		spent += round(call)
		others += round(other)
		n += times * goroutines
	}
	b.ReportMetric(float64(others)/float64(spent), "x-as-fast")
	b.ReportMetric(float64(spent.Microseconds())/float64(n), "us/call")
}
