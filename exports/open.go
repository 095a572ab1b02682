package exports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
)

// Download is an open exported file. Its Name is clean and never empty. The
// caller must close it. It is not safe for concurrent use.
type Download struct {
	File
	fact   *filefacts.Fact // nil if the file has no Validator
	cancel context.CancelCauseFunc
}

// Open opens the file of an export. The error wraps [ErrForbidden],
// [ErrTimeout] or [ErrFailed].
//
// The file is bound to ctx: when ctx ends, reading it fails.
func (s *Service) Open(ctx context.Context, export Export) (*Download, error) {
	u, opener, err := s.locate(export.ExportedURL)
	if err != nil {
		return nil, err
	}
	file, cancel, err := openWithin(ctx, s.options.OpenTimeout, func(ctx context.Context) (*File, error) {
		return opener.Open(ctx, u)
	}, func(file *File) { file.Body.Close() })
	if err != nil {
		return nil, err
	}
	download := &Download{File: *file, cancel: cancel}
	download.Name = deliveryName(export, file)
	download.fact = s.fact(export.ExportedURL, file)
	return download, nil
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

// isLocal reports whether the kernel can send the file. Prefetch keeps that, unless Size is 0.
func (d *Download) isLocal() bool {
	_, ok := d.Body.(*os.File)
	return ok
}

// Prefetch buffers up to n bytes of the file, at most 1 MiB, so that an early failure can still
// be reported with a status code. It waits at most two seconds plus one Read. The
// error wraps [ErrFailed] or [ErrTimeout]. Local files are not buffered, unless Size is 0.
func (d *Download) Prefetch(n int) error {
	if d.isLocal() && d.Size != 0 { // an Opener may have forgotten the Size
		return nil
	}
	prefix := make([]byte, min(max(n, 0), 1<<20))
	n, err := prefetch.ReadUntil(d.Body, prefix, d.Size, time.Now().Add(2*time.Second))
	if err != nil && err != io.EOF {
		return openError(err, nil)
	}
	d.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(prefix[:n]), d.Body), d.Body}
	return nil
}

// Close closes the file and releases its connection.
func (d *Download) Close() error {
	err := d.Body.Close()
	d.cancel(nil)
	return err
}

// Check is what [Service.Check] found.
type Check struct {
	File           // as a download has it, without Body
	Resumable bool // a link to the file alone delivers ranges
}

// Check opens the file of an export as a download does, reads up to n bytes of it,
// and closes it. Its errors are those of [Service.Open].
func (s *Service) Check(ctx context.Context, export Export, n int) (Check, error) {
	download, err := s.Open(ctx, export)
	if err != nil {
		return Check{}, err
	}
	defer download.Close()
	if err := download.Prefetch(n); err != nil {
		return Check{}, err
	}
	check := Check{File: download.File}
	check.Body = nil
	if _, opener, err := s.locate(export.ExportedURL); err == nil && download.fact != nil {
		_, check.Resumable = opener.(RangeOpener)
	}
	return check, nil
}

// openWithin calls open, and cancels its context if it takes longer than timeout.
// A context.WithTimeout would also end reads after the first byte. On success, the
// caller must call cancel when it is done with the result.
func openWithin[T any](
	ctx context.Context, timeout time.Duration, open func(context.Context) (T, error), closeResult func(T),
) (result T, cancel context.CancelCauseFunc, err error) {
	ctx, cancel = context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(ErrTimeout) })
	result, err = open(ctx)
	if !timer.Stop() && err == nil {
		closeResult(result)
		err = ErrTimeout
	}
	if err != nil {
		err = openError(err, context.Cause(ctx))
		cancel(nil)
	}
	return result, cancel, err
}

// locate returns the opener of an exported URL. With an error the URL is nil if it is
// malformed.
func (s *Service) locate(exportedURL string) (*url.URL, Opener, error) {
	u, err := url.Parse(exportedURL)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	opener := s.opener(u)
	if opener == nil {
		return u, nil, ErrForbidden
	}
	return u, opener, nil
}

func (s *Service) opener(u *url.URL) Opener {
	for _, opener := range s.options.Openers {
		if opener.Serves(u) {
			return opener
		}
	}
	return nil
}

