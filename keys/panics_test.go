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

// TestRun_SurvivesStorePanics covers the goroutines of a Service, where the
// application cannot recover.
func TestRun_SurvivesStorePanics(t *testing.T) {
	var log strings.Builder
	options := keys.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	testRunning(t, options, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		issued := issue(t, s, keys.Fields{})
		synctest.Wait()
		is.NoErr(verify(t, s, issued.Raw))

		store.onTouch(func(func() error) error { panic("a bug in Touch") })
		store.onChanges(func(context.Context, func() (keys.Changes, error)) (keys.Changes, error) { panic("a bug in Changes") })
		time.Sleep(time.Minute)
		is.True(s.Stats().LeaseAge >= defaultLease) // the cache is disabled
		is.NoErr(verify(t, s, issued.Raw))
		store.onFind(func(func() (keys.Key, error)) (keys.Key, error) { panic("a bug in Find") })
		store.onChanges(nil)
		settle() // the entry has expired meanwhile
		err := verify(t, s, issued.Raw)
		is.True(errors.Is(err, keys.ErrUnavailable))
		is.True(strings.Contains(err.Error(), "a bug in Find"))
		is.True(strings.Contains(err.Error(), "panics_test.go")) // the stack

		store.onFind(nil)
		store.onTouch(nil)
		is.NoErr(verify(t, s, issued.Raw))
		time.Sleep(defaultFlushInterval)
		synctest.Wait()
		key, err := store.Get(t.Context(), 1)
		is.NoErr(err)
		is.True(time.Since(key.LastUsedAt) < time.Minute) // the use remained pending
		finds := store.finds.Load()
		is.NoErr(verify(t, s, issued.Raw))
		is.Equal(store.finds.Load(), finds) // served from the cache
	})
	is := is.New(t)
	for _, text := range []string{"a bug in Changes", "a bug in Touch", "panics_test.go"} {
		is.True(strings.Contains(log.String(), text))
	}
}
