package keys

import (
	"context"
	"errors"
	"time"
)

// Verify returns the key that raw belongs to and counts a use of it. The
// error is [ErrMalformed], [ErrUnknown], [ErrInactive] or [ErrExpired], or
// matches [ErrUnavailable] when the store could not answer, which says nothing
// about raw.
//
// Its answer is as new as the store's: see the package comment.
func (s *Service) Verify(ctx context.Context, raw string) (Key, error) {
	e, now, err := s.check(ctx, raw)
	if err != nil {
		return Key{}, err
	}
	used := now.UnixMilli()
	e.use.record(used)
	key := e.key
	key.LastUsedAt = time.UnixMilli(used).UTC()
	return key, nil
}

// check returns the entry of a key that may be used, and the time at which it
// may, or the error of Verify.
func (s *Service) check(ctx context.Context, raw string) (*entry, time.Time, error) {
	if len(raw) > maxRaw {
		return nil, time.Time{}, s.refuse(ErrMalformed)
	}
	now := time.Now()
	digest := s.digesters[0].digest(raw)
	under := s.leases.current(now)
	e := s.known.get(&digest, under)
	if e != nil {
		s.counts.hits.add(now)
	} else {
		// Only now does the shape matter: what is in the cache has it.
		if !wellFormed(raw) {
			return nil, now, s.refuse(ErrMalformed)
		}
		var err error
		if e, err = s.look(ctx, raw, digest, under); err != nil {
			s.counts.unavailable.Add(1)
			return nil, now, err
		}
		if !e.known {
			return nil, now, s.refuse(ErrUnknown)
		}
	}
	if s.clock != nil {
		now = s.clock()
	}
	if err := e.key.Usable(now); err != nil {
		return nil, now, s.refuse(err)
	}
	return e, now, nil
}

// refuse counts a refusal.
func (s *Service) refuse(reason error) error {
	switch reason {
	case ErrMalformed:
		s.counts.malformed.Add(1)
	case ErrUnknown:
		s.counts.unknown.Add(1)
	case ErrInactive:
		s.counts.inactive.Add(1)
	case ErrExpired:
		s.counts.expired.Add(1)
	}
	return reason
}

// find reads the store: for the digest under the current pepper, then for
// those under former ones.
func (s *Service) find(ctx context.Context, raw string, digest Digest) (*entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	for i := range s.digesters {
		if i > 0 {
			digest = s.digesters[i].digest(raw)
		}
		key, err := s.store.Find(ctx, digest)
		if err == nil {
			return &entry{key: key, known: true, use: s.uses.get(key.ID)}, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, storeError("find key", err)
		}
	}
	return &entry{}, nil
}
