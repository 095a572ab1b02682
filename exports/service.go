package exports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Defaults of [Options].
const (
	DefaultOpenTimeout = 20 * time.Second
	DefaultMaxItems    = 1000
	DefaultAhead       = 16
	DefaultAheadOfHost = 6
	DefaultAheadMemory = 64 << 20
	DefaultRememberFor = time.Hour
)

// Options adjust a [Service]. The zero value opens no address at all.
type Options struct {
	// Openers open exported files; the first one that serves an address
	// has it. An address that none serves is not allowed.
	Openers []Opener

	// OpenTimeout is how long an Opener may take to the first byte;
	// DefaultOpenTimeout if zero. A file of a batch that is not read to its
	// end by then is written as it comes.
	OpenTimeout time.Duration

	// MaxItems is the largest number of items in a batch; DefaultMaxItems if
	// zero.
	MaxItems int

	// Ahead is how many files of a batch are asked for before their turn, and
	// AheadOfHost how many of them at a time at one host; DefaultAhead and
	// DefaultAheadOfHost if zero. Of each up to 1 MiB is read ahead.
	Ahead       int
	AheadOfHost int

	// AheadMemory bounds what is read ahead for all batches, in bytes;
	// DefaultAheadMemory if zero. Each batch has 1 MiB beside.
	AheadMemory int

	// RememberFor is how long the size of a file counts that a batch has read
	// to its end; DefaultRememberFor if zero. From such sizes [Batch.Size]
	// knows the length of a batch with more files than are opened ahead.
	// Nothing is remembered if it is negative.
	RememberFor time.Duration

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Service holds the rules of exports over a [Store]. It is safe for concurrent
// use.
type Service struct {
	store       Store
	openers     []Opener
	openTimeout time.Duration
	maxItems    int
	ahead       int
	aheadOfHost int
	windows     chan struct{} // filled with those in use
	sizes       *sizes
	clock       func() time.Time

	// originPatience is how long an origin surely waits for its client to
	// read on.
	originPatience time.Duration
}

// NewService returns a Service over store; nil options are the defaults.
func NewService(store Store, options *Options) *Service {
	var o Options
	if options != nil {
		o = *options
	}
	o.OpenTimeout = cmp.Or(max(o.OpenTimeout, 0), DefaultOpenTimeout)
	o.MaxItems = cmp.Or(max(o.MaxItems, 0), DefaultMaxItems)
	o.Ahead = cmp.Or(max(o.Ahead, 0), DefaultAhead)
	o.AheadOfHost = cmp.Or(max(o.AheadOfHost, 0), DefaultAheadOfHost)
	o.AheadMemory = cmp.Or(max(o.AheadMemory, 0), DefaultAheadMemory)
	o.RememberFor = cmp.Or(o.RememberFor, DefaultRememberFor)
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{
		store:       store,
		openers:     o.Openers,
		openTimeout: o.OpenTimeout,
		maxItems:    o.MaxItems,
		ahead:       o.Ahead,
		aheadOfHost: o.AheadOfHost,
		windows:     make(chan struct{}, o.AheadMemory/window),
		clock:       o.Now,

		originPatience: 2 * time.Second,
	}
	s.sizes = newSizes(o.RememberFor, s.now)
	return s
}

// Register makes the file at exported the one that is delivered for source,
// and reports whether source had none before. White space around the addresses
// is dropped. A fileName that is empty or only white space counts as none; any
// other is kept as given and made safe when it is used. The error matches
// [ErrInvalid] if a field is refused, also because exported may not be opened.
func (s *Service) Register(ctx context.Context, source, exported, fileName string) (export Export, created bool, err error) {
	source, err = checkSource("sourceFileUrl", source)
	if err != nil {
		return Export{}, false, err
	}
	address, err := parseExported(strings.TrimSpace(exported))
	if err != nil {
		return Export{}, false, err
	}
	if err := checkText("fileName", fileName); err != nil {
		return Export{}, false, err
	}
	if strings.TrimSpace(fileName) == "" {
		fileName = ""
	}
	if err := s.check(address); err != nil {
		return Export{}, false, err
	}
	now := s.now()
	export, created, err = s.store.Put(ctx, Export{
		SourceURL:   source,
		ExportedURL: strings.TrimSpace(exported),
		FileName:    fileName,
		CreatedAt:   now,
		UpdatedAt:   now,
	})
	return export, created, storeError("put export", err)
}

// check returns an [ErrInvalid] if u may not be opened.
func (s *Service) check(u *url.URL) error {
	const message = "exportedUrl is not an allowed URL"
	opener := s.opener(u)
	if opener == nil {
		return invalid(message)
	}
	err := opener.Check(u)
	if forbidden, ok := errors.AsType[*ForbiddenError](err); ok {
		return invalid(message + ": " + forbidden.Reason)
	}
	if err != nil {
		return invalid(message)
	}
	return nil
}

// Remove forgets the export of a source address, or returns [ErrNotFound].
func (s *Service) Remove(ctx context.Context, source string) error {
	source, err := checkSource("sourceFileUrl", source)
	if err != nil {
		return err
	}
	return storeError("delete export", s.store.Delete(ctx, source))
}

// now is the time in UTC, cut to the millisecond.
func (s *Service) now() time.Time { return time.UnixMilli(s.clock().UnixMilli()).UTC() }

// skip tells why a source address is left out, in words that show nothing of
// the network behind the server.
func skip(source string, err error) Skipped {
	reason := "file cannot be fetched"
	switch {
	case errors.Is(err, ErrNotFound):
		reason = "not registered"
	case errors.Is(err, ErrTimeout):
		reason = "file takes too long"
	case errors.Is(err, ErrForbidden):
		reason = "address is not allowed"
	}
	return Skipped{SourceURL: source, Reason: reason, Err: err}
}

// opener returns the first Opener that serves the address, or nil.
func (s *Service) opener(address *url.URL) Opener {
	for _, opener := range s.openers {
		if opener.Serves(address) {
			return opener
		}
	}
	return nil
}

// storeError passes on what the store's contract names and wraps the rest.
func storeError(operation string, err error) error {
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}
