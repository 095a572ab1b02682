package exports

import (
	"mime"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const (
	fallbackName = "canvas-export"
	manifestName = "manifest.json"
	maxNameBytes = 255
	maxExtBytes  = 32
)

// fileName is the name under which an export is delivered: the registered one,
// else the one its origin proposes, else the end of its address, else a
// fallback with an extension for its content type.
func fileName(export Export, file *File) string {
	for _, name := range []string{export.FileName, file.Name, lastSegment(export.ExportedURL)} {
		if name = cleanName(name); name != "" {
			return name
		}
	}
	return fallbackName + extension(file.Type)
}

// lastSegment is the unescaped end of an address's path.
func lastSegment(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	escaped := u.EscapedPath()
	segment, err := url.PathUnescape(escaped[strings.LastIndexByte(escaped, '/')+1:])
	if err != nil {
		return ""
	}
	return segment
}

// cleanName makes a name that every file system takes and no reader of an
// archive or header misunderstands. It returns the empty string if nothing is
// left, and a clean name as it is.
func cleanName(name string) string {
	name = strings.Map(visible, strings.ToValidUTF8(name, ""))
	name = norm.NFC.String(name)
	name = strings.Map(portable, name)
	name = trimName(name)
	if reservedByWindows(name) {
		name = "_" + name
	}
	return shorten(name, "")
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

// shorten puts suffix before the extension of a clean name and cuts the part
// before both so that the whole has at most maxNameBytes bytes.
func shorten(name, suffix string) string {
	stem, ext := splitName(name)
	room := maxNameBytes - len(suffix) - len(ext)
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

// extension returns a file name extension for a content type, dot included,
// or the empty string. It knows what a viewer exports, and does not depend on
// the machine it runs on.
func extension(contentType string) string {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	return extensions[mediaType]
}

var extensions = map[string]string{
	"application/dxf":  ".dxf",
	"application/json": ".json",
	"application/pdf":  ".pdf",
	"application/xml":  ".xml",
	"application/zip":  ".zip",
	"image/bmp":        ".bmp",
	"image/gif":        ".gif",
	"image/jpeg":       ".jpg",
	"image/png":        ".png",
	"image/svg+xml":    ".svg",
	"image/tiff":       ".tiff",
	"image/vnd.dwg":    ".dwg",
	"image/vnd.dxf":    ".dxf",
	"image/webp":       ".webp",
	"text/csv":         ".csv",
	"text/html":        ".html",
	"text/plain":       ".txt",
	"text/xml":         ".xml",
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         ".xlsx",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   ".docx",
}

// entryNames hands out the names of an archive's entries, each once even where
// letter case and Unicode composition are not told apart.
type entryNames struct {
	taken map[string]bool
	next  map[string]int // first suffix to try, by name
}

func newEntryNames() *entryNames {
	return &entryNames{
		taken: map[string]bool{foldName(manifestName): true},
		next:  make(map[string]int),
	}
}

// unique returns a clean name or, if it has been given out, the name with the
// first free number: plan.pdf, plan-1.pdf, plan-2.pdf.
func (n *entryNames) unique(name string) string {
	folded := foldName(name)
	for candidate, key := name, folded; ; {
		if !n.taken[key] {
			n.taken[key] = true
			return candidate
		}
		n.next[folded]++
		candidate = shorten(name, "-"+strconv.Itoa(n.next[folded]))
		key = foldName(candidate)
	}
}

// foldName is equal for names that some file system takes for the same.
func foldName(name string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
}
