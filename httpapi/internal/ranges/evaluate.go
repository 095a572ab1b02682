package ranges

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Representation is what a GET would send.
type Representation struct {
	Size     int64     // in bytes; negative if unknown, which disables ranges
	ETag     string    // with its quotes, empty if there is none
	Modified time.Time // as in Last-Modified, zero if there is none

	// ModifiedStrong means that the content did not change twice within the
	// second of Modified (RFC 9110, section 8.8.2.2). Otherwise a date in
	// If-Range matches nothing.
	ModifiedStrong bool
}

// Evaluate evaluates a GET or HEAD request in the order of RFC 9110, section
// 13.2.2. The status is one of
//
//   - 200, for the complete representation
//   - 206, for the ranges, at least one
//   - 304 or 412, by a precondition
//   - 416, if no range is satisfiable
//
// HEAD ignores Range (section 14.2). Evaluate assumes that a representation
// exists, so * matches it.
func Evaluate(method string, header http.Header, rep Representation) (status int, list []Range) {
	if status := precondition(header, rep); status != http.StatusOK {
		return status, nil
	}
	if method != http.MethodGet || rep.Size < 0 || !ifRange(header, rep) {
		return http.StatusOK, nil
	}
	return Parse(header["Range"], rep.Size)
}

const maxRanges = 8 // of one request that are served

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

// precondition returns 200 if the request is to be processed, or else the status of
// the response.
func precondition(header http.Header, rep Representation) int {
	if lines := header["If-Match"]; lines != nil {
		if !ParseTags(lines).Match(rep.ETag, false) {
			return http.StatusPreconditionFailed
		}
	} else if date, ok := rep.date(header["If-Unmodified-Since"]); ok && rep.modified().After(date) {
		return http.StatusPreconditionFailed
	}
	if lines := header["If-None-Match"]; lines != nil {
		if ParseTags(lines).Match(rep.ETag, true) {
			return http.StatusNotModified
		}
	} else if date, ok := rep.date(header["If-Modified-Since"]); ok && !rep.modified().After(date) {
		return http.StatusNotModified
	}
	return http.StatusOK
}

// ifRange reports whether If-Range permits to send ranges (section 13.1.5).
func ifRange(header http.Header, rep Representation) bool {
	lines := header["If-Range"]
	if len(lines) != 1 {
		return lines == nil
	}
	if strings.HasPrefix(lines[0], `"`) {
		return lines[0] == rep.ETag
	}
	date, ok := rep.date(lines)
	return ok && rep.ModifiedStrong && rep.modified().Equal(date)
}

// date parses a header with a date. It returns false if the header must be ignored:
// it is absent or invalid, or rep has no modification time.
func (rep *Representation) date(lines []string) (date time.Time, ok bool) {
	if len(lines) != 1 || rep.Modified.IsZero() {
		return time.Time{}, false
	}
	date, err := http.ParseTime(lines[0])
	return date, err == nil
}

func (rep *Representation) modified() time.Time { return rep.Modified.Truncate(time.Second) }

// Tags is the value of If-Match or If-None-Match (sections 13.1.1 and 13.1.2).
type Tags struct {
	Any  bool     // the value is *
	List []string // with their quotes, and W/ if they are weak
}

// ParseTags parses the lines of a header up to the first malformed tag.
func ParseTags(lines []string) (t Tags) {
	rest := strings.Trim(strings.Join(lines, ","), " \t")
	if rest == "*" {
		t.Any = true
		return t
	}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		opaque, quoted := strings.CutPrefix(strings.TrimPrefix(rest, "W/"), `"`) // section 8.8.3
		_, after, ok := strings.Cut(opaque, `"`)
		if !ok || !quoted {
			return t
		}
		t.List = append(t.List, strings.TrimSuffix(rest, after))
		rest = strings.TrimLeft(after, " \t")
		if rest != "" && rest[0] != ',' {
			return t
		}
	}
}

// Match reports whether t is * or has the tag, by weak or strong comparison (section
// 8.8.3.2).
func (t Tags) Match(tag string, weak bool) bool {
	if !weak {
		return t.Any || strings.HasPrefix(tag, `"`) && slices.Contains(t.List, tag)
	}
	return t.Any || slices.ContainsFunc(t.List, func(given string) bool {
		return strings.TrimPrefix(given, "W/") == strings.TrimPrefix(tag, "W/")
	})
}
