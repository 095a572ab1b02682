package fetch

import (
	"fmt"
	"net/http"
	"strings"

	"example.com/canvasback/exports"
)

type part struct {
	first  int64 // position of the first byte
	length int64 // in bytes, -1 if unknown
	size   int64 // of the complete file, -1 if unknown
}

// parsePart returns the part in a response to a request for a range that begins
// at first, or for the complete file if first is -1. It returns errNoRange if a
// request for the complete file may succeed instead.
func parsePart(response *http.Response, first int64) (p part, err error) {
	switch status := response.StatusCode; {
	case status == http.StatusOK:
		p.length, p.size = response.ContentLength, response.ContentLength
	case status == http.StatusPartialContent && first >= 0:
		p, err = parsePartial(response, first)
	case status == http.StatusRequestedRangeNotSatisfiable && first >= 0:
		err = errNoRange
	case status == http.StatusPreconditionFailed && first >= 0:
		err = exports.ErrChanged
	default:
		err = newStatusError(response)
	}
	if err == nil {
		err = checkContentEncoding(response)
	}
	return p, err
}

// parsePartial returns the part in a 206 response (RFC 9110, section 15.3.7). The
// origin may send less than was requested.
func parsePartial(response *http.Response, first int64) (part, error) {
	header := response.Header.Get("Content-Range")
	p, ok := parseContentRange(header)
	mediaType := strings.ToLower(response.Header.Get("Content-Type"))
	switch {
	case !ok, p.first != first, response.ContentLength >= 0 && response.ContentLength != p.length,
		strings.HasPrefix(mediaType, "multipart/byteranges"):
		return part{}, fmt.Errorf("unexpected Content-Range %q", header)
	case p.size < 0:
		return part{}, errNoRange
	}
	return p, nil
}

// parseContentRange parses the Content-Range of a byte range (RFC 9110, section
// 14.4). It reports false if there is none.
func parseContentRange(header string) (p part, ok bool) {
	header, ok = strings.CutPrefix(header, "bytes ")
	positions, length, _ := strings.Cut(header, "/")
	start, end, _ := strings.Cut(positions, "-")
	first, errFirst := parseDigits(start)
	last, errLast := parseDigits(end)
	size, errSize := parseDigits(length)
	if length == "*" {
		size, errSize = -1, nil
	}
	ok = ok && errFirst == nil && errLast == nil && errSize == nil && first <= last && (last < size || size < 0)
	return part{first: first, length: last - first + 1, size: size}, ok
}
