package prefetch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

func TestParallel_ReturnsErrorsInOrder(t *testing.T) {
	is := is.New(t)
	errOdd := errors.New("odd")
	errs := Parallel(testConfig(), make([]string, 50), func(i int) error {
		if i == 7 {
			panic("seven")
		}
		if i%2 == 1 {
			return errOdd
		}
		return nil
	})
	for i, err := range errs {
		switch {
		case i == 7:
			is.True(err != nil && err != errOdd)
		case i%2 == 1:
			is.Equal(err, errOdd)
		default:
			is.NoErr(err)
		}
	}
}

func TestParallel_StopsAfterRepeatedTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var called, active, most atomic.Int64
		errs := Parallel(testConfig(), make([]string, 100), func(int) error {
			called.Add(1)
			most.Store(max(most.Load(), active.Add(1)))
			defer active.Add(-1)
			time.Sleep(20 * time.Second)
			return context.DeadlineExceeded
		})
		is.True(called.Load() < 60)
		is.Equal(most.Load(), int64(16))
		for _, err := range errs {
			is.True(errors.Is(err, context.DeadlineExceeded))
		}
	})
}

// TestParallel_OnlyTimeoutsEndOthers fails slowly many times in a row, and with a timeout
// once.
func TestParallel_OnlyTimeoutsEndOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		errMissing := errors.New("missing")
		for _, err := range Parallel(testConfig(), make([]string, 100), func(int) error {
			time.Sleep(2 * time.Second)
			return errMissing
		}) {
			is.Equal(err, errMissing)
		}
		one := testConfig()
		one.Files = 1
		errs := Parallel(one, make([]string, 3), func(i int) error {
			if i > 0 {
				return nil
			}
			time.Sleep(20 * time.Second)
			return context.DeadlineExceeded
		})
		is.Equal(errs, []error{context.DeadlineExceeded, nil, nil})
	})
}
