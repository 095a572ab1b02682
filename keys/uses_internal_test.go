package keys

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// touchStore records what Touch gets.
type touchStore struct {
	Store
	sizes []int
}

func (*touchStore) Changes(context.Context, int64) (changes Changes, err error) { return changes, nil }

func (s *touchStore) Touch(_ context.Context, uses []Use, _ time.Time) error {
	s.sizes = append(s.sizes, len(uses))
	return nil
}

func TestUses_AreWrittenInPartsAndRemovedWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var (
			store touchStore
			u     = newUses(&store, time.Now, 0)
		)
		const count = 2*flushSize + 500
		for id := range int64(count) {
			u.get(Key{ID: id}).record(time.Now().UnixMilli())
		}
		flush := func() { is.NoErr(u.flush(t.Context(), nil)) }
		flush()
		is.Equal(store.sizes, []int{flushSize, flushSize, 500})
		is.Equal(len(u.byID), count)

		u.get(Key{ID: 1}).expiry.Store(1) // seen expired
		cached := u.get(Key{ID: 2})
		time.Sleep(maxEntryAge)
		cached.record(time.Now().UnixMilli())
		flush()
		time.Sleep(maxEntryAge + time.Second)
		flush()
		is.Equal(store.sizes, []int{flushSize, flushSize, 500, 1})
		is.Equal(len(u.byID), 2)
		is.Equal(u.get(Key{ID: 2}), cached)
		time.Sleep(idleTime + time.Second)
		flush()
		is.Equal(len(u.byID), 1)
		time.Sleep(day)
		flush()
		is.Equal(len(u.byID), 0)
	})
}
