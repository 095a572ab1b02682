package exports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"example.com/canvasback/exports/internal/prefetch"
)

// Options configure a [Service]. The zero value opens no URL at all. Numbers and
// durations below zero count as zero.
type Options struct {
	// Openers open exported files. A URL belongs to the first one that
	// serves it; a URL that none serves is not allowed.
	Openers []Opener

	// OpenTimeout limits the wait for the first byte of a file, and the
	// prefetch of each file of a batch; 20 seconds if zero.
	OpenTimeout time.Duration

	// MaxItems is the largest number of items in a batch; 1,000 if zero.
	MaxItems int

	// Prefetch is how many files of a batch are in flight, and
	// PrefetchPerHost how many of them on one host; 16 and 6 if zero. Up to
	// 1 MiB of each file is prefetched.
	Prefetch        int
	PrefetchPerHost int

	// PrefetchBytes bounds the memory for prefetched files of all batches;
	// 64 MiB if zero. Each batch may hold 1 MiB more.
	PrefetchBytes int

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Service registers, finds and opens exports over a [Store]. It is safe for
// concurrent use.
type Service struct {
	store       Store
	openers     []Opener
	openTimeout time.Duration
	maxItems    int
	prefetch    prefetch.Config
	clock       func() time.Time
}

// NewService returns a Service over store; nil options are the defaults.
func NewService(store Store, options *Options) *Service {
	var o Options
	if options != nil {
		o = *options
	}
	o.OpenTimeout = cmp.Or(max(o.OpenTimeout, 0), 20*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{
		store:       store,
		openers:     o.Openers,
		openTimeout: o.OpenTimeout,
		maxItems:    cmp.Or(max(o.MaxItems, 0), 1000),
		prefetch: prefetch.Config{
			Files:       cmp.Or(max(o.Prefetch, 0), 16),
			PerHost:     cmp.Or(max(o.PrefetchPerHost, 0), 6),
			Budget:      prefetch.NewBudget(cmp.Or(max(o.PrefetchBytes, 0), 64<<20)),
			Timeout:     o.OpenTimeout,
			IdleTimeout: 2 * time.Second,
		},
		clock: o.Now,
	}
}

// Register registers the URL exported as the export of source, in place of a
// previous one; created reports that there was none. White space around both
// URLs is removed. A fileName that is empty or only white space means none; any
// other is stored as given and cleaned when it is used. The error matches
// [ErrInvalid] if an argument is invalid or exported may not be opened.
func (s *Service) Register(ctx context.Context, source, exported, fileName string) (export Export, created bool, err error) {
	source, err = checkSource("sourceFileUrl", source)
	if err != nil {
		return Export{}, false, err
	}
	exported = strings.TrimSpace(exported)
	u, err := parseExported(exported)
	if err != nil {
		return Export{}, false, err
	}
	if err := checkText("fileName", fileName); err != nil {
		return Export{}, false, err
	}
	if strings.TrimSpace(fileName) == "" {
		fileName = ""
	}
	if err := s.checkAllowed(u); err != nil {
		return Export{}, false, err
	}
	now := s.now()
	export, created, err = s.store.Put(ctx, Export{
		SourceURL:   source,
		ExportedURL: exported,
		FileName:    fileName,
		CreatedAt:   now,
		UpdatedAt:   now,
	})
	return export, created, storeError("put export", err)
}

// checkAllowed returns an error with the reason of the Opener if u may not be
// opened.
func (s *Service) checkAllowed(u *url.URL) error {
	const message = "exportedUrl is not an allowed URL"
	opener := s.opener(u)
	if opener == nil {
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

// Remove deletes the export of a source URL, or returns [ErrNotFound].
func (s *Service) Remove(ctx context.Context, source string) error {
	source, err := checkSource("sourceFileUrl", source)
	if err != nil {
		return err
	}
	return storeError("delete export", s.store.Delete(ctx, source))
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
	items := make([]BatchItem, len(sources))
	trimmed := make([]string, len(sources))
	for i, source := range sources {
		var err error
		if trimmed[i], err = checkSource(fmt.Sprintf("items[%d].sourceFileUrl", i), source); err != nil {
			return nil, err
		}
		items[i].SourceURL = trimmed[i]
	}
	list, err := s.store.Find(ctx, trimmed...)
	if err != nil {
		return nil, storeError("find exports", err)
	}
	bySource := make(map[string]*Export, len(list))
	for i := range list {
		bySource[list[i].SourceURL] = &list[i]
	}
	var skipped []Skipped
	for i := range items {
		if items[i].Export = bySource[items[i].SourceURL]; items[i].Export == nil {
			skipped = append(skipped, Skip(items[i].SourceURL, ErrNotFound))
		}
	}
	if len(list) == 0 {
		return nil, &BatchError{Skipped: skipped, Err: ErrNotFound}
	}
	return items, nil
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

// storeError wraps an error of the store in [ErrUnavailable], except nil and
// [ErrNotFound].
func storeError(operation string, err error) error {
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}
