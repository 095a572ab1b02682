package storagetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/canvasback/keys"
)

// raceRotations lets rotations of one key meet each other, a deactivation and
// a deletion, and asks for all raw keys that the key ever had.
func raceRotations(t *testing.T, handles []Storage) {
	ctx := t.Context()
	var services []*keys.Service
	for _, s := range handles {
		service, err := keys.NewService(s.Keys(), &keys.Options{Lease: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		services = append(services, service)
	}
	// check returns how often the raw keys are accepted and found inactive,
	// and reports those that are not refused as they should.
	check := func(raws []keys.RawKey) (accepted, inactive int) {
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
				t.Error("a rotated key still has its first raw key")
			}
		}
		return accepted, inactive
	}
	for range rounds(10, 300) {
		for _, c := range []struct {
			name               string
			meet               func(context.Context, *keys.Service, int64) error
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
			errs := together(handles, len(raws), func(_ Storage, i int) error {
				service := services[i%len(services)]
				if i == 0 {
					if c.meet == nil {
						return nil
					}
					return c.meet(ctx, service, issued.Key.ID)
				}
				rotated, err := service.Rotate(ctx, issued.Key.ID)
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
			if accepted, inactive := check(known); accepted != c.accepted || inactive != c.inactive {
				t.Errorf("rotations that met a call to %s leave %d raw keys accepted and %d inactive, want %d and %d",
					c.name, accepted, inactive, c.accepted, c.inactive)
			}
		}
	}
}
