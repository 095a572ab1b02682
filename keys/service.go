package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Defaults of [Options] and [Fields].
const (
	DefaultPrefix        = "cbk"
	DefaultName          = "API key"
	DefaultFlushInterval = 5 * time.Second
)

// Options adjust a [Service]. The zero value is ready for use.
type Options struct {
	// Prefix starts every raw key that is issued from now on: 1 to 32 of
	// A-Z a-z 0-9 and _, "cbk" if empty. Keys with another prefix stay valid.
	Prefix string

	// Pepper is a secret kept outside the store. With it digests are
	// HMAC-SHA-256, so that neither a copy of the store confirms a raw key
	// nor a row written into it admits one.
	Pepper []byte

	// FormerPeppers are accepted for keys issued before Pepper was changed.
	// An empty one stands for the time when there was none.
	FormerPeppers [][]byte

	// FlushInterval is how often [Service.Run] writes the times of last use;
	// 5 seconds if zero.
	FlushInterval time.Duration

	// Logger receives what happens in the background; slog.Default if nil.
	Logger *slog.Logger

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Service holds the rules of client keys over a [Store]. It is safe for
// concurrent use.
type Service struct {
	store         Store
	prefix        string
	peppers       [][]byte // the current one first
	flushInterval time.Duration
	log           *slog.Logger
	clock         func() time.Time
	uses          uses
}

// NewService returns a Service over store; nil options are the defaults. It
// panics if the prefix has other characters than it may have.
func NewService(store Store, options *Options) *Service {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if !validPrefix(o.Prefix) {
		panic(fmt.Sprintf("keys: prefix %q must be 1 to %d of A-Z a-z 0-9 _", o.Prefix, maxPrefix))
	}
	if o.FlushInterval <= 0 {
		o.FlushInterval = DefaultFlushInterval
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{
		store:         store,
		prefix:        o.Prefix,
		flushInterval: o.FlushInterval,
		log:           o.Logger,
		clock:         o.Now,
	}
	for _, pepper := range append([][]byte{o.Pepper}, o.FormerPeppers...) {
		s.peppers = append(s.peppers, slices.Clone(pepper))
	}
	return s
}

// Create issues a new key. Fields left nil take their defaults.
func (s *Service) Create(ctx context.Context, fields Fields) (Issued, error) {
	if err := fields.check(); err != nil {
		return Issued{}, err
	}
	now := s.now()
	key := Key{Name: DefaultName, Active: true, CreatedAt: now, UpdatedAt: now}
	fields.apply(&key)
	raw := s.mintInto(&key)
	key, err := s.store.Insert(ctx, key)
	if err != nil {
		return Issued{}, storeError("insert key", err)
	}
	return Issued{Key: key, Raw: raw}, nil
}

// List returns all keys, ids ascending.
func (s *Service) List(ctx context.Context) ([]Key, error) {
	list, err := s.store.List(ctx)
	if err != nil {
		return nil, storeError("list keys", err)
	}
	for i := range list {
		s.uses.merge(&list[i])
	}
	return list, nil
}

// Get returns the key with the id, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id int64) (Key, error) {
	key, err := s.store.Get(ctx, id)
	if err != nil {
		return Key{}, storeError("get key", err)
	}
	s.uses.merge(&key)
	return key, nil
}

// Update sets the given fields, all or none, and returns the key. If that
// changes nothing, UpdatedAt stays. The error is [ErrNotFound] or matches
// [ErrInvalid].
func (s *Service) Update(ctx context.Context, id int64, fields Fields) (Key, error) {
	if err := fields.check(); err != nil {
		return Key{}, err
	}
	var current Key
	key, err := s.store.Update(ctx, id, func(key *Key) error {
		current = *key
		if !fields.apply(key) {
			return errUnchanged
		}
		s.stamp(key)
		return nil
	})
	if err == errUnchanged {
		key, err = current, nil
	}
	if err != nil {
		return Key{}, storeError("update key", err)
	}
	s.uses.merge(&key)
	return key, nil
}

// errUnchanged leaves a [Store.Update] without writing.
var errUnchanged = errors.New("keys: nothing to change")

// Rotate replaces the raw key of a record and returns the new one. The former
// raw key is refused from then on. Nothing else about the record changes but
// UpdatedAt. The error may be [ErrNotFound].
func (s *Service) Rotate(ctx context.Context, id int64) (Issued, error) {
	var raw RawKey
	key, err := s.store.Update(ctx, id, func(key *Key) error {
		raw = s.mintInto(key)
		s.stamp(key)
		return nil
	})
	if err != nil {
		return Issued{}, storeError("rotate key", err)
	}
	s.uses.merge(&key)
	return Issued{Key: key, Raw: raw}, nil
}

// Delete removes a key for good, or returns [ErrNotFound].
func (s *Service) Delete(ctx context.Context, id int64) error {
	if err := s.store.Delete(ctx, id); err != nil {
		return storeError("delete key", err)
	}
	s.uses.forget(id)
	return nil
}

// mintInto gives key a new raw key.
func (s *Service) mintInto(key *Key) RawKey {
	raw := mint(s.prefix)
	key.Prefix, key.Mask = raw.prefix(), raw.mask()
	key.Digest = digest(s.peppers[0], string(raw))
	return raw
}

// stamp moves UpdatedAt, also when the clock has not moved since.
func (s *Service) stamp(key *Key) {
	next := key.UpdatedAt.Add(time.Millisecond)
	if now := s.now(); now.After(next) {
		next = now
	}
	key.UpdatedAt = next
}

func (s *Service) now() time.Time { return milli(s.clock()) }

// storeError passes on what the store's contract names and wraps the rest.
func storeError(operation string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}
