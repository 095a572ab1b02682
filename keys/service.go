package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options configure a [Service]. The zero value is ready to use; a duration or
// size of zero or less selects the default.
type Options struct {
	// Prefix begins every raw key that is issued: 1 to 32 characters of A-Z,
	// a-z, 0-9 and _; "cbk" if empty. Keys with another prefix remain valid.
	Prefix string

	// Pepper is a secret kept outside the store. With a pepper, digests are
	// HMAC-SHA-256: a copy of the store cannot confirm a raw key, and a row
	// written into the store admits none.
	Pepper []byte

	// PreviousPeppers are accepted for keys issued before Pepper was changed.
	// An empty element accepts keys issued without a pepper.
	PreviousPeppers [][]byte

	// FlushInterval is how often [Service.Run] writes last-used times to the
	// store; 5 seconds by default.
	FlushInterval time.Duration

	// Lease is how long checks may be served from the cache after a
	// successful [Store.Epoch] call; 500 milliseconds by default. If the store
	// is shared, a call that revokes a key returns one lease after its
	// change. All processes that share a store must use the same value.
	Lease time.Duration

	// CacheSize is the maximum number of cached keys, at a few hundred bytes
	// each; 65,536 by default and at least 256.
	CacheSize int

	// ReadTimeout bounds the store reads of one check, in addition to the
	// caller's context; 5 seconds by default.
	ReadTimeout time.Duration

	// Logger receives background failures; slog.Default if nil.
	Logger *slog.Logger

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Format implements [fmt.Formatter] for every verb and prints the number of
// peppers in place of their values.
func (o Options) Format(f fmt.State, verb rune) {
	type plain Options
	shown := struct {
		plain
		Peppers int
	}{plain(o), len(o.PreviousPeppers)}
	if len(o.Pepper) > 0 {
		shown.Peppers++
	}
	shown.Pepper, shown.PreviousPeppers = nil, nil
	fmt.Fprintf(f, fmt.FormatString(f, verb), shown)
}

// Service holds the rules of client keys over a [Store]. It is safe for
// concurrent use.
type Service struct {
	store         Store
	prefix        string
	digesters     []*digester // the one of the current pepper first
	readTimeout   time.Duration
	flushInterval time.Duration
	log           *slog.Logger
	clock         func() time.Time // nil: time.Now

	leases  *leases
	good    *cache // of entries that are known
	bad     *cache // of those that are not
	flights flights
	uses    uses
	counts  counts
}

// beatsOfLease is how often the store is asked within a lease.
const beatsOfLease = 5

// unknownDigests is how many digests that belong to no key are remembered.
const unknownDigests = 1 << 13

// NewService returns a Service over store; nil options are the defaults. It
// returns an error if the prefix is invalid.
//
// Make one Service for each store: what one does, another in the same process
// learns no sooner than if it were in another process.
func NewService(store Store, options *Options) (*Service, error) {
	var o Options
	if options != nil {
		o = *options
	}
	o.Prefix = cmp.Or(o.Prefix, "cbk")
	if !validPrefix(o.Prefix) {
		return nil, fmt.Errorf("keys: prefix %q must be 1 to %d of A-Z a-z 0-9 _", o.Prefix, maxPrefix)
	}
	o.FlushInterval = cmp.Or(max(o.FlushInterval, 0), 5*time.Second)
	o.Lease = cmp.Or(max(o.Lease, 0), 500*time.Millisecond)
	o.CacheSize = cmp.Or(max(o.CacheSize, 0), 1<<16)
	o.ReadTimeout = cmp.Or(max(o.ReadTimeout, 0), 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Service{
		store:         store,
		prefix:        o.Prefix,
		readTimeout:   o.ReadTimeout,
		flushInterval: o.FlushInterval,
		log:           o.Logger,
		clock:         o.Now,
		leases:        newLeases(o.Lease),
		good:          newCache(o.CacheSize),
		bad:           newCache(min(o.CacheSize, unknownDigests)),
	}
	for _, pepper := range append([][]byte{o.Pepper}, o.PreviousPeppers...) {
		s.digesters = append(s.digesters, newDigester(pepper))
	}
	return s, nil
}

// Create issues a new key. Fields left nil take their defaults.
func (s *Service) Create(ctx context.Context, fields Fields) (Issued, error) {
	if err := fields.check(); err != nil {
		return Issued{}, err
	}
	now := s.now()
	key := Key{Name: "API key", Active: true, CreatedAt: now, UpdatedAt: now}
	fields.apply(&key)
	raw := s.mintInto(&key)
	key, err := s.store.Insert(ctx, key)
	if err != nil {
		return Issued{}, storeError("insert key", err)
	}
	s.leases.end()
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
//
// An update that sets Active to false, or an expiry, returns when no process
// accepts what it forbids: see the package comment.
func (s *Service) Update(ctx context.Context, id int64, fields Fields) (Key, error) {
	if err := fields.check(); err != nil {
		return Key{}, err
	}
	revoking := fields.Active != nil && !*fields.Active || fields.ExpiresAt != nil && !fields.ExpiresAt.IsZero()
	return s.change(ctx, "update key", id, revoking, func(key *Key) error {
		if !fields.apply(key) {
			return errUnchanged
		}
		return nil
	})
}

// errUnchanged leaves a [Store.Update] without writing.
var errUnchanged = errors.New("keys: nothing to change")

// Rotate replaces the raw key of a record and returns the new one. Nothing
// else about the record changes but UpdatedAt. The error may be [ErrNotFound].
//
// When it returns, no process accepts the former raw key any more: see the
// package comment.
func (s *Service) Rotate(ctx context.Context, id int64) (Issued, error) {
	var raw RawKey
	key, err := s.change(ctx, "rotate key", id, true, func(key *Key) error {
		raw = s.mintInto(key)
		return nil
	})
	if err != nil {
		return Issued{}, err
	}
	return Issued{Key: key, Raw: raw}, nil
}

// Delete removes a key for good, or returns [ErrNotFound]. When it returns, no
// process accepts the raw key any more: see the package comment.
func (s *Service) Delete(ctx context.Context, id int64) error {
	err := s.store.Delete(ctx, id)
	s.leases.end()
	if err == nil || errors.Is(err, ErrNotFound) {
		s.uses.forget(id)
		s.waitForOthers() // also for a deletion that has just been made by another
	}
	return storeError("delete key", err)
}

// change updates a key in the store, unless change returns errUnchanged. If
// the change is of the revoking sort, it waits. It does so even if nothing was
// left to change: the same change may have been made a moment ago by somebody
// who is still waiting, or by a call whose answer was lost.
func (s *Service) change(ctx context.Context, operation string, id int64, revoking bool, change func(*Key) error) (Key, error) {
	var former Key
	key, err := s.store.Update(ctx, id, func(key *Key) error {
		former = *key
		if err := change(key); err != nil {
			return err
		}
		s.stamp(key)
		return nil
	})
	if err == errUnchanged {
		key, err = former, nil
	}
	if err != nil {
		s.leases.end() // it may have been stored nevertheless
		return Key{}, storeError(operation, err)
	}
	if revoking || former.Active != key.Active || !former.ExpiresAt.Equal(key.ExpiresAt) {
		s.leases.end()
	}
	if revoking {
		s.waitForOthers()
	}
	s.uses.merge(&key)
	return key, nil
}

// waitForOthers waits until no lease runs any more that another process got
// before the change just stored, and a little longer, as clocks do not run
// alike. It does not end with any context: the change is made, and its answer
// must be neither early nor lost.
func (s *Service) waitForOthers() {
	if s.store.Shared() {
		time.Sleep(s.leases.duration + s.leases.duration/50)
	}
}

// mintInto gives key a new raw key.
func (s *Service) mintInto(key *Key) RawKey {
	raw := mint(s.prefix)
	key.Prefix, key.Mask = raw.prefix(), raw.mask()
	key.Digest = s.digesters[0].digest(string(raw))
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

func (s *Service) now() time.Time {
	if s.clock == nil {
		return milli(time.Now())
	}
	return milli(s.clock())
}

// storeError passes on what the store's contract names and wraps the rest.
func storeError(operation string, err error) error {
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}
