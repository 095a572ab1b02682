package exports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"example.com/canvasback/exports/internal/filefacts"
	"example.com/canvasback/exports/internal/prefetch"
)

// Download is an open exported file. Its Name is clean and never empty. The
// caller must close it. It is not safe for concurrent use.
type Download struct {
	File
	local  bool            // Body is an *os.File, or was
	fact   *filefacts.Fact // nil if the file has no Validator
	cancel context.CancelCauseFunc
}

// Prefetch buffers up to n bytes of the file, so that an early failure can still
// be reported with a status code. It waits at most two seconds plus one Read. The
// error wraps [ErrFailed] or [ErrTimeout]. Local files are not buffered.
func (d *Download) Prefetch(n int) error {
	if _, local := d.Body.(*os.File); local {
		return nil
	}
	prefix := make([]byte, n)
	n, err := prefetch.ReadUntil(d.Body, prefix, time.Now().Add(2*time.Second))
	if err == io.EOF && d.Size >= 0 && int64(n) != d.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		return openError(err, nil)
	}
	d.Body = &prefetchedBody{io.MultiReader(bytes.NewReader(prefix[:n]), d.Body), d.Body}
	return nil
}

// prefetchedBody is a body whose first bytes have been read.
type prefetchedBody struct {
	io.Reader
	io.Closer
}

// Close closes the file and releases its connection.
func (d *Download) Close() error {
	err := d.Body.Close()
	d.cancel(nil)
	return err
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
	file, cancel, err := openWithin(ctx, s.openTimeout, func(ctx context.Context) (*File, error) {
		return opener.Open(ctx, u)
	}, func(file *File) { file.Body.Close() })
	if err != nil {
		return nil, err
	}
	download := &Download{File: *file, cancel: cancel}
	_, download.local = file.Body.(*os.File)
	cleaned := cleanFile(*file)
	download.fact = s.confirmFact(export.ExportedURL, &cleaned)
	download.Name = deliveryName(export, file)
	return download, nil
}

// PublicURL returns the URL from which a client can download an export: that of a
// [Presigner], or else the exported URL itself. The error wraps [ErrForbidden],
// [ErrTimeout] or [ErrFailed].
func (s *Service) PublicURL(ctx context.Context, export Export) (string, error) {
	u, opener, err := s.locate(export.ExportedURL)
	presigner, ok := opener.(Presigner)
	if err != nil || !ok {
		return export.ExportedURL, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.openTimeout, ErrTimeout)
	defer cancel()
	public, err := presigner.PublicURL(ctx, u)
	if err != nil {
		return "", openError(err, context.Cause(ctx))
	}
	return public, nil
}

// PublicURLs returns the PublicURL of each item that has one, and an element for
// each other item. If there are no URLs, the error is a [BatchError].
func (s *Service) PublicURLs(ctx context.Context, items []BatchItem) (urls []string, skipped []Skipped, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.openTimeout, ErrTimeout)
	defer cancel()
	for _, item := range items {
		err := ErrNotFound
		if item.Export != nil {
			var public string
			if public, err = s.PublicURL(ctx, *item.Export); err == nil {
				urls = append(urls, public)
				continue
			}
		}
		skipped = append(skipped, newSkipped(item.SourceURL, err))
	}
	if len(urls) == 0 {
		return nil, nil, &BatchError{Skipped: skipped, Err: batchError(skipped)}
	}
	return urls, skipped, nil
}

// openError wraps err in one of the errors of an [Opener], unless it already
// matches one. The argument cause is the cause of the ended context, or nil.
func openError(err, cause error) error {
	switch {
	case cause == ErrTimeout && !errors.Is(err, ErrTimeout):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrTimeout), errors.Is(err, ErrFailed):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}
