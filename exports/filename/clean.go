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
	name = strings.Map(visible, strings.ToValidUTF8(name, ""))
	name = norm.NFC.String(name)
	name = strings.Map(portable, name)
	return shorten(trimName(name), "")
}

// visible drops control characters and those without a width of their own:
// among them the marks that change the direction of text, with which one name
// can look like another.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
		return -1
	}
	return r
}

// portable replaces what Windows and path syntax reserve. A backslash must
// not become a slash, which would make a path of the name.
func portable(r rune) rune {
	if strings.ContainsRune(`/\:*?"<>|`, r) {
		return '_'
	}
	return r
}

// trimName removes white space around a name and the trailing dots and spaces
// that Windows drops. Nothing is left of "." and "..".
func trimName(name string) string {
	return strings.TrimRightFunc(strings.TrimSpace(name), func(r rune) bool {
		return r == '.' || unicode.IsSpace(r)
	})
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
