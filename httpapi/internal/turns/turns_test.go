package turns

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTurns_NoCallAfterFailure has calls that arrive while others fail: no two calls of a
// client run at a time.
func TestTurns_NoCallAfterFailure(t *testing.T) {
	failed := errors.New("failed")
	var turns Turns[int]
	var running, twice atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50_000 {
				turns.Do(context.Background(), 1, func(err error) bool { return err == failed }, func() error {
					if running.Add(1) > 1 {
						twice.Add(1)
					}
					runtime.Gosched()
					running.Add(-1)
					return failed
				})
			}
		})
	}
	all.Wait()
	if n := twice.Load(); n > 0 {
		t.Errorf("%d calls ran beside another one of their client", n)
	}
}
