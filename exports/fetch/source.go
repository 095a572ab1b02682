package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"example.com/canvasback/exports"
)

// source is the file at a URL. It is pinned to the size and the validator of its
// first response, or to given ones. Responses that differ from them are errors.
type source struct {
	opener    *Opener
	ctx       context.Context
	url       *url.URL
	pinned    bool
	size      int64  // -1 if unknown
	validator string // the value of If-Range, empty if there is none
}

// open requests the bytes from offset to end, or all from offset on if end is -1.
// It makes attempts until one succeeds, an error is permanent, or maxAttempts is
// reached.
func (s *source) open(offset, end int64) (*stream, error) {
	for attempt := 1; ; attempt++ {
		stream, err := s.attempt(offset, end)
		s.recordAttempt(err)
		if err == nil || s.ctx.Err() != nil || attempt >= s.opener.options.MaxAttempts || !isTransient(err) {
			return stream, err
		}
		s.opener.stats.retries.Add(1)
		s.opener.logRetry(s.ctx, s.url, err)
		if err := s.opener.backoff(s.ctx, attempt, err); err != nil {
			return nil, err
		}
	}
}

// attempt makes one attempt. If the origin cannot satisfy the range or does not
// state the size of the file, attempt requests the complete file: the file may be
// empty, shorter than before, or served without ranges.
func (s *source) attempt(offset, end int64) (*stream, error) {
	first, header := s.rangeHeader(offset, end)
	stream, err := s.request(offset, end, first, header)
	if err == errNoRange {
		stream, err = s.request(offset, end, -1, http.Header{})
	}
	return stream, err
}

// rangeHeader returns the header of a request, and the position at which its
// range begins. Both are -1 and empty for a complete file.
//
// A request cannot ask for no bytes. If there are none from offset to end, the
// range has the byte at offset. If end is unknown, offset may be the end of the
// file, so the range begins one byte before.
func (s *source) rangeHeader(offset, end int64) (first int64, header http.Header) {
	header = http.Header{}
	if offset == 0 && end == s.size {
		return -1, header
	}
	first = offset
	if end < 0 {
		first--
	}
	value := fmt.Sprintf("bytes=%d-", first)
	if end != s.size {
		value = fmt.Sprintf("bytes=%d-%d", first, max(first, end-1))
	}
	header.Set("Range", value)
	if s.validator != "" {
		header.Set("If-Range", s.validator)
	}
	return first, header
}

// request sends one request and follows redirects. It returns when the first byte
// has arrived, or the response is known to have none. The argument first is
// the beginning of the range in the header, -1 if there is none.
func (s *source) request(offset, end, first int64, header http.Header) (*stream, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	response, err := s.opener.followRedirects(ctx, s.url, header) //nolint:bodyclose // the stream closes it
	if err != nil {
		cancel(err)
		return nil, err
	}
	stream := newStream(ctx, cancel, response, s.opener.options.IdleTimeout)
	part, err := parsePart(response, first)
	if err == nil {
		err = s.check(response, part, offset)
	}
	if err == nil {
		err = stream.start(part, offset, end)
	}
	if err != nil {
		if status, ok := errors.AsType[*statusError](err); ok {
			status.code = stream.errorCode()
		}
		stream.close()
		return nil, err
	}
	if !s.pinned {
		s.pinned, s.validator = true, strongValidator(response.Header)
	}
	s.size = max(s.size, part.size)
	return stream, nil
}

// check returns an error if the response is not of the pinned file, which extends
// to offset at least. Origins may ignore If-Range.
func (s *source) check(response *http.Response, p part, offset int64) error {
	sameSize := p.size < 0 || p.size == s.size || s.size < 0 && p.size >= offset
	if s.pinned && !(sameSize && hasValidator(response.Header, s.validator)) {
		return exports.ErrChanged
	}
	if s.opener.tooLarge(p.size) {
		return errTooLarge
	}
	return nil
}

// recordAttempt records an attempt, unless its caller has ended it.
func (s *source) recordAttempt(err error) {
	if s.ctx.Err() != nil {
		err = context.Cause(s.ctx) // exports.ErrTimeout if the host was slow
	}
	s.opener.hosts.record(s.url.Host, err)
}

// backoff sleeps after a failed attempt: exponentially with full jitter, at
// least Retry-After, and at most maxBackoff. Attempts count from 1.
func (o *Opener) backoff(ctx context.Context, attempt int, err error) error {
	delay := rand.N(min(o.initialBackoff<<min(attempt-1, 10), maxBackoff))
	if status, ok := errors.AsType[*statusError](err); ok {
		delay = min(max(delay, status.retryAfter), maxBackoff)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func (o *Opener) logRetry(ctx context.Context, u *url.URL, err error) {
	o.options.Logger.LogAttrs(ctx, slog.LevelDebug, "retrying fetch",
		slog.String("url", redact(u)), slog.Any("err", err), slog.String("requestId", o.options.RequestID(ctx)))
}
