package exports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"
)

// Download is a single exported file that has been opened. It is not safe for
// concurrent use.
type Download struct {
	File
	FileName string // clean, never empty
	cancel   context.CancelCauseFunc
}

// ReadAhead reads the first n bytes of the file before anything is done with
// them; or all of it, or what comes within two seconds. The error wraps [ErrFailed] or [ErrTimeout]: a file that
// breaks so early can still be answered as one that cannot be had. A file of
// this machine is left as it is.
func (d *Download) ReadAhead(n int) error {
	if _, local := d.Body.(*os.File); local {
		return nil
	}
	head := make([]byte, n)
	n, err := readUntil(d.Body, head, time.Now().Add(2*time.Second))
	if err != nil && err != io.EOF {
		return openError(context.Background(), err)
	}
	if err == io.EOF && d.Size >= 0 && int64(n) != d.Size {
		return openError(context.Background(), io.ErrUnexpectedEOF)
	}
	d.Body = &resumedBody{Reader: io.MultiReader(bytes.NewReader(head[:n]), d.Body), Closer: d.Body}
	return nil
}

// resumedBody is a body of which the first bytes have been read.
type resumedBody struct {
	io.Reader
	io.Closer
}

// Close ends the download and whatever stands behind it.
func (d *Download) Close() error {
	err := d.Body.Close()
	d.cancel(nil)
	return err
}

// Open opens the file of an export; the caller closes it. The error wraps
// [ErrForbidden], [ErrTimeout] or [ErrFailed].
//
// The file is bound to ctx: when ctx ends, reading it fails.
func (s *Service) Open(ctx context.Context, export Export) (*Download, error) {
	address, err := url.Parse(export.ExportedURL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	opener := s.opener(address)
	if opener == nil {
		return nil, ErrForbidden
	}
	// The time limit ends with the first byte, but ctx must live on for the
	// rest of the file.
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(s.openTimeout, func() { cancel(ErrTimeout) })
	file, err := opener.Open(ctx, address)
	if !timer.Stop() && err == nil {
		file.Body.Close()
		err = ErrTimeout
	}
	if err != nil {
		err = openError(ctx, err)
		cancel(nil)
		return nil, err
	}
	return &Download{File: *file, FileName: fileName(export, file), cancel: cancel}, nil
}

// openError makes sure that an Opener's error wraps a failure this package
// names, or says that ctx has ended.
func openError(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == ErrTimeout && !errors.Is(err, ErrTimeout):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrTimeout), errors.Is(err, ErrFailed):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}
