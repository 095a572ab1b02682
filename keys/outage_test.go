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

// slowStore is a store without changes, whose reads take a second and may panic.
type slowStore struct {
	keys.Store
	panics bool
}

func (s slowStore) Changes(context.Context, int64) (keys.Changes, error) {
	return keys.Changes{}, errors.New("down")
}

func (s slowStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return keys.Key{}, ctx.Err()
	}
	if s.panics {
		panic("a bug")
	}
	return s.Store.Find(ctx, digest)
}

// TestVerify_SharedReadsFail has callers that wait for the read of another.
func TestVerify_SharedReadsFail(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			is := is.New(t)
			service, err := keys.NewService(slowStore{memory.New().Keys(), panics}, nil)
			is.NoErr(err)
			issued, err := service.Create(t.Context(), keys.Fields{})
			is.NoErr(err)
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
					_, err := service.Verify(ctx, string(issued.Raw))
					is.True(errors.Is(err, keys.ErrUnavailable))
				})
			}
			running.Wait()
			is.Equal(service.Stats().Rejected, uint64(0))
		})
	}
}
