// Package ranges evaluates conditional requests and range requests by RFC 9110,
// sections 13 and 14. It does no I/O.
package ranges

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const maxRanges = 8 // of one request that are served

// Range is a part of a representation. Its Length is positive.
type Range struct{ Start, Length int64 }

// ContentRange returns the value of the header Content-Range for a representation
// of size bytes.
func (r Range) ContentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.Start, r.Start+r.Length-1, size)
}

// Unsatisfied returns the value of the header Content-Range of status 416.
func Unsatisfied(size int64) string { return fmt.Sprintf("bytes */%d", size) }

// Parse resolves the lines of a Range header for a representation of size bytes. With
// status 206 it returns the satisfiable ranges in the order of the request, which do not
// overlap. If there is none, the status is 416.
//
// With status 200 the header must be ignored: it is absent or invalid, its unit is not
// bytes, it has more than 8 ranges, some of them overlap, or the representation is empty.
// RFC 9110, section 14.2, permits this.
func Parse(lines []string, size int64) (status int, list []Range) {
	if len(lines) != 1 || size == 0 {
		return http.StatusOK, nil
	}
	unit, set, found := strings.Cut(lines[0], "=")
	if !found || !strings.EqualFold(unit, "bytes") {
		return http.StatusOK, nil
	}
	count := 0
	for spec := range strings.SplitSeq(set, ",") {
		spec = strings.Trim(spec, " \t")
		if spec == "" {
			continue // an empty list element: section 5.6.1.2
		}
		r, ok := parseSpec(spec, size)
		if count++; !ok || count > maxRanges {
			return http.StatusOK, nil
		}
		if r.Length > 0 {
			list = append(list, r)
		}
	}
	switch {
	case count == 0 || overlap(list):
		return http.StatusOK, nil
	case list == nil:
		return http.StatusRequestedRangeNotSatisfiable, nil
	}
	return http.StatusPartialContent, list
}

// parseSpec parses an int-range or a suffix-range of section 14.1.1. The Length of
// an unsatisfiable range is 0.
func parseSpec(spec string, size int64) (r Range, ok bool) {
	firstText, lastText, found := strings.Cut(spec, "-")
	first, firstOK := parsePosition(firstText)
	last, lastOK := parsePosition(lastText)
	switch {
	case found && firstText == "" && lastOK:
		n := min(last, size)
		return Range{size - n, n}, true
	case found && firstOK && lastText == "":
		last = size - 1
	case !found || !firstOK || !lastOK || first > last:
		return Range{}, false
	}
	if first >= size {
		return Range{}, true
	}
	return Range{first, min(last, size-1) - first + 1}, true
}

func overlap(list []Range) bool {
	for i, a := range list {
		for _, b := range list[:i] {
			if a.Start < b.Start+b.Length && b.Start < a.Start+a.Length {
				return true
			}
		}
	}
	return false
}

// parsePosition parses a decimal number. A number beyond int64 becomes the largest
// int64, which no position in a representation reaches.
func parsePosition(text string) (int64, bool) {
	n, _ := strconv.ParseUint(text, 10, 63)
	return int64(n), text != "" && strings.Trim(text, "0123456789") == ""
}

// Multipart is what surrounds the ranges in a response with several of them (RFC 9110,
// section 14.6).
type Multipart struct {
	list        []Range
	size        int64 // of the representation
	contentType string
	boundary    string
}

// NewMultipart returns the body for ranges of a representation of size bytes and
// the given Content-Type. It has a random boundary.
func NewMultipart(list []Range, size int64, contentType string) *Multipart {
	return &Multipart{list, size, contentType, rand.Text()}
}

// ContentType returns the Content-Type of the response.
func (m *Multipart) ContentType() string { return "multipart/byteranges; boundary=" + m.boundary }

// Length returns the Content-Length of the response.
func (m *Multipart) Length() int64 {
	length := int64(len(m.End()))
	for i, r := range m.list {
		length += int64(len(m.PartHeader(i))) + r.Length
	}
	return length
}

// PartHeader returns what precedes the bytes of the range with an index.
func (m *Multipart) PartHeader(i int) string {
	separator := "\r\n--"
	if i == 0 {
		separator = "--"
	}
	return separator + m.boundary +
		"\r\nContent-Type: " + m.contentType +
		"\r\nContent-Range: " + m.list[i].ContentRange(m.size) + "\r\n\r\n"
}

// End returns what follows the bytes of the last range.
func (m *Multipart) End() string { return "\r\n--" + m.boundary + "--\r\n" }
