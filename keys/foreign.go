package keys

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
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
