package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/keys"
)

func concurrentKeyUpdates(t *testing.T, handles []Storage) {
	const workers = 8
	rounds := iterations(15, 1000)
	key := insertKey(t, handles[0], "key")
	before := epoch(t, handles[0])
	for _, err := range parallel(handles, workers, func(s Storage, _ int) error {
		for range rounds {
			_, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
				appendMark(&key.Name)
				key.Active = !key.Active
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	for _, s := range handles {
		got, err := s.Keys().Get(t.Context(), key.ID)
		must(t, err)
		if want := len(key.Name) + workers*rounds; len(got.Name) != want || got.Active != key.Active {
			t.Errorf("the key is %+v, want %d updates", got, workers*rounds)
		}
		if after := epoch(t, s); after-before < int64(workers*rounds) {
			t.Errorf("the epoch is %d after %d changes, want at least %d", after, workers*rounds, before+int64(workers*rounds))
		}
	}
}

// concurrentKeyDeletes deletes keys while others change them.
func concurrentKeyDeletes(t *testing.T, handles []Storage) {
	for round := range iterations(30, 300) {
		key := insertKey(t, handles[0], strconv.Itoa(round))
		var deleted atomic.Bool
		for _, err := range parallel(handles, 3, func(s Storage, i int) error {
			for i > 0 && !deleted.Load() {
				time.Sleep(rand.N(time.Millisecond)) // or a storage with one writer may not let others in
				if _, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
					appendMark(&key.Name)
					return nil
				}); err != nil && !errors.Is(err, keys.ErrNotFound) {
					return err
				}
			}
			if i > 0 {
				return nil
			}
			defer deleted.Store(true)
			time.Sleep(time.Millisecond)
			var checked keys.Key
			got, err := s.Keys().Delete(t.Context(), []int64{key.ID}, func(list []keys.Key) error {
				checked = list[0]
				return nil
			})
			if err == nil && got[0] != checked {
				err = fmt.Errorf("keys.Delete checks %+v and removes %+v", checked, got[0])
			}
			return err
		}) {
			must(t, err)
		}
	}
}

func concurrentDigestUpdates(t *testing.T, handles []Storage) {
	key := insertKey(t, handles[0], "key")
	for _, err := range parallel(handles, 8, func(s Storage, i int) error {
		for round := range iterations(10, 1000) {
			var previous keys.Digest
			rotated, err := UpdateKey(t.Context(), s.Keys(), key.ID, func(key *keys.Key) error {
				previous = key.Digest
				key.Digest = newKey(fmt.Sprint(i, round)).Digest
				return nil
			})
			if err != nil {
				return err
			}
			if _, err := s.Keys().Find(t.Context(), previous); !errors.Is(err, keys.ErrNotFound) {
				return fmt.Errorf("previous digest after Update: got error %v, want ErrNotFound", err) //nolint:errorlint // err may be nil
			}
			// Another update may have replaced the digest since.
			found, err := s.Keys().Find(t.Context(), rotated.Digest)
			if err != nil && !errors.Is(err, keys.ErrNotFound) {
				return err
			}
			if err == nil && found != rotated {
				return fmt.Errorf("found %+v, want %+v", found, rotated)
			}
		}
		return nil
	}) {
		must(t, err)
	}
}

func concurrentTouches(t *testing.T, handles []Storage) {
	const workers = 8
	rounds := iterations(3, 100)
	var uses []keys.Use
	for i := range 20 {
		uses = append(uses, useOf(insertKey(t, handles[0], strconv.Itoa(i)), testTime))
	}
	now := testTime.Add(time.Hour)
	for _, err := range parallel(handles, workers, func(s Storage, i int) error {
		for round := range rounds {
			batch := slices.Clone(uses)
			for j := range batch {
				batch[j].At = testTime.Add(time.Duration((i+j+round)%workers) * time.Second)
				batch[j].Count, batch[j].Today = int64(j), int64(j)
			}
			if i%2 == 0 {
				slices.Reverse(batch)
			}
			if err := s.Keys().Touch(t.Context(), batch, now); err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	all := listKeys(t, handles[0])
	rows, err := handles[0].Keys().Usage(t.Context(), idsOf(all.Keys), nil, 0)
	must(t, err)
	requests := make(map[int64]int64)
	for _, row := range rows {
		requests[row.KeyID] += row.Requests
	}
	for j, key := range all.Keys {
		wantEqual(t, "the usage of a key is", requests[key.ID], key.UseCount)
		if want := testTime.Add((workers - 1) * time.Second); !key.LastUsedAt.Equal(want) {
			t.Errorf("key %d was last used %v, want %v", key.ID, key.LastUsedAt, want)
		}
		if want := int64(j * workers * rounds); key.UseCount != want {
			t.Errorf("key %d has UseCount %d, want %d", key.ID, key.UseCount, want)
		}
	}
}

// concurrentRotations rotates one key concurrently, with and without a
// deactivation or deletion, and then verifies all raw keys that it has had.
func concurrentRotations(t *testing.T, handles []Storage) {
	ctx := t.Context()
	var services []*keys.Service
	for _, s := range handles {
		service, err := keys.NewService(s.Keys(), &keys.Options{Lease: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		services = append(services, service)
	}
	// verify returns how many raw keys are accepted and inactive. All others
	// must be unknown.
	verify := func(raws []keys.RawKey) (accepted, inactive int) {
		t.Helper()
		for i, raw := range raws {
			_, err := services[i%len(services)].Verify(ctx, string(raw))
			switch {
			case err == nil:
				accepted++
			case errors.Is(err, keys.ErrInactive):
				inactive++
			default:
				wantError(t, err, keys.ErrUnknown)
			}
			if i == 0 && err == nil {
				t.Error("the first raw key of a rotated key is accepted")
			}
		}
		return accepted, inactive
	}
	for range iterations(10, 300) {
		for _, c := range []struct {
			name               string
			call               func(context.Context, *keys.Service, int64) error
			accepted, inactive int
		}{
			{"rotate", nil, 1, 0},
			{"deactivate", func(ctx context.Context, s *keys.Service, id int64) error {
				_, err := s.Update(ctx, id, keys.Fields{Active: new(false)})
				return err
			}, 0, 1},
			{"delete", func(ctx context.Context, s *keys.Service, id int64) error {
				return s.Delete(ctx, id)
			}, 0, 0},
		} {
			issued, err := services[0].Create(ctx, keys.Fields{})
			must(t, err)
			raws := make([]keys.RawKey, 1+4)
			raws[0] = issued.Raw
			errs := parallel(handles, len(raws), func(_ Storage, i int) error {
				service := services[i%len(services)]
				if i == 0 {
					if c.call == nil {
						return nil
					}
					return c.call(ctx, service, issued.Key.ID)
				}
				rotated, err := service.Rotate(ctx, issued.Key.ID, 0)
				raws[i] = rotated.Raw
				return err
			})
			var known []keys.RawKey
			for i, err := range errs {
				if c.name == "delete" && i > 0 && errors.Is(err, keys.ErrNotFound) {
					continue
				}
				must(t, err)
				known = append(known, raws[i])
			}
			if accepted, inactive := verify(known); accepted != c.accepted || inactive != c.inactive {
				t.Errorf("rotations and %s leave %d raw keys accepted and %d inactive, want %d and %d",
					c.name, accepted, inactive, c.accepted, c.inactive)
			}
		}
	}
}
