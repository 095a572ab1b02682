package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"example.com/canvasback/exports"
)

// stallResetBytes is the progress after which earlier idle timeouts no longer
// count. A lower threshold would let an origin trickle one byte per idle timeout.
const stallResetBytes = 1 << 20

// body is a range of the file at a URL. It is pinned to the size and the validator of its
// first response, or to given ones: responses that differ from them are errors. It reads
// one stream until the stream is interrupted, then resumes with another.
type body struct {
	opener    *Opener
	ctx       context.Context
	cancel    context.CancelCauseFunc
	url       *url.URL
	pinned    bool
	size      int64  // of the file, -1 if unknown
	validator string // the value of If-Range, empty if there is none

	stream    *stream
	offset    int64 // of the next byte
	end       int64 // offset after the last byte, -1 if unknown
	stalls    int   // idle timeouts with less than stallResetBytes between them
	stalledAt int64 // offset of the last idle timeout
	resumes   int   // without a byte between them
	resumedAt int64 // offset of the last resume
	err       error
}

// open opens the range that b describes of the file at u.
func (o *Opener) open(ctx context.Context, u *url.URL, b *body) (*body, error) {
	b.opener, b.url = o, new(*u)
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	if err := b.open(); err != nil {
		err = wrapError(b.ctx, u, err)
		b.cancel(err)
		return nil, err
	}
	return b, nil
}

// open requests the bytes from the offset on. It makes attempts until one succeeds, an
// error is permanent, or MaxAttempts is reached.
func (b *body) open() error {
	for attempt := 1; ; attempt++ {
		err := b.attempt()
		outcome := err
		if b.ctx.Err() != nil {
			outcome = context.Cause(b.ctx) // exports.ErrTimeout if the host was slow
		}
		b.opener.hosts.record(strings.ToLower(b.url.Host), outcome)
		if isTimeout(outcome) {
			b.opener.CloseIdleConnections() // to all hosts: those to this one may be lost, too
		}
		if err == nil && b.end < 0 {
			b.end = b.size
		}
		if err == nil || b.ctx.Err() != nil || attempt >= b.opener.options.MaxAttempts || !isTransient(err) {
			return err
		}
		b.opener.stats.retries.Add(1)
		b.logRetry(err)
		if err := b.backoff(attempt, err); err != nil {
			return err
		}
	}
}

// attempt makes one attempt. If the origin cannot satisfy the range or does not
// state the size of the file, attempt requests the complete file: the file may be
// empty, shorter than before, or served without ranges.
func (b *body) attempt() error {
	first, header := b.rangeHeader()
	err := b.request(first, header)
	if err == errNoRange {
		err = b.request(-1, http.Header{})
	}
	return err
}

// rangeHeader returns the header of a request, and the position at which its
// range begins. Both are -1 and empty for a complete file.
//
// A request cannot ask for no bytes. If there are none to the end, the range has the
// byte at the offset. If the end is unknown, the offset may be the end of the file, so
// the range begins one byte before.
func (b *body) rangeHeader() (first int64, header http.Header) {
	header = http.Header{}
	if b.offset == 0 && b.end == b.size {
		return -1, header
	}
	first = b.offset
	if b.end < 0 {
		first--
	}
	value := fmt.Sprintf("bytes=%d-", first)
	if b.end != b.size {
		value = fmt.Sprintf("bytes=%d-%d", first, max(first, b.end-1))
	}
	header.Set("Range", value)
	if b.validator != "" {
		header.Set("If-Range", b.validator)
	}
	return first, header
}

// request sends one request and follows redirects. It returns when the first byte
// has arrived, or the response is known to have none. The argument first is
// the beginning of the range in the header, -1 if there is none.
func (b *body) request(first int64, header http.Header) error {
	ctx, cancel := context.WithCancelCause(b.ctx)
	response, err := b.opener.followRedirects(ctx, b.url, header) //nolint:bodyclose // the stream closes it
	if err != nil {
		cancel(err)
		return err
	}
	b.stream = newStream(ctx, cancel, response, b.opener.options.IdleTimeout)
	part, err := parsePart(response, first)
	if err == nil {
		err = b.check(response, part)
	}
	if err == nil {
		err = b.stream.start(part, b.offset, b.end)
	}
	if err != nil {
		if status, ok := errors.AsType[*statusError](err); ok {
			status.code = b.stream.errorCode()
		}
		b.stream.close()
		return err
	}
	if !b.pinned {
		b.pinned, b.validator = true, strongValidator(response.Header)
	}
	b.size = max(b.size, part.size)
	return nil
}

// check returns an error if the response is not of the pinned file, which extends
// to the offset at least. Origins may ignore If-Range.
func (b *body) check(response *http.Response, p part) error {
	sameSize := p.size < 0 || p.size == b.size || b.size < 0 && p.size >= b.offset
	field := "Last-Modified" // an unchanged one needs no Date: it was strong before
	if strings.HasPrefix(b.validator, `"`) {
		field = "ETag"
	}
	if b.pinned && !(sameSize && b.validator != "" && response.Header.Get(field) == b.validator) {
		return exports.ErrChanged
	}
	if max(p.size, b.size) > b.opener.options.MaxBytes {
		return errTooLarge
	}
	return nil
}

// backoff sleeps after a failed attempt: exponentially with full jitter, at
// least Retry-After, and at most maxBackoff. Attempts count from 1.
func (b *body) backoff(attempt int, err error) error {
	delay := rand.N(min(b.opener.initialBackoff<<min(attempt-1, 10), maxBackoff))
	if status, ok := errors.AsType[*statusError](err); ok {
		delay = min(max(delay, status.retryAfter), maxBackoff)
	}
	select {
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	case <-time.After(delay):
		return nil
	}
}

func (b *body) logRetry(err error) {
	b.opener.options.Logger.LogAttrs(b.ctx, slog.LevelDebug, "retrying fetch",
		slog.String("url", redact(b.url)), slog.Any("err", err), slog.String("requestId", b.opener.options.RequestID(b.ctx)))
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
		limit := b.end - b.offset
		if b.end < 0 {
			limit = b.opener.options.MaxBytes - b.offset + 1 // one more, to detect a larger file
		}
		if limit == 0 {
			return 0, io.EOF
		}
		n, err := b.stream.Read(p[:min(int64(len(p)), limit)])
		b.offset += int64(n)
		switch {
		case b.offset > b.opener.options.MaxBytes:
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
	b.logRetry(cause)
	if err := b.backoff(b.resumes, nil); err != nil {
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
