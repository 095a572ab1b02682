package exports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
)

// Options configure a [Service]. The zero value opens no URL at all. Numbers and
// durations below zero count as zero.
type Options struct {
	// Openers open exported files. A URL belongs to the first one that
	// serves it; a URL that none serves is not allowed. An [Opener] for http
	// and https URLs of all hosts therefore comes last.
	Openers []Opener

	// OpenTimeout limits the wait for the first byte of a file, and the prefetch of
	// each file of a batch, but interrupts no Read; 20 seconds if zero.
	OpenTimeout time.Duration

	// Resolve, if set, returns the export of a source for which none is registered, or
	// [ErrNotFound], a [NotReadyError], or an error as of a file that cannot be fetched.
	// Requests of a tenant for one source share a call, which has OpenTimeout and the values of
	// the context of one of them: its key must decide nothing. A batch resolves Prefetch
	// sources at a time.
	Resolve func(ctx context.Context, r ResolveRequest) (Resolution, error)

	// SourceKey, if set, maps a source URL to what is looked up and registered, such
	// as the part before the query of a presigned URL. A source is not usable if the
	// result is empty. It must map its results to themselves: [Export] has them as SourceURL.
	SourceKey func(source string) string

	// MaxItems is the largest number of items in a batch; 1,000 if zero.
	MaxItems int

	// Prefetch is how many files of a batch are in flight; 16 if zero. Up to
	// 1 MiB of each file is prefetched. How many of them are on one host is what an
	// [AdaptiveOpener] finds out, and 6 for other Openers.
	Prefetch int

	// PrefetchBytes bounds the memory for prefetched files of all batches;
	// 40 MiB if zero. When it is used up, a batch holds 64 KiB of the file that
	// it sends, and those whose clients take longer than 250 ms for a file give
	// theirs back.
	PrefetchBytes int

	// LinkLifetime is how long a download link is valid; 24 hours if zero.
	LinkLifetime time.Duration

	// LinkRequests is how many requests of a link one process serves at a
	// time, and LinkServed how many times its size a link delivers in total;
	// 16 and 64 if zero. What was served is added up behind the responses, so
	// a link may deliver a little more.
	LinkRequests int
	LinkServed   int

	// LinksPerKey is how many links of one client key are stored, and
	// LinkBytesPerKey how large they are together when made; 10,000 and 64 MiB if
	// zero. A client of the key has a tenth of both. Further links are [ErrTooManyLinks].
	LinksPerKey     int
	LinkBytesPerKey int64

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Service registers, finds and opens exports over a [Store]. It is safe for
// concurrent use. If the Store fails, the error of a method matches [ErrUnavailable].
type Service struct {
	tenant  string
	options Options // with defaults
	store   Store
	links   LinkStore // nil if the Store is none

	facts    *filefacts.Cache
	usages   *usages
	plans    *cache[*plan] // with the size of their encoded form as cost
	shared   *cache[sharedLink]
	prefetch prefetch.Config
	flights  *singleflight.Group
}

// NewService returns a Service over store; nil options are the defaults. It returns an
// error if there is no store or an Opener is nil.
func NewService(store Store, options *Options) (*Service, error) {
	if store == nil {
		return nil, errors.New("exports: no store")
	}
	o := *cmp.Or(options, new(Options))
	if o.Openers = slices.Clone(o.Openers); slices.Contains(o.Openers, nil) {
		return nil, errors.New("exports: an Opener is nil")
	}
	o.OpenTimeout = cmp.Or(max(o.OpenTimeout, 0), 20*time.Second)
	o.MaxItems = cmp.Or(max(o.MaxItems, 0), 1000)
	o.Prefetch = min(cmp.Or(max(o.Prefetch, 0), 16), 1<<20) // more is no limit
	o.LinkLifetime = cmp.Or(max(o.LinkLifetime, 0), 24*time.Hour)
	o.LinksPerKey = cmp.Or(max(o.LinksPerKey, 0), 10_000)
	o.LinkBytesPerKey = cmp.Or(max(o.LinkBytesPerKey, 0), 64<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{
		options: o,
		store:   store,
		plans:   newCache[*plan](16 << 20),
		shared:  newCache[sharedLink](10_000),
		prefetch: prefetch.Config{
			Files:   o.Prefetch,
			Budget:  prefetch.NewBudget(cmp.Or(max(o.PrefetchBytes, 0), 40<<20)),
			Timeout: o.OpenTimeout,
		},
		flights: new(singleflight.Group),
	}
	s.links, _ = store.(LinkStore)
	s.facts = filefacts.New(factStore{s.links}, ErrChanged)
	s.usages = &usages{
		store:    s.links,
		now:      s.now,
		requests: cmp.Or(max(o.LinkRequests, 0), 16),
		served:   min(int64(cmp.Or(max(o.LinkServed, 0), 64)), math.MaxInt64/usageUnit),
		links:    make(map[Digest]*linkUsage),
	}
	return s, nil
}

// Tenant returns the exports of a tenant: what it registers, finds and resolves, and the
// links that it makes, do not exist for another. The Service of [NewService] is that of
// the tenant "". [Service.List], [Service.Get], [Service.Delete] and [Service.FindLink] are
// about all tenants. A tenant is UTF-8 without NUL. It costs nothing to call this for each
// request.
func (s *Service) Tenant(tenant string) *Service {
	if tenant == s.tenant {
		return s
	}
	other := *s
	other.tenant = tenant
	return &other
}

// Format implements [fmt.Formatter] for all verbs. It prints no state, which other
// goroutines change.
func (s *Service) Format(f fmt.State, _ rune) { io.WriteString(f, "exports.Service") }

// HasLinks reports whether there can be links: the [Store] is a [LinkStore]. Otherwise
// creating one fails, none is found, and what is known about files is only in memory.
func (s *Service) HasLinks() bool { return s.links != nil }

// Flush waits until the facts about files, and what links have served, are in the
// store. Call it at shutdown, after the last request. What the store rejects is no error,
// and lost then: files are read once more, and links deliver a little more.
func (s *Service) Flush(ctx context.Context) error {
	return errors.Join(s.facts.Flush(ctx), s.usages.flush(ctx))
}

// now returns the time in UTC, truncated to the millisecond.
func (s *Service) now() time.Time { return time.UnixMilli(s.options.Now().UnixMilli()).UTC() }
