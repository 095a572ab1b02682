package exports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
	"example.com/canvasback/exports/internal/zipstream"
)

// BatchItem is a source URL of a batch with its export.
type BatchItem struct {
	SourceURL string
	Path      string // folders of the entry in a zip, separated by slashes; up to 1,024 characters
	FileName  string // instead of that of the export, unless it is blank

	// FindItem, FindBatch and Resolve set the export, or why there is none: [ErrNotFound],
	// an error of [Options.Resolve], an [ErrInvalid] about SourceURL, or [ErrUnavailable].
	Export *Export
	Err    error

	absent bool // from all plans of a link
}

// BatchOf returns the items of source URLs.
func BatchOf(sources ...string) []BatchItem {
	items := make([]BatchItem, len(sources))
	for i, source := range sources {
		items[i].SourceURL = source
	}
	return items
}

// Named returns the export of the item, which must have one, with the file name of the item.
func (i *BatchItem) Named() Export {
	export := *i.Export
	if strings.TrimSpace(i.FileName) != "" {
		export.FileName = i.FileName
	}
	return export
}

func (i *BatchItem) checkNames(prefix string) error {
	const maxPathLength = 1024
	if utf8.RuneCountInString(i.Path) > maxPathLength {
		return invalid(fmt.Sprintf("%spath must have at most %d characters", prefix, maxPathLength))
	}
	return cmp.Or(checkText(prefix+"path", i.Path), checkText(prefix+"fileName", i.FileName))
}

// Resolve sets the exports of items that are not registered, if there is an
// [Options.Resolve], several at a time. The other functions of a batch do not call it.
func (s *Service) Resolve(ctx context.Context, items []BatchItem) {
	if s.options.Resolve == nil {
		return
	}
	missing := make(map[string][]*BatchItem) // by source
	var sources []string
	for i := range items {
		if item := &items[i]; item.Err == ErrNotFound {
			source := strings.TrimSpace(item.SourceURL)
			if missing[source] == nil {
				sources = append(sources, source)
			}
			missing[source] = append(missing[source], item)
		}
	}
	found, failed := make([]*Export, len(sources)), make([]error, len(sources))
	timeouts := prefetch.Parallel(s.prefetch, make([]string, len(sources)), func(i int) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		found[i], failed[i] = s.resolveOnce(ctx, sources[i])
		if errors.Is(failed[i], ErrTimeout) { // many in a row end the others
			return failed[i]
		}
		return nil
	})
	for i, source := range sources {
		err := cmp.Or(openError(timeouts[i], nil), failed[i])
		for _, item := range missing[source] {
			if item.Err = err; err == nil {
				item.Export = new(*found[i]) // several requests share it
			}
		}
	}
}

// resolveOnce shares a call among the requests for one source. Each waits for it, at most
// OpenTimeout, even if its client has left or the application ignores the context.
func (s *Service) resolveOnce(ctx context.Context, source string) (*Export, error) {
	wait, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.options.OpenTimeout, fmt.Errorf("%w: resolve", ErrTimeout))
	defer cancel()
	return share(wait, s, fmt.Sprintf("resolve %q %s", s.tenant, source), func(ctx context.Context) (*Export, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, ErrTimeout)
		defer cancel()
		return s.resolveSource(ctx, source)
	})
}

// share calls f once for all callers with a key that wait at the same time. The call goes
// on when the context of one of them ends.
func share[T any](ctx context.Context, s *Service, key string, f func(ctx context.Context) (T, error)) (value T, err error) {
	result := s.flights.DoChan(key, func() (_ any, err error) {
		defer func() {
			if reason := recover(); reason != nil { // it would end the process
				err = fmt.Errorf("%w: panic: %v\n%s", ErrFailed, reason, debug.Stack())
			}
		}()
		return f(context.WithoutCancel(ctx))
	})
	select {
	case r := <-result:
		value, _ = r.Val.(T)
		return value, r.Err
	case <-ctx.Done():
		return value, openError(context.Cause(ctx), nil)
	}
}

func (s *Service) resolveSource(ctx context.Context, source string) (*Export, error) {
	resolved, err := s.options.Resolve(ctx, ResolveRequest{Source: source, Tenant: s.tenant})
	if notReady, ok := errors.AsType[*NotReadyError](err); ok {
		if notReady.RetryAfter <= 0 {
			return nil, &NotReadyError{5 * time.Second}
		}
		return nil, &NotReadyError{min(max(notReady.RetryAfter, time.Second), 24*time.Hour)}
	}
	switch failed := openError(err, context.Cause(ctx)); {
	case errors.Is(err, ErrNotFound):
		return nil, ErrNotFound
	case err != nil: // only its text is kept: it may be of another service
		return nil, fmt.Errorf("%w: resolve: %s", kindOf(failed), err.Error())
	}
	r := Registration{SourceURL: source, ExportedURL: resolved.ExportedURL, FileName: &resolved.FileName, IfAbsent: true}
	var export Export
	if resolved.Register {
		export, _, err = s.Register(ctx, r)
	} else {
		export, err = s.check(r)
	}
	if errors.Is(err, ErrInvalid) { // what the application has returned
		err = fmt.Errorf("%w: resolve: %s", ErrFailed, err.Error())
	}
	return &export, err
}

// zipEntry describes the zip entry of an item's file. The fact may be nil.
func zipEntry(item *BatchItem, file *File, f *filefacts.Fact, names *filename.Dedup) zipstream.Entry {
	name := deliveryName(item.Named(), file)
	entry := zipstream.Entry{Name: names.Unique(item.Path, name), Modified: file.Modified, Size: file.Size, Streamed: true}
	if entry.Modified.IsZero() { // the same in each download
		entry.Modified = item.Export.UpdatedAt
	}
	if f != nil {
		crc, known := f.CRC()
		entry.CRC, entry.Streamed = crc, !known
	}
	return entry
}

// deliveryName returns the name under which an export is delivered: the
// registered one, the one its upstream proposes, the last path segment of its
// URL, or a fallback with an extension for its content type.
func deliveryName(export Export, file *File) string {
	for _, name := range []string{export.FileName, file.Name, lastSegment(export.ExportedURL)} {
		if name = filename.Clean(name); name != "" {
			return name
		}
	}
	return "canvas-export" + filename.Extension(file.Type)
}

func lastSegment(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	escaped := u.EscapedPath() // well-formed
	segment, _ := url.PathUnescape(escaped[strings.LastIndexByte(escaped, '/')+1:])
	return segment
}

// Skipped is an item that a batch does not deliver.
type Skipped struct {
	SourceURL string
	Reason    string // may be shown to clients
	Err       error  // for the log
}

// newSkipped returns the Skipped element of a source URL that failed with err. Its
// Reason reveals nothing about the server's network: it is the same for a name that
// does not exist and one with a private IP address.
func newSkipped(source string, err error) Skipped {
	reason := "file cannot be fetched"
	ofOpener := errors.Is(err, ErrForbidden) || errors.Is(err, ErrFailed) // whatever else it wraps
	switch _, notReady := errors.AsType[*NotReadyError](err); {
	case notReady:
		reason = "file is not ready"
	case errors.Is(err, ErrTimeout):
		reason = "file takes too long"
	case !ofOpener && errors.Is(err, ErrInvalid):
		reason = err.Error()
	case !ofOpener && errors.Is(err, ErrNotFound):
		reason = "not registered"
	}
	return Skipped{SourceURL: source, Reason: reason, Err: err}
}
