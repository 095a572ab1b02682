package keys_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

// panickingStore is a hookedStore whose Touch may panic.
type panickingStore struct {
	*hookedStore
	touchPanics bool
}

func (s *panickingStore) Touch(ctx context.Context, uses []keys.Use) error {
	if s.touchPanics {
		panic("a bug in Touch")
	}
	return s.Store.Touch(ctx, uses)
}

// TestRun_SurvivesStorePanics covers the goroutines of a Service, where no
// recover of the application could keep the process alive.
func TestRun_SurvivesStorePanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var log strings.Builder
		store := &panickingStore{hookedStore: newHookedStore()}
		store.alone = true
		s := newService(t, store, &keys.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		issued := issue(t, s, keys.Fields{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		verify := func() error { _, err := s.Verify(t.Context(), string(issued.Raw)); return err }
		synctest.Wait()
		is.NoErr(verify())

		store.touchPanics = true
		store.onEpoch(func(context.Context, func() (int64, error)) (int64, error) { panic("a bug in Epoch") })
		time.Sleep(time.Minute)
		is.True(s.Stats().EpochAge >= defaultLease) // the cache is disabled
		is.NoErr(verify())
		store.onFind(func(func() (keys.Key, error)) (keys.Key, error) { panic("a bug in Find") })
		store.onEpoch(nil)
		issue(t, s, keys.Fields{}) // changes the epoch
		synctest.Wait()
		err := verify()
		is.True(errors.Is(err, keys.ErrUnavailable))
		is.True(strings.Contains(err.Error(), "a bug in Find"))  // the caller gets the panic
		is.True(strings.Contains(err.Error(), "panics_test.go")) // and its stack

		store.onFind(nil)
		store.touchPanics = false
		is.NoErr(verify())
		time.Sleep(defaultFlushInterval)
		synctest.Wait()
		key, err := store.Get(t.Context(), 1)
		is.NoErr(err)
		is.True(time.Since(key.LastUsedAt) < time.Minute) // the use remained pending
		reads := store.finds.Load()
		is.NoErr(verify())
		is.Equal(store.finds.Load(), reads) // from the cache
		cancel()
		is.NoErr(<-done)
		for _, text := range []string{"a bug in Epoch", "a bug in Touch", "panics_test.go"} {
			is.True(strings.Contains(log.String(), text))
		}
	})
}
