package exports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
)

// storeTimeout limits calls of a store that outlive their request.
const storeTimeout = 5 * time.Second

// Options configure a [Service]. The zero value opens no URL at all. Numbers and
// durations below zero count as zero.
type Options struct {
	// Openers open exported files. A URL belongs to the first one that
	// serves it; a URL that none serves is not allowed. An [Opener] for http
	// and https URLs of all hosts therefore comes last.
	Openers []Opener

	// OpenTimeout limits the wait for the first byte of a file, and the
	// prefetch of each file of a batch; 20 seconds if zero.
	OpenTimeout time.Duration

	// MaxItems is the largest number of items in a batch; 1,000 if zero.
	MaxItems int

	// Prefetch is how many files of a batch are in flight; 16 if zero. Up to
	// 1 MiB of each file is prefetched.
	//
	// PrefetchPerHost is how many of them are on one host. If zero, it is what
	// an [AdaptiveOpener] finds out, and 6 for other Openers.
	Prefetch        int
	PrefetchPerHost int

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

	// LinksPerKey is how many links of one client key are stored, and MaxLinks
	// how many in total; 10,000 and 100,000 if zero. A new link replaces the
	// oldest one.
	LinksPerKey int
	MaxLinks    int

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Service registers, finds and opens exports over a [Store]. It is safe for
// concurrent use.
type Service struct {
	store       Store
	links       LinkStore // nil if the Store is none
	openers     []Opener
	openTimeout time.Duration
	maxItems    int
	perHost     int // 0 if Openers decide
	prefetch    prefetch.Config
	clock       func() time.Time

	facts        *filefacts.Cache
	usages       *usages
	plans        *planCache
	statPrefetch prefetch.Config
	linkLifetime time.Duration
	linkRequests int
	linkServed   int64
	linkLimits   LinkLimits
	renewals     *singleflight.Group
	decodings    *singleflight.Group
}

// NewService returns a Service over store; nil options are the defaults. It returns an
// error if there is no store or an Opener is nil.
func NewService(store Store, options *Options) (*Service, error) {
	if store == nil {
		return nil, errors.New("exports: no store")
	}
	var o Options
	if options != nil {
		o = *options
	}
	if slices.Contains(o.Openers, nil) {
		return nil, errors.New("exports: an Opener is nil")
	}
	o.OpenTimeout = cmp.Or(max(o.OpenTimeout, 0), 20*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	files := cmp.Or(max(o.Prefetch, 0), 16)
	s := &Service{
		store:       store,
		openers:     o.Openers,
		openTimeout: o.OpenTimeout,
		maxItems:    cmp.Or(max(o.MaxItems, 0), 1000),
		perHost:     max(o.PrefetchPerHost, 0),
		prefetch: prefetch.Config{
			Files:       files,
			Budget:      prefetch.NewBudget(cmp.Or(max(o.PrefetchBytes, 0), 40<<20)),
			Timeout:     o.OpenTimeout,
			IdleTimeout: 2 * time.Second,
		},
		clock: o.Now,

		plans:        newPlanCache(),
		renewals:     new(singleflight.Group),
		decodings:    new(singleflight.Group),
		linkLifetime: cmp.Or(max(o.LinkLifetime, 0), 24*time.Hour),
		linkRequests: cmp.Or(max(o.LinkRequests, 0), 16),
		linkServed:   int64(cmp.Or(max(o.LinkServed, 0), 64)),
		linkLimits: LinkLimits{
			PerOwner: cmp.Or(max(o.LinksPerKey, 0), 10_000),
			Total:    cmp.Or(max(o.MaxLinks, 0), 100_000),
		},
	}
	s.links, _ = store.(LinkStore)
	s.facts, s.usages = filefacts.New(factStore{s.links}, s.now, ErrChanged), newUsages(s.links)
	s.statPrefetch = s.prefetch // a description takes one short request and no memory
	s.statPrefetch.Budget = prefetch.NewBudget(files * prefetch.PrefixSize)
	return s, nil
}

// Format implements [fmt.Formatter] for all verbs. It prints no state, which other
// goroutines change.
func (s *Service) Format(f fmt.State, _ rune) { io.WriteString(f, "exports.Service") }

// concurrency returns a function that returns how many files of the host of an
// exported URL may be open at a time.
func (s *Service) concurrency(exportedURL string) (get func() int) {
	const fallback = 6
	defer func() {
		if recover() != nil { // the same panic fails the file
			get = func() int { return fallback }
		}
	}()
	u, opener, err := s.locate(exportedURL)
	adaptive, ok := opener.(AdaptiveOpener)
	switch {
	case s.perHost > 0:
		return func() int { return s.perHost }
	case err != nil || !ok:
		return func() int { return fallback }
	}
	return func() int { return adaptive.Concurrency(u) }
}

// HasLinks reports whether there can be links: the [Store] is a [LinkStore]. Otherwise
// creating one fails, none is found, and what is known about files is only in memory.
func (s *Service) HasLinks() bool { return s.links != nil }

// Flush waits until the facts about files, and what links have served, are in the
// store. Call it at shutdown, after the last request.
func (s *Service) Flush(ctx context.Context) error {
	return errors.Join(s.facts.Flush(ctx), s.usages.loop.Flush(ctx))
}

// checkAllowed returns an error with the reason of the Opener if u may not be
// opened.
func (s *Service) checkAllowed(u *url.URL) error {
	const message = "exportedUrl is not an allowed URL"
	opener := s.opener(u)
	switch {
	case opener == nil && u.Scheme != "http" && u.Scheme != "https":
		return invalid("exportedUrl must be an http or https URL, or have a configured scheme and host")
	case opener == nil:
		return invalid(message)
	}
	err := opener.Check(u)
	if err == nil {
		return nil
	}
	if forbidden, ok := errors.AsType[*ForbiddenError](err); ok && forbidden.Reason != "" {
		return invalid(message + ": " + forbidden.Reason)
	}
	return invalid(message)
}

// Find returns the export that is registered for a source URL, or
// [ErrNotFound]. The error matches [ErrInvalid] if source is empty or too long.
func (s *Service) Find(ctx context.Context, source string) (Export, error) {
	source, err := checkSource("sourceFileUrl", source)
	if err != nil {
		return Export{}, err
	}
	list, err := s.store.Find(ctx, source)
	if err != nil {
		return Export{}, storeError("find export", err)
	}
	if len(list) == 0 {
		return Export{}, ErrNotFound
	}
	return list[0], nil
}

// FindBatch looks up the export of each source URL and returns an item for
// each, in the same order. If none has an export, the error is a [BatchError].
// It matches [ErrInvalid] if there are no source URLs, too many, or an invalid
// one.
func (s *Service) FindBatch(ctx context.Context, sources []string) ([]BatchItem, error) {
	if len(sources) == 0 {
		return nil, invalid("items must not be empty")
	}
	if len(sources) > s.maxItems {
		return nil, invalid(fmt.Sprintf("items must have at most %d elements", s.maxItems))
	}
	trimmed := make([]string, len(sources))
	for i, source := range sources {
		var err error
		if trimmed[i], err = checkSource(fmt.Sprintf("items[%d].sourceFileUrl", i), source); err != nil {
			return nil, err
		}
	}
	items, skipped, err := s.findItems(ctx, trimmed)
	if err != nil {
		return nil, err
	}
	if len(skipped) == len(items) {
		return nil, &BatchError{Skipped: skipped, Err: ErrNotFound}
	}
	return items, nil
}

// findItems looks up the export of each valid source. It also returns those that
// have none.
func (s *Service) findItems(ctx context.Context, sources []string) (items []BatchItem, skipped []Skipped, err error) {
	list, err := s.store.Find(ctx, sources...)
	if err != nil {
		return nil, nil, storeError("find exports", err)
	}
	bySource := make(map[string]*Export, len(list))
	for i := range list {
		bySource[list[i].SourceURL] = &list[i]
	}
	items = make([]BatchItem, len(sources))
	for i, source := range sources {
		items[i] = BatchItem{SourceURL: source, Export: bySource[source]}
		if items[i].Export == nil {
			skipped = append(skipped, newSkipped(source, ErrNotFound))
		}
	}
	return items, skipped, nil
}

// opener returns the first Opener that serves u, or nil.
func (s *Service) opener(u *url.URL) Opener {
	for _, opener := range s.openers {
		if opener.Serves(u) {
			return opener
		}
	}
	return nil
}

// now returns the time in UTC, truncated to the millisecond.
func (s *Service) now() time.Time { return time.UnixMilli(s.clock().UnixMilli()).UTC() }

// storeError wraps an error of the store in [ErrUnavailable], except nil,
// [ErrNotFound] and [ErrNotOwner].
func storeError(operation string, err error) error {
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotOwner) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}
