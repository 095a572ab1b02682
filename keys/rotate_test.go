package keys_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
)

func TestRotate_PreviousRawKeyIsValidForOverlap(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		issued := issue(t, s, keys.Fields{ExpiresAt: new(time.Now().Add(time.Hour))})
		settle()
		is.NoErr(verify(t, s, issued.Raw)) // cached
		start := time.Now()
		rotated := rotate(t, other, issued.Key.ID, time.Minute)
		is.Equal(time.Since(start), time.Duration(0)) // no raw key ended, so nothing to wait for
		is.Equal(rotated.Key.PreviousExpiresAt, start.Add(time.Minute).UTC().Truncate(time.Millisecond))
		is.Equal(rotated.Key.PreviousDigest, issued.Key.Digest)
		for _, service := range []*keys.Service{s, other} {
			for range 2 {
				previous := must(service.Verify(t.Context(), string(issued.Raw)))(t)
				is.Equal(previous.ID, rotated.Key.ID)
				is.Equal(previous.Digest, issued.Key.Digest) // that of the given raw key
				is.NoErr(verify(t, service, rotated.Raw))
			}
		}
		is.Equal(get(t, s, issued.Key.ID).UseCount, int64(5)) // of both raw keys in this process

		time.Sleep(time.Until(start.Add(time.Minute - time.Millisecond)))
		is.NoErr(verify(t, s, issued.Raw))
		must(s.VerifyDigest(t.Context(), issued.Key.Digest))(t)
		time.Sleep(time.Millisecond)
		is.Equal(verify(t, s, issued.Raw), keys.ErrUnknown)
		is.Equal(verify(t, other, issued.Raw), keys.ErrUnknown)
		rejected, err := s.VerifyDigest(t.Context(), issued.Key.Digest)
		is.Equal(err, keys.ErrUnknown)
		is.Equal(rejected.ID, issued.Key.ID)
		is.NoErr(verify(t, s, rotated.Raw))
		key := get(t, s, issued.Key.ID)
		is.True(key.PreviousExpiresAt.IsZero())
		is.Equal(key.PreviousDigest, keys.Digest{})
		is.Equal(key.PreviousPublicKey, keys.PublicKey{})
	})
}

// A driver or a writer to the database may store a previous digest without an end.
func TestVerify_PreviousKeyWithoutEndIsUnknown(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		first := issue(t, s, keys.Fields{})
		second := rotate(t, s, first.Key.ID, time.Hour)
		alter := func(key *keys.Key) { key.PreviousExpiresAt = time.Time{} }
		store.find.after(func(key *keys.Key) { alter(key) })
		is.Equal(verify(t, s, first.Raw), keys.ErrUnknown)
		is.Equal(errorOf(s.VerifyDigest(t.Context(), first.Key.Digest)), keys.ErrUnknown)
		is.NoErr(verify(t, s, second.Raw))

		time.Sleep(time.Minute)                                            // both entries end
		alter = func(key *keys.Key) { key.PreviousDigest = keys.Digest{} } // not that of the raw key
		is.Equal(verify(t, s, first.Raw), keys.ErrUnknown)
		is.NoErr(verify(t, s, second.Raw))
	})
}

func TestRotate_BothRawKeysEndWithRecord(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		first := issue(t, s, keys.Fields{})
		id := first.Key.ID
		second := rotate(t, other, id, time.Hour)
		want := func(want error) {
			t.Helper()
			for range 2 {
				is.Equal(verify(t, s, first.Raw), want)
				is.Equal(verify(t, s, second.Raw), want)
			}
		}
		settle()
		want(nil)
		update(t, other, id, keys.Fields{Active: new(false)})
		want(keys.ErrInactive)
		update(t, other, id, keys.Fields{Active: new(true)})
		settle()
		want(nil)
		update(t, other, id, keys.Fields{ExpiresAt: new(time.Now().Add(time.Minute))})
		want(nil)
		time.Sleep(time.Minute) // the overlap does not extend the expiry
		want(keys.ErrExpired)
		update(t, other, id, keys.Fields{ExpiresAt: new(time.Time{})})
		settle()
		want(nil)
		is.NoErr(other.Delete(t.Context(), id))
		want(keys.ErrUnknown)
	})
}

func TestRotate_AnotherRotationEndsOverlap(t *testing.T) {
	testRunning(t, keys.Options{}, func(t *testing.T, is *is.I, store *hookedStore, s *keys.Service) {
		other := newService(t, store, nil)
		first := issue(t, s, keys.Fields{})
		second := rotate(t, other, 1, time.Hour)
		settle()
		is.NoErr(verify(t, s, first.Raw))
		third := rotate(t, other, 1, time.Hour)
		is.Equal(verify(t, s, first.Raw), keys.ErrUnknown)
		is.NoErr(verify(t, s, second.Raw))
		is.NoErr(verify(t, s, third.Raw))
		fourth := rotate(t, other, 1, 0)
		is.Equal(verify(t, s, second.Raw), keys.ErrUnknown)
		is.Equal(verify(t, s, third.Raw), keys.ErrUnknown)
		is.NoErr(verify(t, s, fourth.Raw))

		// Two at most, also if rotations race.
		raws := make([]keys.RawKey, 8)
		var group sync.WaitGroup
		for i := range raws {
			group.Go(func() {
				issued, err := s.Rotate(t.Context(), 1, time.Hour)
				if err == nil {
					raws[i] = issued.Raw
				}
			})
		}
		group.Wait()
		valid := 0
		for _, raw := range raws {
			if verify(t, s, raw) == nil {
				valid++
			}
		}
		is.Equal(valid, 2)
	})
}

func TestRotate_RejectsInvalidOverlap(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Keys(), nil)
	issue(t, s, keys.Fields{})
	for _, overlap := range []time.Duration{-1, 7*24*time.Hour + 1} {
		is.True(errors.Is(errorOf(s.Rotate(t.Context(), 1, overlap)), keys.ErrInvalid))
	}
	rotate(t, s, 1, 7*24*time.Hour)
}

func TestVerify_EndedOverlapStaysEndedIfClockIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		now := testTime
		store := memory.New().Keys()
		s := newService(t, store, &keys.Options{Now: func() time.Time { return now }})
		first := issue(t, s, keys.Fields{})
		second := rotate(t, s, 1, time.Hour)
		now = testTime.Add(time.Hour)
		is.Equal(verify(t, s, first.Raw), keys.ErrUnknown)
		now = testTime
		is.Equal(verify(t, s, first.Raw), keys.ErrUnknown)
		is.NoErr(verify(t, s, second.Raw))
	})
}
