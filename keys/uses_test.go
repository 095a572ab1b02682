package keys_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

func TestRun_WritesUsesInBatches(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		var raws []keys.RawKey
		for range 10 {
			raws = append(raws, issue(t, s, keys.Fields{}).Raw)
		}
		for i := range 10_000 {
			is.NoErr(verify(t, s, raws[i%len(raws)]))
		}
		stored, err := store.Get(t.Context(), 1)
		is.NoErr(err)
		is.True(stored.LastUsedAt.IsZero()) // not written yet
		time.Sleep(defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(1)) // one write for all
		stored, err = store.Get(t.Context(), 10)
		is.NoErr(err)
		is.True(!stored.LastUsedAt.IsZero())
		time.Sleep(10 * defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(1)) // no write without a use
	})
}

func TestRun_RetriesFailedFlush(t *testing.T) {
	var store *hookedStore
	var used time.Time
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, s *hookedStore, service *keys.Service) {
		store = s
		raw := issue(t, service, keys.Fields{}).Raw
		store.onTouch(func(func() error) error { return errors.New("connection refused") })
		is.NoErr(verify(t, service, raw))
		used = time.Now().UTC().Truncate(time.Millisecond)
		time.Sleep(3 * defaultFlushInterval)
		synctest.Wait()
		is.Equal(store.touches.Load(), int64(3))
		key, err := service.Get(t.Context(), 1)
		is.NoErr(err)
		is.Equal(key.LastUsedAt, used) // pending uses are visible
		store.onTouch(nil)
	})
	is := is.New(t)
	stored, err := store.Get(t.Context(), 1)
	is.NoErr(err)
	is.Equal(stored.LastUsedAt, used) // written when Run ended
}
