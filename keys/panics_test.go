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

// buggyStore panics where a hookedStore has no hook.
type buggyStore struct {
	*hookedStore
	broken bool
}

func (s *buggyStore) Touch(ctx context.Context, uses []keys.Use) error {
	if s.broken {
		panic("a bug in Touch")
	}
	return s.Store.Touch(ctx, uses)
}

// buggyLog is a log handler that panics.
type buggyLog struct{}

func (buggyLog) Enabled(context.Context, slog.Level) bool  { return true }
func (buggyLog) Handle(context.Context, slog.Record) error { panic("a bug in the log") }
func (l buggyLog) WithAttrs([]slog.Attr) slog.Handler      { return l }
func (l buggyLog) WithGroup(string) slog.Handler           { return l }

// TestRun_outlivesPanics is about goroutines that a host has not started, so
// that no recover of its own could keep the process alive.
func TestRun_outlivesPanics(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for name, log := range map[string]slog.Handler{"of the store": slog.NewTextHandler(&text, nil), "of the log too": buggyLog{}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				store := &buggyStore{hookedStore: newHookedStore()}
				store.alone = true
				s := newService(t, store, &keys.Options{Logger: slog.New(log)})
				issued := issue(t, s, keys.Fields{})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- s.Run(ctx) }()
				verify := func() error { _, err := s.Verify(t.Context(), string(issued.Raw)); return err }
				synctest.Wait()
				is.NoErr(verify())

				store.broken = true
				store.onEpoch(func(context.Context, func() (int64, error)) (int64, error) { panic("a bug in Epoch") })
				time.Sleep(time.Minute)
				is.True(s.Stats().EpochAge >= defaultLease) // it asks on, and nothing is answered from memory
				is.NoErr(verify())
				store.onFind(func(func() (keys.Key, error)) (keys.Key, error) { panic("a bug in Find") })
				store.onEpoch(nil)
				issue(t, s, keys.Fields{}) // empties the memory
				synctest.Wait()
				err := verify()
				is.True(errors.Is(err, keys.ErrUnavailable))
				is.True(strings.Contains(err.Error(), "a bug in Find")) // the caller has it, with the stack
				is.True(strings.Contains(err.Error(), "panics_test.go"))

				store.onFind(nil)
				store.broken = false
				is.NoErr(verify())
				time.Sleep(defaultFlushInterval)
				synctest.Wait()
				key, err := store.Get(t.Context(), 1)
				is.NoErr(err)
				is.True(time.Since(key.LastUsedAt) < time.Minute) // what could not be written was kept
				reads := store.finds.Load()
				is.NoErr(verify())
				is.Equal(store.finds.Load(), reads) // from memory, as ever
				cancel()
				is.NoErr(<-done)
			})
		})
	}
	for _, bug := range []string{"a bug in Epoch", "a bug in Touch", "panics_test.go"} {
		if !strings.Contains(text.String(), bug) {
			t.Errorf("the log does not have %q", bug)
		}
	}
}
