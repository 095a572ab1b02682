package keys

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Condition is what a change of a key depends on, such as an entity tag. It is called
// in the transaction of the change with the key before it; its error prevents the change
// and is returned. It must neither change the key nor call the Service, which would
// wait for the transaction.
type Condition func(key *Key) error

// Update sets the given fields, all or none, and returns the key. UpdatedAt
// changes only if a field does. The error is [ErrNotFound] or that of a condition, or
// matches [ErrInvalid] or [ErrUnavailable].
//
// An update that sets Active to false, an expiry, scopes or the owner is a revoking
// call: see the package comment.
func (s *Service) Update(ctx context.Context, id int64, fields Fields, conditions ...Condition) (Key, error) {
	list, _, err := s.update(ctx, []int64{id}, fields, conditions)
	if err != nil {
		return Key{}, notFound(err)
	}
	return list[0], nil
}

// notFound returns ErrNotFound for the MissingError of a call with one id.
func notFound(err error) error {
	if _, ok := errors.AsType[*MissingError](err); ok { // that of a condition may match ErrNotFound
		return ErrNotFound
	}
	return err
}

// UpdateMany is [Service.Update] of up to 1000 keys in one transaction, all or none: a
// revoking call waits once. It returns how many keys have changed. The error for a
// missing key is a [MissingError].
func (s *Service) UpdateMany(ctx context.Context, ids []int64, fields Fields) (changed int, err error) {
	if err := checkIDs(ids, maxIDs); err != nil {
		return 0, err
	}
	_, changed, err = s.update(ctx, ids, fields, nil)
	return changed, err
}

func (s *Service) update(ctx context.Context, ids []int64, fields Fields, conditions []Condition) ([]Key, int, error) {
	if err := fields.check(); err != nil {
		return nil, 0, err
	}
	if fields.Owner != nil {
		s.countUses(ctx, ids)
	}
	return s.change(ctx, "update keys", ids, checkKeys(ids, conditions), func(key *Key) (revoking bool) {
		fields.apply(key)
		return fields.revokes()
	})
}

// Rotate replaces the raw key of a record and returns the new one. Prefix, Mask,
// Digest and UpdatedAt change with it. The error is [ErrNotFound] or that of a condition,
// or matches [ErrInvalid] or [ErrUnavailable].
//
// The previous raw key stays valid for the overlap, which is at most a week. It
// ends with the record, and with the next rotation: two raw keys are valid at
// most. Rotate is a revoking call for the raw keys that it ends: see the package
// comment.
func (s *Service) Rotate(ctx context.Context, id int64, overlap time.Duration, conditions ...Condition) (Issued, error) {
	const maxOverlap = 7 * 24 * time.Hour
	if overlap < 0 || overlap > maxOverlap {
		return Issued{}, invalid("overlapSeconds must be from 0 to %d", maxOverlap/time.Second)
	}
	var raw RawKey
	ids := []int64{id}
	list, _, err := s.change(ctx, "rotate key", ids, checkKeys(ids, conditions), func(key *Key) (revoking bool) {
		// An overlap that ends within a lease ends before all processes know of it.
		revoking = key.PreviousDigest != Digest{} || overlap <= 2*s.options.Lease
		key.endPrevious()
		if overlap > 0 {
			key.PreviousDigest, key.PreviousPublicKey = key.Digest, key.PublicKey
			key.PreviousExpiresAt = s.Now().Add(overlap.Truncate(time.Millisecond))
		}
		raw = s.setRawKey(key)
		return revoking
	})
	if err != nil {
		return Issued{}, notFound(err)
	}
	return Issued{Key: list[0], Raw: raw}, nil
}

// Delete removes a key permanently. The error is [ErrNotFound] or that of a condition, or
// matches [ErrUnavailable].
//
// Delete is a revoking call: see the package comment.
func (s *Service) Delete(ctx context.Context, id int64, conditions ...Condition) error {
	return notFound(s.remove(ctx, []int64{id}, conditions))
}

// DeleteMany is [Service.Delete] of up to 1000 keys in one transaction, all or none: it
// waits once. The error for a missing key is a [MissingError]; it matches [ErrInvalid] if
// there are no ids, too many or repeated ones.
func (s *Service) DeleteMany(ctx context.Context, ids []int64) error {
	if err := checkIDs(ids, maxIDs); err != nil {
		return err
	}
	return s.remove(ctx, ids, nil)
}

func (s *Service) remove(ctx context.Context, ids []int64, conditions []Condition) error {
	s.countUses(ctx, ids)
	check := checkKeys(ids, conditions)
	evict := func(list []Key) {
		for _, key := range list {
			s.cache.evict(key.Digest, key.PreviousDigest)
		}
	}
	list, err := s.store.Delete(ctx, ids, func(list []Key) error {
		evict(list) // before another call misses them, and returns
		return check(list)
	})
	rejected, ok := errors.AsType[*rejection](err)
	switch {
	case ok && !errors.Is(rejected.error, ErrNotFound):
		return rejected.error
	case ok:
		s.cache.evictReadSince(time.Time{}) // another call may have just deleted it; see change
	case err != nil:
		return storeError("delete keys", err)
	}
	evict(list)
	for _, key := range list {
		s.uses.remove(key)
	}
	s.waitLeaseExpiry()
	if ok {
		return rejected.error
	}
	return nil
}

