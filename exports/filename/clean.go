// Package filename makes the names under which files are delivered: in headers
// and as entries of archives. A name that it returns can be stored by every
// file system and is taken for a path, a device or another name by none.
package filename

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	maxBytes    = 255
	maxExtBytes = 32
)

// Clean makes a name that every file system takes and no reader of an
// archive or header misunderstands. It returns the empty string if nothing is
// left, and a clean name as it is.
func Clean(name string) string {
	name = visible(strings.ToValidUTF8(name, ""))
	name = compose(name)
	name = strings.Map(portable, name)
	return shorten(trimName(name), "")
}

// visible drops control characters and those that show nothing: among them the
// marks that change the direction of text, with which one name can look like
// another. A variation selector, as emoji have it, stays where it has something
// to vary.
func visible(name string) string {
	last := ' '
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		case unicode.Is(unicode.Variation_Selector, r) &&
			(last == '.' || isBlank(last) || unicode.Is(unicode.Variation_Selector, last)):
			return -1
		}
		last = r
		return r
	}, name)
}

const graphemeJoiner = "\u034f"

// compose puts a name without grapheme joiners into the form NFC. Where norm
// counts more than 30 combining characters in a row it puts a joiner between.
// None is kept, and of those that belong to one character no more than 30,
// which no writing needs: without the joiner their order would not be settled.
func compose(name string) string {
	composed := norm.NFC.String(name)
	if !strings.Contains(composed, graphemeJoiner) {
		return composed
	}
	var kept strings.Builder
	start := 0
	for i, r := range name + "." {
		if p := norm.NFC.PropertiesString(string(r)); p.BoundaryBefore() && p.LeadCCC() == 0 {
			whole, _, _ := strings.Cut(norm.NFC.String(name[start:i]), graphemeJoiner)
			kept.WriteString(whole)
			start = i
		}
	}
	return kept.String()
}

// portable replaces what Windows and path syntax reserve. A backslash must
// not become a slash, which would make a path of the name.
func portable(r rune) rune {
	if strings.ContainsRune(`/\:*?"<>|`, r) {
		return '_'
	}
	return r
}

// trimName removes what is blank around a name, and the trailing dots that
// Windows drops like spaces. Nothing is left of "." and "..".
func trimName(name string) string {
	return strings.TrimRightFunc(strings.TrimLeftFunc(name, isBlank), func(r rune) bool {
		return r == '.' || isBlank(r)
	})
}

// isBlank reports whether r is white space or the space of Braille, a cell
// without dots.
func isBlank(r rune) bool {
	return unicode.IsSpace(r) || r == '\u2800'
}

// reservedByWindows reports whether the name, up to its first dot, is that of
// a device.
func reservedByWindows(name string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	base = strings.TrimSpace(base)
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	if device, ok := strings.CutPrefix(base, "COM"); ok {
		base = device
	} else if device, ok := strings.CutPrefix(base, "LPT"); ok {
		base = device
	} else {
		return false
	}
	return utf8.RuneCountInString(base) == 1 && strings.Contains("0123456789¹²³", base)
}

// shorten puts suffix before the extension of a name and cuts the part before
// both so that the whole has at most maxBytes bytes. What is then the name of
// a device is marked as none, and this only now: a cut can bring one to light.
func shorten(name, suffix string) string {
	short := cut(name, suffix)
	if reservedByWindows(short) {
		return cut("_"+name, suffix)
	}
	return short
}

func cut(name, suffix string) string {
	stem, ext := splitName(name)
	room := maxBytes - len(suffix) - len(ext)
	if len(stem) > room {
		stem = stem[:room]
		for !utf8.ValidString(stem) { // at most three times
			stem = stem[:len(stem)-1]
		}
		if suffix == "" && ext == "" {
			stem = trimName(stem)
		}
	}
	return stem + suffix + ext
}

// splitName splits a name before its last dot, unless it begins with that dot
// or what follows is too long to be an extension.
func splitName(name string) (stem, ext string) {
	ext = path.Ext(name)
	if len(ext) == len(name) || len(ext) > maxExtBytes {
		return name, ""
	}
	return name[:len(name)-len(ext)], ext
}
