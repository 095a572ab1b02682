package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
