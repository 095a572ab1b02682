package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"example.com/canvasback/exports"
)

// stallResetBytes is the progress after which earlier idle timeouts no longer
// count. A lower threshold would let an origin trickle one byte per idle timeout.
const stallResetBytes = 1 << 20

// body is a range of a file. It reads one stream until the stream is interrupted,
// then resumes with another.
type body struct {
	source
	cancel    context.CancelCauseFunc
	stream    *stream
	offset    int64 // of the next byte
	end       int64 // offset after the last byte, -1 if unknown
	stalls    int   // idle timeouts with less than stallResetBytes between them
	stalledAt int64 // offset of the last idle timeout
	resumes   int   // without a byte between them
	resumedAt int64 // offset of the last resume
	err       error
}

// openBody opens a range of the file at u. If it is pinned, the file must have
// its size and validator.
func (o *Opener) openBody(ctx context.Context, u *url.URL, pin source, offset, end int64) (*body, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	urlCopy := *u
	pin.opener, pin.ctx, pin.url = o, ctx, &urlCopy
	b := &body{source: pin, cancel: cancel, offset: offset, end: end}
	if err := b.open(); err != nil {
		err = wrapError(ctx, u, err)
		cancel(err)
		return nil, err
	}
	return b, nil
}

func (b *body) open() (err error) {
	if b.stream, err = b.source.open(b.offset, b.end); err == nil && b.end < 0 {
		b.end = b.size
	}
	return err
}

func (b *body) file() *exports.File {
	header := b.stream.response.Header
	return &exports.File{
		Size:      b.size,
		Type:      header.Get("Content-Type"),
		Name:      fileName(header.Get("Content-Disposition")),
		Modified:  parseTime(header.Get("Last-Modified")),
		ETag:      entityTag(header.Get("ETag")),
		Validator: b.validator,
	}
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p)
	if err != nil && err != io.EOF {
		err = wrapError(b.ctx, b.url, err)
	}
	b.err = err
	return n, err
}

// read returns io.EOF only at the end of the range. A response may be longer or
// shorter than the range.
func (b *body) read(p []byte) (int, error) {
	for {
		limit := b.readLimit()
		if limit == 0 {
			return 0, io.EOF
		}
		n, err := b.stream.Read(p[:min(int64(len(p)), limit)])
		b.offset += int64(n)
		switch {
		case b.opener.tooLarge(b.offset):
			return n - 1, errTooLarge
		case n > 0, err == nil:
			return n, nil
		case err == io.EOF && b.end < 0:
			return 0, io.EOF
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		if err := b.resume(err); err != nil {
			return 0, err
		}
	}
}

// readLimit returns the number of bytes to the end of the range. If that is
// unknown, it returns one more than MaxBytes leaves, so that read detects a larger
// file.
func (b *body) readLimit() int64 {
	switch {
	case b.end >= 0:
		return b.end - b.offset
	case b.opener.options.MaxBytes > 0:
		return b.opener.options.MaxBytes - b.offset + 1
	}
	return 1 << 62
}

// resume replaces a stream that ended with cause by one that continues at the
// offset. It may make maxAttempts attempts for each byte of progress; an origin
// that sends the complete file may fail before the offset again and again.
func (b *body) resume(cause error) error {
	stalled := errors.Is(cause, errIdleTimeout)
	if stalled {
		if b.offset-b.stalledAt >= stallResetBytes {
			b.stalls = 0
		}
		b.stalls++
		b.stalledAt = b.offset
	}
	if b.offset > b.resumedAt {
		b.resumes = 0
	}
	b.resumes++
	b.resumedAt = b.offset
	if b.validator == "" || !stalled && !errors.Is(cause, io.ErrUnexpectedEOF) || max(b.stalls, b.resumes-1) >= b.opener.options.MaxAttempts {
		return cause
	}
	b.stream.close()
	b.opener.stats.resumes.Add(1)
	b.opener.logRetry(b.ctx, b.url, cause)
	if err := b.opener.backoff(b.ctx, b.resumes, nil); err != nil {
		return err
	}
	if err := b.open(); err != nil {
		return fmt.Errorf("%w; resume failed: %w", cause, err)
	}
	return nil
}

// Close ends the current request, and closes its connection unless the response
// was read to its end. It may be called during a Read.
func (b *body) Close() error {
	b.cancel(os.ErrClosed)
	return nil
}
