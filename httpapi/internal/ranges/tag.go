package ranges

import (
	"slices"
	"strings"
)

// Tag is an entity tag (RFC 9110, section 8.8.3).
type Tag struct {
	Opaque string // the text between the quotes
	Weak   bool
}

// Tags is the value of If-Match or If-None-Match (sections 13.1.1 and 13.1.2).
type Tags struct {
	Any  bool // the value is *
	List []Tag
}

// ParseTags parses the lines of a header up to the first malformed tag.
func ParseTags(lines []string) (t Tags) {
	rest := strings.Trim(strings.Join(lines, ","), " \t")
	if rest == "*" {
		t.Any = true
		return t
	}
	for {
		tag, after, ok := cutTag(strings.TrimLeft(rest, " \t,"))
		if !ok {
			return t
		}
		t.List = append(t.List, tag)
		rest = strings.TrimLeft(after, " \t")
		if rest != "" && rest[0] != ',' {
			return t
		}
	}
}

// ParseTag parses a single tag.
func ParseTag(text string) (tag Tag, ok bool) {
	tag, after, ok := cutTag(text)
	return tag, ok && after == ""
}

// cutTag parses the tag at the start of text.
func cutTag(text string) (tag Tag, after string, ok bool) {
	text, tag.Weak = strings.CutPrefix(text, "W/")
	text, quoted := strings.CutPrefix(text, `"`)
	tag.Opaque, after, ok = strings.Cut(text, `"`)
	return tag, after, ok && quoted
}

// MatchStrong reports whether t is * or has the tag, by strong comparison (section
// 8.8.3.2).
func (t Tags) MatchStrong(tag Tag) bool {
	return t.Any || !tag.Weak && slices.Contains(t.List, tag)
}

// MatchWeak reports whether t is * or has the tag, by weak comparison.
func (t Tags) MatchWeak(tag Tag) bool {
	return t.Any || slices.ContainsFunc(t.List, func(other Tag) bool { return other.Opaque == tag.Opaque })
}
