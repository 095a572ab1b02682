package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
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
	// successful [Store.Changes] call; 500 milliseconds by default. If the store
	// is shared, a call that revokes a key returns one lease after its
	// change. All processes that share a store must use the same value: stop
	// them before you change it. Each one that checks keys makes five such calls
	// per lease, so 100 milliseconds suit a few dozen processes.
	Lease time.Duration

	// CacheSize is the maximum number of cached keys, at a few hundred bytes
	// each; 65,536 by default and at least 8. Some keys are dropped before the
	// cache is full.
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

// Service issues and verifies client keys over a [Store]. It is safe for
// concurrent use.
type Service struct {
	store         Store
	prefix        string
	digesters     []*digester // the current pepper's first
	readTimeout   time.Duration
	flushInterval time.Duration
	log           *slog.Logger
	clock         func() time.Time // nil: time.Now

	cache  *cache
	leases *leases
	loads  singleflight.Group // by digest and floor of the cache
	uses   uses
	stats  counters
}

// Format implements [fmt.Formatter] for all verbs. It prints no state, which other
// goroutines change.
func (s *Service) Format(f fmt.State, _ rune) { io.WriteString(f, "keys.Service") }

// maxUnknown is the maximum number of cached digests of no key.
const maxUnknown = 1 << 13

// NewService returns a Service over store; nil options are the defaults. It
// returns an error if there is no store or the prefix is invalid.
//
// Create one Service per store. If the store is not shared, a second one may
// accept a revoked key for up to one lease.
func NewService(store Store, options *Options) (*Service, error) {
	if store == nil {
		return nil, errors.New("keys: no store")
	}
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
		cache:         newCache(o.CacheSize),
	}
	s.leases = newLeases(o.Lease, s.cache)
	for _, pepper := range append([][]byte{o.Pepper}, o.PreviousPeppers...) {
		s.digesters = append(s.digesters, newDigester(pepper))
	}
	return s, nil
}

// Run keeps the cache enabled and writes the uses of keys until ctx ends. It then
// writes the remaining ones and returns the error of that write.
//
// Call Run once, in its own goroutine, and close the store only after it has
// returned. Without Run every check reads the store.
func (s *Service) Run(ctx context.Context) error {
	var renewing sync.WaitGroup
	renewing.Go(func() { s.leases.renewLoop(ctx, s.store, s.log) })
	defer renewing.Wait()
	return s.uses.flushLoop(ctx, s.store, s.flushInterval, s.now, s.log)
}

// Create issues a new key. The error matches [ErrInvalid] or [ErrUnavailable].
func (s *Service) Create(ctx context.Context, fields Fields) (Issued, error) {
	if err := fields.check(); err != nil {
		return Issued{}, err
	}
	now := s.now()
	key := Key{Name: "API key", Active: true, CreatedAt: now, UpdatedAt: now}
	fields.apply(&key)
	raw := s.setRawKey(&key)
	key, err := s.store.Insert(ctx, key)
	if err != nil {
		return Issued{}, storeError("insert key", err)
	}
	return Issued{Key: key, Raw: raw}, nil
}

// List returns a page of the keys that the filter selects. To read all pages,
// continue with the last id while [Page.More] is true. The error matches
// [ErrInvalid] or [ErrUnavailable].
func (s *Service) List(ctx context.Context, filter Filter, r Range) (Page, error) {
	if filter.Owner != nil {
		if err := checkText("owner", *filter.Owner); err != nil {
			return Page{}, err
		}
	}
	page, err := s.store.List(ctx, filter, r)
	if err != nil {
		return Page{}, storeError("list keys", err)
	}
	for i := range page.Keys {
		s.update(&page.Keys[i])
	}
	return page, nil
}

// Get returns the key with the id. The error is [ErrNotFound] or matches
// [ErrUnavailable].
func (s *Service) Get(ctx context.Context, id int64) (Key, error) {
	key, err := s.store.Get(ctx, id)
	if err != nil {
		return Key{}, storeError("get key", err)
	}
	s.update(&key)
	return key, nil
}

// update adds to a key what the store does not have, and removes an overlap that
// has ended.
func (s *Service) update(key *Key) {
	s.uses.applyTo(key)
	if !s.now().Before(key.PreviousExpiresAt) {
		key.PreviousDigest, key.PreviousExpiresAt = Digest{}, time.Time{}
	}
}

// Ready returns an error that matches [ErrUnavailable] if the store cannot decide
// about keys, for example because it is a standby.
func (s *Service) Ready(ctx context.Context) error {
	_, err := s.store.Changes(ctx, 0)
	return storeError("read changes of keys", err)
}

