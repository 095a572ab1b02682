package symbols

import (
	"fmt"
	"slices"
	"strings"
)

// Tags are the tags of a symbol, in order. They are immutable and comparable. The zero
// value is none.
type Tags struct {
	text string // of each tag, escaped, and a newline behind it
}

const (
	maxTags = 32
	maxTag  = 64 // characters
)

var tagEscapes, tagUnescapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`), strings.NewReplacer(`\\`, `\`, `\n`, "\n")

// NewTags returns up to 32 different tags of 1 to 64 characters each, in the order given.
// Otherwise the error matches [ErrInvalid].
func NewTags(list ...string) (Tags, error) {
	if len(list) > maxTags {
		return Tags{}, invalid(fmt.Sprintf("tags must be at most %d", maxTags))
	}
	var text strings.Builder
	for i, tag := range list {
		field := fmt.Sprintf("tags[%d]", i)
		if err := checkLabel(field, tag, maxTag); err != nil {
			return Tags{}, err
		}
		if slices.Contains(list[:i], tag) {
			return Tags{}, invalid(field + " must not be repeated")
		}
		text.WriteString(tagEscapes.Replace(tag) + "\n")
	}
	return Tags{text.String()}, nil
}

// ParseTags reverses [Tags.String]. It is for implementations of [Store].
func ParseTags(text string) Tags { return Tags{text} }

// check returns an error for tags that NewTags does not return: those of ParseTags may be
// any text.
func (t Tags) check() error {
	checked, err := NewTags(t.List()...)
	if err == nil && checked != t {
		return invalid("tags must be those of NewTags")
	}
	return err
}

// String returns a text for stores.
func (t Tags) String() string { return t.text }

// List returns the tags in order, or nil if there are none.
func (t Tags) List() []string {
	var list []string
	for line := range strings.Lines(t.text) {
		list = append(list, tagUnescapes.Replace(strings.TrimSuffix(line, "\n")))
	}
	return list
}
