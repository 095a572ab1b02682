package keys

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	minForeign, maxForeign = 16, 512 // characters of a raw key of another form

	maxForeignPrefix = 32 // characters of ImportedKey.Prefix
)

// ImportedKey is a key of another system. Digest is the SHA-256 of its raw key, and
// Prefix what is displayed of it, at most 32 characters.
type ImportedKey struct {
	Digest Digest
	Prefix string
	Fields Fields
}

// foreign reports whether a text may be a raw key of another form.
func (s *Service) foreign(text string) bool {
	return s.options.ForeignKeys && len(text) >= minForeign && len(text) <= maxForeign &&
		!strings.HasPrefix(text, s.options.Prefix+"_") && !strings.HasPrefix(text, s.tokenPrefix) &&
		!strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}

// AcceptsForeign reports whether [Options.ForeignKeys] is set.
func (s *Service) AcceptsForeign() bool { return s.options.ForeignKeys }

// Import takes over up to 1000 keys of another system, all or none, and returns their ids
// in the same order. Their raw keys are accepted from then on; rotating one gives it a raw
// key of this form. The error matches [ErrInvalid] or [ErrUnavailable], or is a
// [TakenError]. Without [Options.ForeignKeys], or with [Options.Pepper], it matches [ErrInvalid].
func (s *Service) Import(ctx context.Context, list []ImportedKey) ([]int64, error) {
	switch {
	case !s.options.ForeignKeys:
		return nil, invalid("keys cannot be imported: foreign keys are not accepted")
	case s.digesters[0].macs != nil:
		return nil, invalid("keys cannot be imported: digests have a pepper")
	case len(list) == 0 || len(list) > maxIDs:
		return nil, invalid("keys must be 1 to %d", maxIDs)
	}
	now := s.Now()
	seen := make(map[Digest]bool)
	keys := make([]Key, len(list))
	for i, given := range list {
		if err := given.check(); err != nil {
			return nil, invalid("keys[%d].%v", i, err)
		}
		if seen[given.Digest] {
			return nil, invalid("keys[%d].sha256 must not be repeated", i)
		}
		seen[given.Digest] = true
		keys[i] = Key{
			Name: defaultName, Active: true, CreatedAt: now, UpdatedAt: now,
			Digest: given.Digest, Prefix: given.Prefix, Mask: given.Prefix + "...",
		}
		given.Fields.apply(&keys[i])
	}
	ids, err := s.store.Import(ctx, keys)
	s.cache.evict(slices.Collect(maps.Keys(seen))...) // one may be cached as a key whose overlap has ended
	if taken, ok := errors.AsType[*TakenError](err); ok {
		return nil, taken
	}
	return ids, storeError("import keys", err)
}

func (k *ImportedKey) check() error {
	switch {
	case k.Digest == Digest{}:
		return invalid("sha256 must not be zero")
	case !utf8.ValidString(k.Prefix) || strings.ContainsRune(k.Prefix, 0):
		return invalid("keyPrefix must be valid UTF-8 without NUL")
	case utf8.RuneCountInString(k.Prefix) > maxForeignPrefix:
		return invalid("keyPrefix must have at most %d characters", maxForeignPrefix)
	}
	return k.Fields.check()
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
