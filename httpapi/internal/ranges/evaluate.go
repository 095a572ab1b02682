package ranges

import (
	"net/http"
	"slices"
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
