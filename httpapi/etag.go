package httpapi

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"example.com/canvasback/symbols"
)

// entityTag is the strong entity tag (RFC 9110, section 8.8.3) of what has a
// version.
func entityTag(version symbols.Version) string {
	return `"` + strconv.FormatInt(int64(version), 36) + `"`
}

// passingTag is an entity tag for an answer that begins when something has the
// version, but takes so long that it may mix in later ones. No other answer
// has the same tag. It is still a sign of the version: whoever finds that
// version in place knows that nothing was mixed in.
func passingTag(version symbols.Version) string {
	return strings.TrimSuffix(entityTag(version), `"`) + "-" + strconv.FormatUint(rand.Uint64(), 36) + `"`
}

// versionOf is the version that an entity tag is a sign of, or 0, which
// nothing has, if the tag is none of ours.
func versionOf(opaque string) symbols.Version {
	text, _, _ := strings.Cut(opaque, "-")
	version, err := strconv.ParseInt(text, 36, 64)
	if err != nil || strconv.FormatInt(version, 36) != text {
		return 0
	}
	return symbols.Version(version)
}

// tagList is the value of an If-Match or If-None-Match header (RFC 9110,
// sections 13.1.1 and 13.1.2).
type tagList struct {
	any    bool // the value is *
	strong []symbols.Version
	weak   []symbols.Version
}

// readTags reads the lines of a header. What stands behind a malformed tag is
// not read.
func readTags(lines []string) tagList {
	var list tagList
	rest := strings.Trim(strings.Join(lines, ","), " \t")
	if rest == "*" {
		list.any = true
		return list
	}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		opaque, isWeak := strings.CutPrefix(rest, "W/")
		opaque, quoted := strings.CutPrefix(opaque, `"`)
		opaque, after, closed := strings.Cut(opaque, `"`)
		if !quoted || !closed {
			return list
		}
		if isWeak {
			list.weak = append(list.weak, versionOf(opaque))
		} else {
			list.strong = append(list.strong, versionOf(opaque))
		}
		rest = strings.TrimLeft(after, " \t")
		if rest != "" && rest[0] != ',' {
			return list
		}
	}
}

// unchanged reports whether the client holds what has the version, by weak
// comparison.
func unchanged(header http.Header, version symbols.Version) bool {
	list := readTags(header["If-None-Match"])
	return list.any || contains(list.strong, version) || contains(list.weak, version)
}

func contains(list []symbols.Version, version symbols.Version) bool {
	return len(list) > 0 && version.Matches(list)
}

// ifMatch is the part of an endpoint's input that says which versions a change
// is meant for.
type ifMatch struct {
	wanted []symbols.Version
}

// readHeader compares strongly: a weak tag matches nothing. A list without any
// tag that could match leaves a version that nothing has.
func (m *ifMatch) readHeader(header http.Header) {
	lines := header["If-Match"]
	if lines == nil {
		return
	}
	if list := readTags(lines); !list.any {
		m.wanted = append(list.strong, 0)
	}
}
