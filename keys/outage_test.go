package keys_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

// TestVerify_LeaseReturnsAfterOutage checks one key as often as 3,000 streams of changes do.
// Without a lease, each check reads the store, and renewals wait for a connection behind them. The
// store has four connections, each of which responds within a millisecond, to callers in order.
func TestVerify_LeaseReturnsAfterOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		const connections, streams = 4, 3000
		pool := make(chan struct{}, connections)
		wait := func(ctx context.Context) error {
			select {
			case <-pool:
				time.Sleep(time.Millisecond)
				pool <- struct{}{}
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		store := newHookedStore()
		store.unshared = true
		store.find.before(wait)
		store.changes.before(wait)
		respond := func() {
			for range connections {
				pool <- struct{}{}
			}
		}
		respond()
		service := newService(t, store, nil)
		issued := issue(t, service, keys.Fields{})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { service.Run(ctx) })
		for range streams {
			running.Go(func() {
				for ctx.Err() == nil {
					service.VerifyFunc(ctx, string(issued.Raw), func(*keys.Key) error { return keys.SkipUse })
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		time.Sleep(2 * time.Second)
		for range connections { // none responds for a second
			<-pool
		}
		time.Sleep(time.Second)
		respond()
		time.Sleep(5 * time.Second)
		is.True(service.Stats().LeaseAge < time.Second)
		stop()
		running.Wait()
	})
}

// TestVerify_SharedReadsFail has callers that wait for the read of another, which takes a second
// and may panic.
func TestVerify_SharedReadsFail(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			is := is.New(t)
			store := newHookedStore()
			store.unshared = true
			store.changes.fail(errors.New("down"))
			store.find.before(func(ctx context.Context) error {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				if panics {
					panic("a bug")
				}
				return nil
			})
			service := newService(t, store, nil)
			issued := issue(t, service, keys.Fields{})
			timeout := 500 * time.Millisecond
			if panics {
				timeout = time.Minute
			}
			var running sync.WaitGroup
			for range 4 {
				running.Go(func() {
					defer func() { recover() }() // of the one that reads
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					is.True(errors.Is(errorOf(service.Verify(ctx, string(issued.Raw))), keys.ErrUnavailable))
				})
			}
			running.Wait()
			is.Equal(service.Stats().Rejected, uint64(0))
		})
	}
}
