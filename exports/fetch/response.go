package fetch

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

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
//
// The origin may send less of a range than was requested (RFC 9110, section 15.3.7). It
// must not encode the content: the size of the decoded file would be unknown.
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
	for coding := range strings.SplitSeq(strings.Join(response.Header.Values("Content-Encoding"), ","), ",") {
		coding = strings.ToLower(strings.TrimSpace(coding)) // some object stores keep aws-chunked from the upload
		if err == nil && !slices.Contains([]string{"", "identity", "aws-chunked"}, coding) {
			err = fmt.Errorf("unexpected Content-Encoding %q", coding)
		}
	}
	return p, err
}

func parsePartial(response *http.Response, first int64) (part, error) {
	header := response.Header.Get("Content-Range")
	p, ok := parseContentRange(header)
	mediaType := strings.ToLower(response.Header.Get("Content-Type"))
	switch {
	case !ok && strings.HasSuffix(header, "/0"): // an empty file has no range
		return part{}, errNoRange
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

// fileName returns the file name of a Content-Disposition header, preferring
// filename* (RFC 6266, section 4.3). It returns the empty string if there is none. Like
// browsers, it takes what is not UTF-8 for Windows-1252.
func fileName(disposition string) string {
	if !utf8.ValidString(disposition) {
		disposition, _ = charmap.Windows1252.NewDecoder().String(disposition)
	}
	if _, parameters, err := mime.ParseMediaType(disposition); err == nil {
		return parameters["filename"]
	}
	if match := looseExtended.FindStringSubmatch(disposition); match != nil {
		if name, err := url.PathUnescape(match[1]); err == nil {
			return name
		}
	}
	if match := looseFileName.FindStringSubmatch(disposition); match != nil {
		return match[1]
	}
	return ""
}

// looseFileName and looseExtended match a file name in a malformed header, most often one
// that contains spaces without quotes, or parentheses, which encodeURIComponent leaves.
var (
	looseFileName = regexp.MustCompile(`(?i)\bfilename\s*=\s*"?([^";]*)`)
	looseExtended = regexp.MustCompile(`(?i)\bfilename\*\s*=\s*"?utf-8'[^';]*'([^";]*)`)
)

// entityTag returns tag if it is well-formed (RFC 9110, section 8.8.3), and the
// empty string otherwise.
func entityTag(tag string) string {
	opaque, _ := strings.CutPrefix(tag, "W/")
	if len(opaque) < 2 || opaque[0] != '"' || strings.IndexByte(opaque[1:], '"') != len(opaque)-2 {
		return ""
	}
	return tag
}

// parseTime returns the zero Time if text is not an HTTP date.
func parseTime(text string) time.Time {
	t, _ := http.ParseTime(text)
	return t.UTC()
}

// parseDigits parses a number without a sign.
func parseDigits(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}

// strongValidator returns the ETag of a response, or else its Last-Modified, in
// the form of If-Range. It returns the empty string if neither is strong (RFC
// 9110, sections 8.8.1 and 13.1.5).
//
// A Last-Modified is strong if it is at least one second before the Date of the
// response, because a later change then has a later time (section 8.8.2.2).
func strongValidator(header http.Header) string {
	if etag := entityTag(header.Get("ETag")); etag != "" && !strings.HasPrefix(etag, "W/") {
		return etag
	}
	text := header.Get("Last-Modified")
	modified := parseTime(text)
	if modified.IsZero() || parseTime(header.Get("Date")).Sub(modified) < time.Second {
		return ""
	}
	return text
}
