// Package filename cleans the names of delivered files, in headers and archives.
// Every file system accepts a clean name, and none interprets it as a path, a
// device or another name.
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

// Clean returns name in a form that every file system accepts and no reader of
// archives or headers misinterprets. It returns the empty string if no character
// remains, and a clean name unchanged.
func Clean(name string) string {
	name = dropInvisible(strings.ToValidUTF8(name, ""))
	name = compose(name)
	name = trimName(strings.Map(replaceReserved, name))
	if rest, ok := strings.CutPrefix(name, "-"); ok {
		name = "_" + rest // programs take it for an option
	}
	return truncate(name, "")
}

// dropInvisible drops control and invisible characters, such as the direction
// marks that make one name look like another. It keeps a variation selector, as
// in emoji, after a character that it can apply to.
func dropInvisible(name string) string {
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

// compose returns name in NFC without grapheme joiners. Package norm inserts a
// joiner after 30 combining characters in a row. compose drops the joiner and
// the combining characters after it, which would have no stable order without
// it. No writing system needs more than 30.
func compose(name string) string {
	composed := norm.NFC.String(name)
	if !strings.Contains(composed, graphemeJoiner) {
		return composed
	}
	var kept strings.Builder
	start := 0
	for i, r := range name + "." {
		if p := norm.NFC.PropertiesString(string(r)); p.BoundaryBefore() && p.LeadCCC() == 0 {
			cluster, _, _ := strings.Cut(norm.NFC.String(name[start:i]), graphemeJoiner)
			kept.WriteString(cluster)
			start = i
		}
	}
	return kept.String()
}

// replaceReserved replaces the characters that Windows and path syntax reserve.
// It does not turn a backslash into a slash, which would make the name a path.
func replaceReserved(r rune) rune {
	if strings.ContainsRune(`/\:*?"<>|`, r) {
		return '_'
	}
	return r
}

// trimName removes blanks around a name and trailing dots, which Windows drops
// as well. It returns the empty string for "." and "..".
func trimName(name string) string {
	return strings.TrimRightFunc(strings.TrimLeftFunc(name, isBlank), func(r rune) bool {
		return r == '.' || isBlank(r)
	})
}

// isBlank reports whether r is white space or the blank Braille pattern.
func isBlank(r rune) bool {
	return unicode.IsSpace(r) || r == '\u2800'
}

// isDeviceName reports whether Windows takes the name, up to its first dot, for
// a device.
func isDeviceName(name string) bool {
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

// truncate inserts suffix before the extension of a name and shortens the stem
// so that the result has at most maxBytes bytes. If the shortened name is a device
// name, it prefixes name with an underscore.
func truncate(name, suffix string) string {
	short := truncateStem(name, suffix)
	if isDeviceName(short) {
		return truncateStem("_"+name, suffix)
	}
	return short
}

func truncateStem(name, suffix string) string {
	stem, ext := splitName(name)
	limit := maxBytes - len(suffix) - len(ext)
	if len(stem) > limit {
		stem = stem[:limit]
		for !utf8.ValidString(stem) { // at most three times
			stem = stem[:len(stem)-1]
		}
		if suffix == "" && ext == "" {
			stem = trimName(stem)
		}
	}
	return stem + suffix + ext
}

// splitName splits a name before its last dot. The extension is empty if the dot
// is the first character or the extension would exceed maxExtBytes.
func splitName(name string) (stem, ext string) {
	ext = path.Ext(name)
	if len(ext) == len(name) || len(ext) > maxExtBytes {
		return name, ""
	}
	return name[:len(name)-len(ext)], ext
}
