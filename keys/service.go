package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"example.com/canvasback/keys/internal/pagetoken"
	"example.com/canvasback/symbols/fresh"
)

// Options configure a [Service]. The zero value is ready to use; a duration or
// size of zero or less selects the default.
type Options struct {
	// Prefix begins every raw key that is issued: 1 to 32 characters of A-Z,
	// a-z, 0-9 and _; "cbk" if empty. Keys with another prefix remain valid. Page
	// tokens must begin with this one, whatever the prefix of their key.
	Prefix string

	// Pepper is a secret kept outside the store. With a pepper, digests are
	// HMAC-SHA-256: a copy of the store cannot confirm a raw key, and a row
	// written into the store admits none.
	Pepper []byte

	// PreviousPeppers are accepted for keys issued before Pepper was changed.
	// An empty element accepts keys issued without a pepper. If several processes share
	// the store, add the next pepper here in all of them before one issues keys with it.
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
	// each, 16 of them from the start; 65,536 by default, 8 to 16,777,216. Some keys
	// are dropped before the cache is full. As many page tokens are cached, at up to
	// 5 KiB each; those of one key take a sixteenth at most.
	CacheSize int

	// ReadTimeout bounds each store read of a check, in addition to the caller's
	// context; 5 seconds by default. Page tokens and PreviousPeppers can take further reads.
	ReadTimeout time.Duration

	// UsageDays is for how many days usage is kept: 400 by default, which is as many as
	// [Service.Usage] returns.
	UsageDays int

	// ForeignKeys accepts raw keys of another form that [Service.Import] has taken
	// over: 16 to 512 visible ASCII characters. Without it they are rejected without a
	// store read; page tokens and links that they have made end with the key.
	ForeignKeys bool

	// Logger receives background failures, and the ids of the keys whose raw keys
	// [Service.RevokeRaw] is to revoke; slog.Default if nil.
	Logger *slog.Logger

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Format implements [fmt.Formatter] for every verb. It prints no field, because some are
// secret.
func (Options) Format(f fmt.State, _ rune) { io.WriteString(f, "keys.Options") }

// Service issues and verifies client keys over a [Store]. It is safe for
// concurrent use.
type Service struct {
	store       Store
	options     Options // without peppers
	tokenPrefix string
	digesters   []*digester // the current pepper's first

	cache  *cache
	leases *leases
	loads  singleflight.Group          // by digest and floor of the cache
	reads  fresh.Reads[Digest, *entry] // without a lease
	uses   *uses
	stats  struct{ hits, misses, uncached, rejected, unavailable atomic.Uint64 }
}

// Format implements [fmt.Formatter] for all verbs. It prints no state, which other
// goroutines change.
func (s *Service) Format(f fmt.State, _ rune) { io.WriteString(f, "keys.Service") }

// NewService returns a Service over store; nil options are the defaults. It
// returns an error if there is no store or the prefix is invalid.
//
// Create one Service per store. If the store is not shared, a second one may
// accept a revoked key for up to one lease.
func NewService(store Store, options *Options) (*Service, error) {
	if store == nil {
		return nil, errors.New("keys: no store")
	}
	o := *cmp.Or(options, new(Options))
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	if !validPrefix(o.Prefix) {
		return nil, fmt.Errorf("keys: prefix %q must be 1 to %d of A-Z a-z 0-9 _", o.Prefix, maxPrefix)
	}
	o.FlushInterval = cmp.Or(max(o.FlushInterval, 0), 5*time.Second)
	o.Lease = cmp.Or(max(o.Lease, 0), 500*time.Millisecond)
	o.CacheSize = min(cmp.Or(max(o.CacheSize, 0), 1<<16), 1<<24)
	o.ReadTimeout = cmp.Or(max(o.ReadTimeout, 0), 5*time.Second)
	o.UsageDays = cmp.Or(max(o.UsageDays, 0), maxUsageDays)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Service{store: store, tokenPrefix: tokenPrefix(o.Prefix)}
	s.cache = &cache{keys: newTable(o.CacheSize, 8), tokens: newTable(o.CacheSize, 16*maxOfKey)}
	for _, pepper := range append([][]byte{o.Pepper}, o.PreviousPeppers...) {
		s.digesters = append(s.digesters, newDigester(pepper))
	}
	o.Pepper, o.PreviousPeppers = nil, nil
	s.options = o
	s.leases = &leases{duration: o.Lease, cache: s.cache, wake: make(chan struct{}, 1)}
	s.uses = newUses(store, s.Now, o.UsageDays)
	return s, nil
}

// Run keeps the cache enabled and writes the uses of keys until ctx ends. It then
// writes the remaining ones and returns the error of that write.
//
// Call Run once, in its own goroutine, and close the store only after it has
// returned. Without Run every check reads the store.
func (s *Service) Run(ctx context.Context) error {
	var renewing sync.WaitGroup
	renewing.Go(func() { s.leases.renewLoop(ctx, s.store, s.options.Logger) })
	defer renewing.Wait()
	return s.uses.flushLoop(ctx, s.options.FlushInterval, s.options.Logger)
}

// Create issues a new key. The error matches [ErrInvalid] or [ErrUnavailable].
func (s *Service) Create(ctx context.Context, fields Fields) (Issued, error) {
	if err := fields.check(); err != nil {
		return Issued{}, err
	}
	now := s.Now()
	key := Key{Name: defaultName, Active: true, CreatedAt: now, UpdatedAt: now}
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
	for i := range page.Keys {
		s.complete(&page.Keys[i])
	}
	return page, storeError("list keys", err)
}

// Get returns the key with the id. The error is [ErrNotFound] or matches
// [ErrUnavailable].
func (s *Service) Get(ctx context.Context, id int64) (Key, error) {
	key, err := s.store.Get(ctx, id)
	s.complete(&key)
	return key, storeError("get key", err)
}

// complete adds to a key what the store does not have, and removes an overlap that
// has ended.
func (s *Service) complete(key *Key) {
	s.uses.applyTo(key)
	if !s.Now().Before(key.PreviousExpiresAt) {
		key.endPrevious()
	}
}

// Ready returns an error that matches [ErrUnavailable] if the store cannot decide
// about keys, for example because it is a standby.
func (s *Service) Ready(ctx context.Context) error {
	_, err := s.store.Changes(ctx, 0)
	return storeError("read changes of keys", err)
}

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

func (s *Service) setRawKey(key *Key) RawKey {
	raw := newRawKey(s.options.Prefix)
	key.Prefix = string(raw[:len(raw)-sumDigits-secretDigits+shownDigits])
	key.Mask = key.Prefix + "****" + string(raw[len(raw)-shownTail:])
	key.Digest = s.digesters[0].digest(string(raw))
	key.PublicKey = s.publicKey(string(raw), key.Digest)
	return raw
}

// publicKey returns the public key of a raw key with the digest, as it is stored.
func (s *Service) publicKey(raw string, digest Digest) (public PublicKey) {
	for _, d := range s.digesters {
		if d.digest(raw) == digest {
			return d.seal(digest, pagetoken.PublicKey(raw))
		}
	}
	return public
}

// Now returns the time of the clock, UTC, truncated to the millisecond.
func (s *Service) Now() time.Time {
	now := time.Now
	if s.options.Now != nil {
		now = s.options.Now
	}
	return now().UTC().Truncate(time.Millisecond)
}