// RevokeRaw revokes up to 1000 raw keys, such as leaked ones: it deactivates the key of a
// current one, and ends the overlap of a previous one. Others, page tokens included, are
// ignored. It is a revoking call, and returns how many raw keys were accepted until then.
//
// Before it changes anything, it calls wrong for each well-formed raw key of no record,
// unless wrong is nil, and returns its error. Otherwise the error matches [ErrInvalid] or
// [ErrUnavailable].
func (s *Service) RevokeRaw(ctx context.Context, raws []string, wrong func() error) (revoked int, err error) {
	if len(raws) == 0 || len(raws) > maxIDs {
		return 0, invalid("apiKeys must be 1 to %d", maxIDs)
	}
	var ids []int64
	given := make(map[Digest]bool)
	revoking := false
	for _, raw := range raws {
		e, err := s.findRaw(ctx, raw, false, time.Now()) // the cache may have another key, which had the raw key before
		switch {
		case err == ErrMalformed:
		case err == nil:
			ids, given[e.digest], revoking = append(ids, e.key.ID), true, true
		case err != ErrUnknown:
			return 0, err
		default: // another call may have just deleted it, and still wait
			revoking = true
			for _, d := range s.digesters {
				s.cache.evict(d.digest(raw))
			}
			if wrong != nil {
				if err := wrong(); err != nil {
					return 0, err
				}
			}
		}
	}
	defer func() {
		if revoking && err == nil {
			s.waitLeaseExpiry()
		}
	}()
	if len(ids) == 0 {
		return 0, nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	s.options.Logger.InfoContext(ctx, "revoke raw keys", "keys", ids)
	now := s.Now()
	restart := func([]Key) error { revoked = 0; return nil } // some may have been deleted meanwhile
	_, _, err = s.change(ctx, "revoke keys", ids, restart, func(key *Key) bool {
		accepted := key.usable(now) == nil
		if given[key.PreviousDigest] {
			if accepted && now.Before(key.PreviousExpiresAt) {
				revoked++
			}
			key.endPrevious()
		}
		if given[key.Digest] {
			if accepted {
				revoked++
			}
			key.Active = false
		}
		return false
	})
	return revoked, err
}

// countUses writes the uses of keys before these are deleted or get another owner. An error
// does not prevent that: uses must not keep a key alive.
func (s *Service) countUses(ctx context.Context, ids []int64) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the rest of its time is for the change
	defer cancel()
	if err := s.uses.flush(ctx, ids); err != nil {
		s.options.Logger.WarnContext(ctx, "key uses not written before a change", "error", err)
	}
}

// rejection is the error of a check in a transaction. If a store returns another error, it
// has not confirmed what the check has seen.
type rejection struct{ error }

// checkKeys returns a function that returns a rejection: a [MissingError] for an id without
// a key, or the error of a condition.
func checkKeys(ids []int64, conditions []Condition) func([]Key) error {
	return func(list []Key) error {
		for _, id := range ids {
			if !slices.ContainsFunc(list, func(key Key) bool { return key.ID == id }) {
				return &rejection{&MissingError{id}}
			}
		}
		for i := range list {
			for _, condition := range conditions {
				if err := condition(&list[i]); err != nil {
					return &rejection{err}
				}
			}
		}
		return nil
	}
}

// change applies a change to keys in the store, all or none, and returns how many
// differ then. Check is called before with all of them. Apply also returns whether the
// change is a revoking one. Both may be called again.
//
// A revoking change waits even if nothing changed: another call may have made the
// same change and still be waiting, or its response may have been lost.
func (s *Service) change(
	ctx context.Context, operation string, ids []int64, check func([]Key) error, apply func(*Key) (revoking bool),
) (list []Key, changed int, err error) {
	var digests []Digest // of the keys before the change
	var revoking bool
	list, err = s.store.Update(ctx, ids, func(list []Key) error {
		digests, changed, revoking = nil, 0, false
		if err := check(list); err != nil {
			return err
		}
		for i := range list {
			key := &list[i]
			before := *key
			digests = append(digests, key.Digest, key.PreviousDigest)
			revoking = apply(key) || revoking
			if *key != before {
				changed++
				key.UpdatedAt = key.UpdatedAt.Add(time.Millisecond)
				if now := s.Now(); now.After(key.UpdatedAt) {
					key.UpdatedAt = now
				}
			}
		}
		s.cache.evict(digests...) // before another call sees the new digests, and returns
		return nil
	})
	if rejected, ok := errors.AsType[*rejection](err); ok {
		return nil, 0, rejected.error
	}
	s.cache.evict(digests...) // even after an error, the change may have been committed
	if err != nil {
		return nil, 0, storeError(operation, err)
	}
	if revoking {
		s.waitLeaseExpiry()
	}
	for i := range list {
		s.complete(&list[i])
	}
	return list, changed, nil
}

// waitLeaseExpiry waits until all leases that other processes obtained before the
// call have expired, plus a margin for clocks of different speed. It takes no
// context: the change is committed, and its result must be neither early nor
// lost.
func (s *Service) waitLeaseExpiry() {
	if s.store.Shared() {
		time.Sleep(s.options.Lease + s.options.Lease/50)
	}
}