// isPrivate reports whether clients need the opener for the file at u.
func isPrivate(opener Opener, u *url.URL) bool {
	if _, ok := opener.(Presigner); ok || !isWeb(u) {
		return true
	}
	private, ok := opener.(PrivateOpener)
	return ok && private.IsPrivate(u)
}

// isWeb reports whether clients can send requests to URLs of this scheme.
func isWeb(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }

// PrivateURL returns a URL of a private file for a client, see [PrivateOpener], such as that of
// a link of [Service.ShareLink]. It must be safe for concurrent use.
type PrivateURL func(ctx context.Context, item BatchItem) (string, error)

// PublicURL returns the URL from which a client can download the export of an item: that
// of a [Presigner], a private one if the file is private, or else the exported URL itself.
// The error is that of the item or of private, or wraps [ErrForbidden], [ErrTimeout] or
// [ErrFailed].
func (s *Service) PublicURL(ctx context.Context, item BatchItem, private PrivateURL) (string, error) {
	if item.Err != nil {
		return "", item.Err
	}
	export := item.Export
	u, opener, err := s.locate(export.ExportedURL)
	if err != nil && (u == nil || !isWeb(u)) {
		return "", err
	}
	if err != nil || !isPrivate(opener, u) {
		return export.ExportedURL, nil
	}
	presigner, ok := opener.(Presigner)
	if !ok {
		return private(ctx, item)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, ErrTimeout)
	defer cancel()
	public, err := presigner.PublicURL(ctx, u, filename.Clean(item.Named().FileName))
	if public == "" && err == nil {
		err = errors.New("the Presigner has returned no URL")
	}
	return public, openError(err, context.Cause(ctx))
}

// PublicURLs returns the PublicURL of each item that has one, and an element for
// each other item. If there are no URLs, the error is a [BatchError].
func (s *Service) PublicURLs(ctx context.Context, items []BatchItem, private PrivateURL) (urls []string, skipped []Skipped, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.OpenTimeout, ErrTimeout)
	defer cancel()
	found := make([]string, len(items))
	errs := prefetch.Parallel(s.prefetch, make([]string, len(items)), func(i int) (err error) {
		found[i], err = s.PublicURL(ctx, items[i], private)
		return err
	})
	for i, err := range errs {
		switch {
		case errors.Is(err, ErrUnavailable):
			return nil, nil, err
		case errors.Is(err, prefetch.ErrUnresponsive):
			err = openError(err, nil)
			fallthrough
		case err != nil:
			skipped = append(skipped, newSkipped(items[i].SourceURL, err))
		default:
			urls = append(urls, found[i])
		}
	}
	if len(urls) == 0 {
		return nil, nil, newBatchError(skipped)
	}
	return urls, skipped, nil
}

// concurrency returns a function that returns how many files of the host of an
// exported URL may be open at a time.
func (s *Service) concurrency(exportedURL string) (get func() int) {
	get = func() int { return 6 }
	defer func() { recover() }() // the same panic fails the file
	u, opener, _ := s.locate(exportedURL)
	if adaptive, ok := opener.(AdaptiveOpener); ok {
		get = func() (files int) {
			files = 6
			defer func() { recover() }() // in a worker, a panic would end the process
			return min(max(adaptive.Concurrency(u), 1), 1<<20)
		}
	}
	return get
}

// hostOf returns the host and port by which connections are limited.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// stat describes the file of an export. The Validator is empty unless its Opener
// can read parts of it.
func (s *Service) stat(ctx context.Context, export Export) (*File, error) {
	u, opener, err := s.locate(export.ExportedURL)
	if err != nil {
		return nil, err
	}
	file, cancel, err := openWithin(ctx, s.options.OpenTimeout, func(ctx context.Context) (*File, error) {
		if ranger, ok := opener.(RangeOpener); ok {
			file, err := ranger.Stat(ctx, u)
			if err == nil && file.Size == 0 { // Stat may have forgotten the Size
				check, err := s.Check(ctx, Export{ExportedURL: export.ExportedURL}, 1)
				return &check.File, err
			}
			return file, err
		}
		file, err := opener.Open(ctx, u)
		if err == nil {
			file.Body.Close()
			file.Validator = ""
		}
		return file, err
	}, func(*File) {})
	if err != nil {
		return nil, err
	}
	cancel(nil)
	described := *file
	described.Body = nil
	return &described, nil
}