// Update sets the given fields, all or none, and returns the key. UpdatedAt
// changes only if a field does. The error is [ErrNotFound] or matches
// [ErrInvalid] or [ErrUnavailable].
//
// An update that sets Active to false, an expiry, scopes or the owner is a revoking
// call: see the package comment.
func (s *Service) Update(ctx context.Context, id int64, fields Fields) (Key, error) {
	if err := fields.check(); err != nil {
		return Key{}, err
	}
	return s.change(ctx, "update key", id, func(key *Key) (bool, error) {
		if !fields.apply(key) {
			return fields.revokes(), errUnchanged
		}
		return fields.revokes(), nil
	})
}

// errUnchanged makes [Store.Update] return without writing.
var errUnchanged = errors.New("keys: nothing to change")

// maxOverlap is the maximum overlap of a rotation.
const maxOverlap = 7 * 24 * time.Hour

// Rotate replaces the raw key of a record and returns the new one. Prefix, Mask,
// Digest and UpdatedAt change with it. The error is [ErrNotFound] or matches
// [ErrInvalid] or [ErrUnavailable].
//
// The previous raw key stays valid for the overlap, which is at most a week. It
// ends with the record, and with the next rotation: two raw keys are valid at
// most. Rotate is a revoking call for the raw keys that it ends: see the package
// comment.
func (s *Service) Rotate(ctx context.Context, id int64, overlap time.Duration) (Issued, error) {
	if overlap < 0 || overlap > maxOverlap {
		return Issued{}, invalid(fmt.Sprintf("overlapSeconds must be from 0 to %d", maxOverlap/time.Second))
	}
	var raw RawKey
	key, err := s.change(ctx, "rotate key", id, func(key *Key) (revoking bool, err error) {
		// An overlap that ends within a lease ends before all processes know of it.
		revoking = key.PreviousDigest != Digest{} || overlap <= 2*s.leases.duration
		key.PreviousDigest, key.PreviousExpiresAt = Digest{}, time.Time{}
		if overlap > 0 {
			key.PreviousDigest, key.PreviousExpiresAt = key.Digest, s.now().Add(overlap.Truncate(time.Millisecond))
		}
		raw = s.setRawKey(key)
		return revoking, nil
	})
	if err != nil {
		return Issued{}, err
	}
	return Issued{Key: key, Raw: raw}, nil
}

// Delete removes a key permanently. The error is [ErrNotFound] or matches
// [ErrUnavailable].
//
// Delete is a revoking call: see the package comment.
func (s *Service) Delete(ctx context.Context, id int64) error {
	key, err := s.store.Delete(ctx, id)
	switch {
	case err == nil:
		s.cache.evict(key.Digest, key.PreviousDigest)
		s.uses.remove(key)
	case errors.Is(err, ErrNotFound):
		s.cache.clear() // another call may have just deleted it; see change
	default:
		return storeError("delete key", err)
	}
	s.waitLeaseExpiry()
	return err
}

// change updates a key in the store unless apply returns errUnchanged. Apply also
// returns whether the change is a revoking one.
//
// A revoking change waits even if nothing changed: another call may have made the
// same change and still be waiting, or its response may have been lost.
func (s *Service) change(ctx context.Context, operation string, id int64, apply func(*Key) (revoking bool, err error)) (Key, error) {
	var (
		previous Key
		revoking bool
	)
	key, err := s.store.Update(ctx, id, func(key *Key) (err error) {
		previous = *key
		if revoking, err = apply(key); err != nil {
			return err
		}
		s.bumpUpdatedAt(key)
		return nil
	})
	if err == errUnchanged {
		key, err = previous, nil
	}
	if !errors.Is(err, ErrNotFound) {
		s.cache.evict(previous.Digest, previous.PreviousDigest) // even after an error, the change may have been committed
	}
	if err != nil {
		return Key{}, storeError(operation, err)
	}
	if revoking {
		s.waitLeaseExpiry()
	}
	s.update(&key)
	return key, nil
}

// waitLeaseExpiry waits until no process has a lease from before the committed
// change.
func (s *Service) waitLeaseExpiry() {
	if s.store.Shared() {
		s.leases.waitExpiry()
	}
}

// setRawKey gives key a new raw key.
func (s *Service) setRawKey(key *Key) RawKey {
	raw := newRawKey(s.prefix)
	key.Prefix, key.Mask = raw.prefix(), raw.mask()
	key.Digest = s.digesters[0].digest(string(raw))
	return raw
}

// bumpUpdatedAt sets UpdatedAt to now, and at least a millisecond forward.
func (s *Service) bumpUpdatedAt(key *Key) {
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
