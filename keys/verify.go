package keys

import (
	"cmp"
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
		return Key{}, err
	}
	key = e.key
	key.LastUsedAt = s.recordUse(e, raw, now)
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
		return e.key, err
	}
	switch err := permit(&e.key); {
	case err == SkipUse:
		return e.key, nil
	case err != nil:
		s.stats.rejected.Add(1)
		return e.key, err
	}
	key = e.key
	key.LastUsedAt = s.recordUse(e, raw, now)
	return key, nil
}

// VerifyDigest is [Service.Verify] for something that was issued to a raw key,
// such as a download link, and ends with it. The digest is that of the key that
// Verify returned. VerifyDigest records no use. With an error it returns the
// rejected key like VerifyFunc.
func (s *Service) VerifyDigest(ctx context.Context, digest Digest) (Key, error) {
	now := time.Now()
	e, err := s.find(ctx, digest, s.leases.use(now), now)
	e, _, err = s.decide(e, err, now)
	return e.key, err
}

// recordUse records a use at the given time, and returns what LastUsedAt is then.
func (s *Service) recordUse(e *entry, raw string, now time.Time) time.Time {
	if e.key.PublicKey == (PublicKey{}) && e.key.Token == nil {
		if p := e.use.public.Load(); p == nil || p.digest != e.digest { // the other one waits for its next use
			e.use.public.Store(&publicKeyOf{e.digest, s.publicKey(raw, e.digest)})
		}
	}
	at := max(now.UnixMilli(), e.use.id.created) // a store ignores earlier ones, as of a slow clock
	e.use.record(at)
	return time.UnixMilli(at).UTC()
}

// check returns the entry of a valid key and the time of the check. With an error it
// returns the entry of the rejected key, or an empty one.
func (s *Service) check(ctx context.Context, raw string) (e *entry, now time.Time, err error) {
	now = time.Now()
	leased := s.leases.use(now)
	if len(raw) > maxRaw && strings.HasPrefix(raw, s.tokenPrefix) {
		e, err = s.findToken(ctx, raw, leased, now)
	} else {
		e, err = s.findRaw(ctx, raw, leased, now)
	}
	return s.decide(e, err, now)
}

// decide is the last step of a check, for which find has returned e and err.
func (s *Service) decide(e *entry, err error, now time.Time) (*entry, time.Time, error) {
	if s.options.Now != nil {
		now = s.options.Now()
	}
	if err == nil {
		err = e.usable(now)
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrUnavailable):
		s.stats.unavailable.Add(1)
	default:
		s.stats.rejected.Add(1)
	}
	return cmp.Or(e, &noEntry), now, err
}

var noEntry entry

// findRaw returns the entry of a raw key. Its digest may be that of a previous pepper.
func (s *Service) findRaw(ctx context.Context, raw string, leased bool, now time.Time) (e *entry, err error) {
	if len(raw) > maxRaw && !s.foreign(raw) {
		return nil, ErrMalformed
	}
	for _, d := range s.digesters {
		if !leased {
			break
		}
		digest := d.digest(raw)
		if e := s.cache.keys.get(&digest, now); e != nil && e.wasGiven.Load() {
			s.stats.hits.Add(1)
			return e, nil
		}
	}
	if !wellFormed(raw) && !s.foreign(raw) {
		return nil, ErrMalformed
	}
	for _, d := range s.digesters {
		if e, err = s.find(ctx, d.digest(raw), leased, now); err != ErrUnknown {
			break
		}
	}
	if err == nil {
		e.wasGiven.Store(true)
	}
	return e, err
}

// find returns the entry of a digest. Without a lease it bypasses the cache.
func (s *Service) find(ctx context.Context, digest Digest, leased bool, now time.Time) (*entry, error) {
	if !leased {
		s.stats.uncached.Add(1)
		e, err := s.reads.Get(ctx, digest, s.load)
		if err != nil && err != ErrUnknown && !errors.Is(err, ErrUnavailable) {
			return nil, storeError("find key", err) // of a caller that waited for another
		}
		return e, err
	}
	if e := s.cache.keys.get(&digest, now); e != nil {
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
	result := s.loads.DoChan(key, func() (any, error) {
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

func (s *Service) load(ctx context.Context, digest Digest) (_ *entry, err error) {
	defer recoverToError(&err) // responses are watched in goroutines
	ctx, cancel := context.WithTimeout(ctx, s.options.ReadTimeout)
	defer cancel()
	read := time.Now()
	key, err := s.store.Find(ctx, digest)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, ErrUnknown
	case err != nil:
		return nil, storeError("find key", err)
	}
	if key.Digest != digest {
		if key.PreviousDigest != digest || key.PreviousExpiresAt.IsZero() {
			return nil, ErrUnknown // a previous raw key without an end is not valid
		}
		key.Digest, key.PublicKey = digest, key.PreviousPublicKey
	}
	return &entry{key: key, use: s.uses.get(key), digest: digest, read: read}, nil
}

// Stats counts what [Service.Verify] and [Service.VerifyDigest] have done since the
// Service was created.
type Stats struct {
	Hits     uint64 // served from the cache
	Misses   uint64 // read from the store, and cached if the key exists
	Uncached uint64 // read from the store because no lease was valid

	Rejected    uint64 // checks that failed, except for an unavailable store
	Unavailable uint64 // checks that failed because of the store

	// LeaseAge is the time since the last successful [Store.Changes] call
	// began. It is negative before the first one and after Run. It grows after a
	// minute without checks.
	LeaseAge time.Duration
}

// Stats returns the counters. It does not read them as one snapshot, so sums
// may be off by concurrent checks.
func (s *Service) Stats() Stats {
	age := time.Duration(-1)
	if last := s.leases.last.Load(); last != nil {
		age = time.Since(last.requested)
	}
	return Stats{
		Hits:        s.stats.hits.Load(),
		Misses:      s.stats.misses.Load(),
		Uncached:    s.stats.uncached.Load(),
		Rejected:    s.stats.rejected.Load(),
		Unavailable: s.stats.unavailable.Load(),
		LeaseAge:    age,
	}
}
