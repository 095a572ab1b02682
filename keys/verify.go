package keys

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// Verify returns the key that raw, a raw key or page token, belongs to and records its
// use. The error is [ErrMalformed], [ErrUnknown], [ErrTokenExpired], [ErrInactive] or
// [ErrExpired], or matches [ErrUnavailable] if the store cannot be read.
func (s *Service) Verify(ctx context.Context, raw string) (key Key, err error) {
	e, now, err := s.check(ctx, raw)
	if err != nil {
		s.stats.countError(err)
		return Key{}, err
	}
	s.recordUse(e, raw, now, &key)
	return key, nil
}

// VerifyFunc is [Service.Verify] with a further condition, such as a scope. It
// calls permit with a valid key, and returns its error. A key that is not permitted
// is not used. The key is that of the cache: permit must neither change nor keep it.
// If permit returns [SkipUse], the key is returned without a use.
//
// With an error VerifyFunc returns the rejected key, for logs, or zero if raw
// belongs to none.
func (s *Service) VerifyFunc(ctx context.Context, raw string, permit func(*Key) error) (key Key, err error) {
	e, now, err := s.check(ctx, raw)
	if err != nil {
		s.stats.countError(err)
		if e != nil {
			key = e.key
		}
		return key, err
	}
	switch err := permit(&e.key); {
	case err == SkipUse:
		return e.key, nil
	case err != nil:
		s.stats.denied.Add(1)
		return e.key, err
	}
	s.recordUse(e, raw, now, &key)
	return key, nil
}

// recordUse records a use at the given time, and sets key to the used key. Returning
// it would copy it twice.
func (s *Service) recordUse(e *entry, raw string, now time.Time, key *Key) {
	at := now.UnixMilli()
	e.use.record(at)
	if e.unsigned && e.use.public.Load() == nil {
		e.use.public.Store(&publicKeyOf{e.digest, s.publicKey(raw, e.digest)})
	}
	*key = e.key
	key.LastUsedAt = time.UnixMilli(at).UTC()
}

// VerifyDigest is [Service.Verify] for something that was issued to a raw key,
// such as a download link, and ends with it. The digest is that of the key that
// Verify returned. VerifyDigest records no use. With an error it returns the
// rejected key like VerifyFunc.
func (s *Service) VerifyDigest(ctx context.Context, digest Digest) (key Key, err error) {
	now := time.Now()
	e, err := s.find(ctx, digest, s.leases.use(now), now)
	switch {
	case err != nil:
	case !e.known:
		err = ErrUnknown
	default:
		key, err = e.key, e.usable(s.now())
	}
	if err != nil {
		s.stats.countError(err)
	}
	return key, err
}

// check returns the entry of a valid key and the time of the check. With an error it
// returns the entry of the rejected key, or nil.
func (s *Service) check(ctx context.Context, raw string) (*entry, time.Time, error) {
	if len(raw) > maxRaw {
		if strings.HasPrefix(raw, s.tokenPrefix) {
			return s.checkToken(ctx, raw)
		}
		if !s.foreign(raw) {
			return nil, time.Time{}, ErrMalformed
		}
	}
	now := time.Now()
	digest := s.digesters[0].digest(raw)
	leased := s.leases.use(now)
	var e *entry
	if leased {
		e = s.cache.known.get(&digest, now)
	}
	if e != nil {
		s.stats.hits.Add(1)
	} else {
		if !wellFormed(raw) && !s.foreign(raw) { // a cached key is one of both
			return nil, now, ErrMalformed
		}
		var err error
		if e, err = s.lookup(ctx, raw, digest, leased, now); err != nil {
			return nil, now, err
		}
		if !e.known {
			return nil, now, ErrUnknown
		}
	}
	if s.clock != nil {
		now = s.clock()
	}
	return e, now, e.usable(now)
}

// lookup returns the entry of a well-formed raw key. The digest is that of the
// current pepper; those of previous peppers follow.
func (s *Service) lookup(ctx context.Context, raw string, digest Digest, leased bool, now time.Time) (e *entry, err error) {
	for i, d := range s.digesters {
		if i > 0 {
			digest = d.digest(raw)
		}
		if e, err = s.find(ctx, digest, leased, now); err != nil || e.known {
			return e, err
		}
	}
	return e, nil
}

// find returns the entry of a digest. Without a lease it bypasses the cache.
func (s *Service) find(ctx context.Context, digest Digest, leased bool, now time.Time) (*entry, error) {
	if !leased {
		s.stats.uncached.Add(1)
		return s.load(ctx, digest)
	}
	if e := s.cache.get(&digest, now); e != nil {
		s.stats.hits.Add(1)
		return e, nil
	}
	s.stats.misses.Add(1)
	return s.loadOnce(ctx, digest)
}

// loadOnce reads the store once for all concurrent callers and caches the
// result. Callers share a read only if it began under the floor that they see:
// an earlier one may have missed a change.
func (s *Service) loadOnce(ctx context.Context, digest Digest) (*entry, error) {
	floor := s.cache.floor.Load()
	key := string(binary.NativeEndian.AppendUint64(digest[:], floor))
	result := s.loads.DoChan(key, func() (_ any, err error) {
		defer recoverToError(&err)
		// The read is shared, so it must not be canceled with its first caller.
		e, err := s.load(context.WithoutCancel(ctx), digest)
		if err == nil {
			s.cache.put(e, floor)
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

// load reads the store.
func (s *Service) load(ctx context.Context, digest Digest) (*entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	e := &entry{digest: digest, read: time.Now()}
	key, err := s.store.Find(ctx, digest)
	switch {
	case errors.Is(err, ErrNotFound):
		return e, nil
	case err != nil:
		return nil, storeError("find key", err)
	}
	if key.Digest != digest {
		if key.PreviousDigest != digest || key.PreviousExpiresAt.IsZero() {
			return e, nil // a previous raw key without an end is not valid
		}
		key.Digest, key.PublicKey = digest, key.PreviousPublicKey
	}
	e.unsigned = key.PublicKey == PublicKey{}
	e.key, e.known, e.use = key, true, s.uses.get(key)
	return e, nil
}
