package fresh

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// TestReads_NeverOlderThanCall changes a value continuously, and checks that
// each call gets one that is not older than the call.
func TestReads_NeverOlderThanCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var current, count atomic.Int64
		var reads Reads[int, int64]
		read := func(ctx context.Context, _ int) (int64, error) {
			count.Add(1)
			time.Sleep(5 * time.Millisecond) // request to the store
			value := current.Load()
			time.Sleep(5 * time.Millisecond) // response of the store
			return value, ctx.Err()
		}
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
					current.Add(1)
				}
			}
		}()
		const callers = 1000
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				time.Sleep(time.Duration(i%100) * 700 * time.Microsecond)
				for range 3 {
					before, start := current.Load(), time.Now()
					value, err := reads.Get(t.Context(), 7, read)
					is.NoErr(err)
					if value < before {
						t.Errorf("value %d is older than %d, the current one before the call", value, before)
					}
					is.True(time.Since(start) <= 20*time.Millisecond) // two reads at most
				}
			})
		}
		wg.Wait()
		close(done)
		is.True(count.Load() < 30) // of 3,000 calls
		is.Equal(len(reads.keys), 0)
	})
}

// readTogether calls get in a goroutine for each context, one after the other began to
// wait. It returns the errors, or what get has panicked with.
func readTogether(reads *Reads[int, int64], read func(context.Context, int) (int64, error), contexts ...context.Context) []error {
	errs := make([]error, len(contexts))
	var wg sync.WaitGroup
	for i, ctx := range contexts {
		wg.Go(func() {
			defer func() {
				if reason := recover(); reason != nil {
					errs[i] = reason.(error)
				}
			}()
			_, errs[i] = reads.Get(ctx, 7, read)
		})
		synctest.Wait()
	}
	wg.Wait()
	return errs
}

func TestReads_SharesErrorsAndPanics(t *testing.T) {
	t.Parallel()
	failure := errors.New("no connection, or a bug in a driver")
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			is := is.New(t)
			var reads Reads[int, int64]
			var count atomic.Int64
			errs := readTogether(&reads, func(context.Context, int) (int64, error) {
				count.Add(1)
				time.Sleep(time.Second)
				if panics {
					panic(failure)
				}
				return 0, failure
			}, t.Context(), t.Context(), t.Context(), t.Context())
			shared := failure
			if panics {
				shared = ErrPanic
			}
			is.Equal(errs, []error{failure, failure, shared, shared})
			is.Equal(count.Load(), int64(2)) // the first one, and that of the others
			is.Equal(len(reads.keys), 0)
		})
	}
}

// TestReads_EndedContext ends the contexts of a caller that reads and of one that
// waits. The others get a value.
func TestReads_EndedContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var reads Reads[int, int64]
		var count atomic.Int64
		ended, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		errs := readTogether(&reads, func(ctx context.Context, _ int) (int64, error) {
			count.Add(1)
			select {
			case <-time.After(time.Second):
				return 1, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}, t.Context(), ended, ended, t.Context(), t.Context())
		is.Equal(errs, []error{nil, context.DeadlineExceeded, context.DeadlineExceeded, nil, nil})
		is.Equal(count.Load(), int64(3)) // the second is interrupted
		is.Equal(time.Since(start), 2500*time.Millisecond)
	})
}
