package keys_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

// pooledStore is a store with a few connections, each of which responds within a millisecond.
// Callers get them in order.
type pooledStore struct {
	keys.Store
	connections chan struct{}
}

func (s pooledStore) wait(ctx context.Context) error {
	select {
	case <-s.connections:
		time.Sleep(time.Millisecond)
		s.connections <- struct{}{}
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (s pooledStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	if err := s.wait(ctx); err != nil {
		return keys.Key{}, err
	}
	return s.Store.Find(ctx, digest)
}

func (s pooledStore) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	if err := s.wait(ctx); err != nil {
		return keys.Changes{}, err
	}
	return s.Store.Changes(ctx, since)
}

// TestVerify_LeaseReturnsAfterOutage checks one key as often as 3,000 streams of changes do.
// Without a lease, each check reads the store, and renewals wait for a connection behind them.
func TestVerify_LeaseReturnsAfterOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		const connections, streams = 4, 3000
		store := pooledStore{memory.New().Keys(), make(chan struct{}, connections)}
		respond := func() {
			for range connections {
				store.connections <- struct{}{}
			}
		}
		respond()
		service, err := keys.NewService(store, nil)
		is.NoErr(err)
		issued, err := service.Create(t.Context(), keys.Fields{})
		is.NoErr(err)
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
			<-store.connections
		}
		time.Sleep(time.Second)
		respond()
		time.Sleep(5 * time.Second)
		is.True(service.Stats().LeaseAge < time.Second)
		stop()
		running.Wait()
	})
}
