package keys

import (
	"context"
	"encoding/binary"
	"errors"
	"time"
)

// Verify returns the key that raw belongs to and records its use. The error is
// [ErrMalformed], [ErrUnknown], [ErrInactive] or [ErrExpired], or matches
// [ErrUnavailable] if the store cannot be read.
func (s *Service) Verify(ctx context.Context, raw string) (Key, error) {
	e, now, err := s.check(ctx, raw)
	if err != nil {
		s.stats.countError(err)
		return Key{}, err
	}
	at := now.UnixMilli()
	e.use.record(at)
	key := e.key
	key.LastUsedAt = time.UnixMilli(at).UTC()
	return key, nil
}

// check returns the entry of a usable key and the time of the check.
func (s *Service) check(ctx context.Context, raw string) (*entry, time.Time, error) {
	if len(raw) > maxRaw {
		return nil, time.Time{}, ErrMalformed
	}
	now := time.Now()
	digest := s.digesters[0].digest(raw)
	l := s.leases.current(now)
	e := s.known.get(&digest, l)
	if e != nil {
		s.stats.hits.Add(1)
	} else {
		if !wellFormed(raw) { // cached keys are well-formed
			return nil, now, ErrMalformed
		}
		var err error
		if e, err = s.lookup(ctx, raw, digest, l); err != nil {
			return nil, now, err
		}
		if !e.known {
			return nil, now, ErrUnknown
		}
	}
	if s.clock != nil {
		now = s.clock()
	}
	return e, now, e.key.Usable(now)
}

// lookup returns the entry of a well-formed raw key that is not in s.known. A
// nil lease bypasses the cache.
func (s *Service) lookup(ctx context.Context, raw string, digest Digest, l *lease) (*entry, error) {
	if l == nil {
		s.stats.uncached.Add(1)
		return s.loadFromStore(ctx, raw, digest)
	}
	if e := s.unknown.get(&digest, l); e != nil {
		s.stats.hits.Add(1)
		return e, nil
	}
	s.stats.misses.Add(1)
	return s.loadOnce(ctx, raw, digest, l)
}

// loadOnce reads the store once for all concurrent callers and caches the
// result. Callers share a read only if they hold leases of the same epoch: a
// read that began under an earlier epoch may miss a change.
func (s *Service) loadOnce(ctx context.Context, raw string, digest Digest, l *lease) (*entry, error) {
	key := string(binary.NativeEndian.AppendUint64(digest[:], uint64(l.epoch)))
	result := s.loads.DoChan(key, func() (_ any, err error) {
		defer recoverToError(&err)
		// The read is shared, so it must not be canceled with its first caller.
		e, err := s.loadFromStore(context.WithoutCancel(ctx), raw, digest)
		if err == nil {
			s.cacheResult(e, digest, l)
		}
		return e, err
	})
	select {
	case r := <-result:
		e, _ := r.Val.(*entry)
		return e, r.Err
	case <-ctx.Done():
		return nil, storeError("find key", ctx.Err())
	}
}

// loadFromStore looks up digest, which is raw's digest with the current pepper,
// and then its digests with previous peppers.
func (s *Service) loadFromStore(ctx context.Context, raw string, digest Digest) (*entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	for i := range s.digesters {
		if i > 0 {
			digest = s.digesters[i].digest(raw)
		}
		key, err := s.store.Find(ctx, digest)
		if err == nil {
			return &entry{key: key, known: true, use: s.uses.get(key)}, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, storeError("find key", err)
		}
	}
	return &entry{}, nil
}

// cacheResult caches an entry read under l. Unknown digests have a cache of
// their own, so that a flood of them does not evict known keys.
func (s *Service) cacheResult(e *entry, digest Digest, l *lease) {
	if !s.leases.hasEpoch(l.epoch) {
		return // get would reject the entry
	}
	e.digest, e.epoch = digest, l.epoch
	if e.known {
		s.known.put(e)
	} else {
		s.unknown.put(e)
	}
}
