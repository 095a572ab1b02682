package keys

import (
	"context"
	"errors"
)

// Verify returns the key that raw belongs to and counts a use of it. The
// error is [ErrMalformed], [ErrUnknown], [ErrInactive] or [ErrExpired], or
// matches [ErrUnavailable] when the store could not answer, which says nothing
// about raw.
func (s *Service) Verify(ctx context.Context, raw string) (Key, error) {
	if !wellFormed(raw) {
		return Key{}, ErrMalformed
	}
	key, err := s.find(ctx, raw)
	if err != nil {
		return Key{}, err
	}
	now := s.now()
	if err := key.Usable(now); err != nil {
		return Key{}, err
	}
	s.uses.note(key.ID, now)
	s.uses.merge(&key)
	return key, nil
}

// find looks raw up under the current pepper, then under the former ones.
func (s *Service) find(ctx context.Context, raw string) (Key, error) {
	for _, pepper := range s.peppers {
		key, err := s.store.Find(ctx, digest(pepper, raw))
		if err == nil {
			return key, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return Key{}, storeError("find key", err)
		}
	}
	return Key{}, ErrUnknown
}
