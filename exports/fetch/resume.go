package fetch

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// enoughProgress is how much has to come before a file that stood still is
// forgiven anew. Were a byte enough, an origin could hold a reader for the idle
// time with each.
const enoughProgress = 1 << 20

// resume gets a stream that goes on where the last one broke off or stood
// still, or returns an error. A stream begins with a byte, so tries are counted
// anew only after progress; the times that a file stands still are, after
// enoughProgress since the last of them. It returns io.EOF if the file had come
// to its end, and only the sign of that was lost.
func (b *body) resume(cause error) error {
	stalled := errors.Is(cause, errStalled)
	if stalled {
		if b.offset-b.stalledAt >= enoughProgress {
			b.stalls = 0
		}
		b.stalls++
		b.stalledAt = b.offset
	}
	if b.validator == "" || !stalled && !errors.Is(cause, io.ErrUnexpectedEOF) || b.stalls >= b.opener.tries {
		return cause
	}
	b.stream.close()
	b.opener.again(b.ctx, b.address, cause)
	if err := b.opener.pause(b.ctx, 1, nil); err != nil {
		return err
	}
	next, err := b.opener.try(b.ctx, b.address, http.Header{
		"Range":    {fmt.Sprintf("bytes=%d-", b.offset)},
		"If-Range": {b.validator},
	}, b.acceptRest)
	if err == errNoRest {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("%w, and then %w", cause, err)
	}
	b.stream = next
	return nil
}

// acceptRest accepts the rest of the same file and learns its size.
func (b *body) acceptRest(response *http.Response) error {
	if response.StatusCode == http.StatusRequestedRangeNotSatisfiable && b.ended(response.Header) {
		return errNoRest
	}
	if response.StatusCode != http.StatusPartialContent {
		return newStatusError(response)
	}
	if err := checkCoding(response); err != nil {
		return err
	}
	first, total, ok := parseContentRange(response.Header.Get("Content-Range"))
	switch {
	case response.Header.Get("ETag") != b.validator:
		return errChanged
	case !ok, first != b.offset, b.size >= 0 && total != b.size:
		return errors.New("the rest of the file is not the one asked for")
	case b.opener.exceeds(total):
		return errTooLarge
	}
	b.size = total
	return nil
}

// ended reports whether a 416 says that what has come is all of a file whose
// size was not known (RFC 9110, sections 14.4 and 15.5.17). It need not repeat
// the entity tag: with another one the range would not have been looked at.
func (b *body) ended(header http.Header) bool {
	length, ok := strings.CutPrefix(header.Get("Content-Range"), "bytes */")
	total, err := parseCount(length)
	tag := header.Get("ETag")
	return b.size < 0 && ok && err == nil && total == b.offset && (tag == "" || tag == b.validator)
}

// parseContentRange reads the first position and the complete length of a
// range of bytes (RFC 9110, section 14.4). It wants both to be known.
func parseContentRange(header string) (first, total int64, ok bool) {
	header, ok = strings.CutPrefix(header, "bytes ")
	positions, length, _ := strings.Cut(header, "/")
	start, end, _ := strings.Cut(positions, "-")
	var errs [3]error
	var last int64
	first, errs[0] = parseCount(start)
	last, errs[1] = parseCount(end)
	total, errs[2] = parseCount(length)
	ok = ok && errors.Join(errs[:]...) == nil && first <= last && last < total
	return first, total, ok
}

// parseCount reads digits alone.
func parseCount(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}
