package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// stallResetBytes is the progress after which earlier idle timeouts no longer
// count. A lower threshold would let an origin trickle one byte per idle timeout.
const stallResetBytes = 1 << 20

// body is the content of a file. It reads one stream until the stream is
// interrupted, then resumes with another.
type body struct {
	opener    *Opener
	ctx       context.Context
	cancel    context.CancelCauseFunc
	url       *url.URL
	stream    *stream
	offset    int64  // of the next byte
	size      int64  // -1 if unknown
	validator string // strong ETag; empty if the file cannot be resumed
	stalls    int    // idle timeouts with less than stallResetBytes between them
	stalledAt int64  // offset of the last idle timeout
	err       error
}

// Read implements [io.Reader].
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

// read returns io.EOF only at the end of the file. A response may be longer or
// shorter than the file.
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
		case err == io.EOF && b.size < 0:
			return 0, io.EOF
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		if err := b.resume(err); err != nil {
			return 0, err
		}
	}
}

// readLimit returns the number of bytes to the end of the file. If the size is
// unknown, it returns one more than MaxBytes leaves, so that read detects a larger
// file.
func (b *body) readLimit() int64 {
	switch {
	case b.size >= 0:
		return b.size - b.offset
	case b.opener.maxBytes > 0:
		return b.opener.maxBytes - b.offset + 1
	}
	return 1 << 62
}

// resume replaces a stream that ended with cause by one that continues at the
// offset. It returns io.EOF if the file was complete and only its terminator was
// lost (416). Each new stream makes progress by at least one byte, so each call
// may make maxAttempts attempts.
func (b *body) resume(cause error) error {
	stalled := errors.Is(cause, errIdleTimeout)
	if stalled {
		if b.offset-b.stalledAt >= stallResetBytes {
			b.stalls = 0
		}
		b.stalls++
		b.stalledAt = b.offset
	}
	if b.validator == "" || !stalled && !errors.Is(cause, io.ErrUnexpectedEOF) || b.stalls >= b.opener.maxAttempts {
		return cause
	}
	b.stream.close()
	b.opener.logRetry(b.ctx, b.url, cause)
	if err := b.opener.backoff(b.ctx, 1, nil); err != nil {
		return err
	}
	next, err := b.opener.doWithRetry(b.ctx, b.url, http.Header{
		"Range":    {fmt.Sprintf("bytes=%d-", b.offset)},
		"If-Range": {b.validator},
	}, b.acceptPartial)
	if err == errComplete {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("%w; resume failed: %w", cause, err)
	}
	b.stream = next
	return nil
}

// acceptPartial accepts a response with the rest of the same file. It sets size.
func (b *body) acceptPartial(response *http.Response) error {
	if response.StatusCode == http.StatusRequestedRangeNotSatisfiable && b.isComplete(response.Header) {
		return errComplete
	}
	if response.StatusCode != http.StatusPartialContent {
		return newStatusError(response)
	}
	if err := checkContentEncoding(response); err != nil {
		return err
	}
	contentRange := response.Header.Get("Content-Range")
	first, size, ok := parseContentRange(contentRange)
	switch {
	case response.Header.Get("ETag") != b.validator:
		return errChanged
	case !ok, first != b.offset, b.size >= 0 && size != b.size:
		return fmt.Errorf("unexpected Content-Range %q", contentRange)
	case b.opener.tooLarge(size):
		return errTooLarge
	}
	b.size = size
	return nil
}

// isComplete reports whether the header of a 416 response proves that a file of
// unknown size ends at the offset (RFC 9110, sections 14.4 and 15.5.17). Without
// the ETag, another file may end there, because origins may ignore If-Range.
func (b *body) isComplete(header http.Header) bool {
	text, ok := strings.CutPrefix(header.Get("Content-Range"), "bytes */")
	size, err := parseDigits(text)
	return b.size < 0 && ok && err == nil && size == b.offset && header.Get("ETag") == b.validator
}

// Close ends the current request, and closes its connection unless the response
// was read to its end. It may be called during a Read.
func (b *body) Close() error {
	b.cancel(os.ErrClosed)
	return nil
}
