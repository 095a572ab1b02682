// Package filename cleans the names of delivered files, in headers and archives.
// Every file system accepts a clean name, and none interprets it as a path, a
// device or another name.
package filename

import (
	"cmp"
	"fmt"
	"mime"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const (
	maxBytes     = 255
	maxExtBytes  = 32
	maxPathBytes = 4000 // Linux opens no path of more than 4,095, directory included
)

// Clean returns name in a form that every file system accepts and no reader of
// archives or headers misinterprets. It returns the empty string if no character
// remains, and a clean name unchanged.
func Clean(name string) string {
	name = dropInvisible(strings.ToValidUTF8(name, ""))
	name = compose(name)
	name = trimName(strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) { // what Windows and path syntax reserve
			return '_' // also for a backslash: with a slash the name would be a path
		}
		return r
	}, name))
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

// trimName removes blanks around a name and trailing dots, which Windows drops
// as well. It returns the empty string for "." and "..".
func trimName(name string) string {
	return strings.TrimRightFunc(strings.TrimLeftFunc(name, isBlank), func(r rune) bool {
		return r == '.' || isBlank(r)
	})
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || r == '\u2800' }

var deviceName = regexp.MustCompile(`^(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³])$`)

// isDeviceName reports whether Windows takes the name, up to its first dot, for
// a device.
func isDeviceName(name string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	return deviceName.MatchString(strings.TrimSpace(base))
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
	ext := path.Ext(name)
	if len(ext) == len(name) || len(ext) > maxExtBytes {
		ext = "" // what begins with the dot is the stem
	}
	stem := strings.TrimSuffix(name, ext)
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

// Dedup makes the names of an archive's entries unique, also on file systems
// that ignore letter case and Unicode composition. It is not safe for concurrent
// use.
type Dedup struct {
	used    map[place]int // id of a folder, 0 of an entry
	numbers map[place]int // to try first
}

// place is a folded name in the folder with an id, which for the root is 0. Paths as keys
// would take memory and time quadratic in their depth.
type place struct {
	folder int
	name   string
}

// NewDedup returns a Dedup that has already used the reserved names.
func NewDedup(reserved ...string) *Dedup {
	d := &Dedup{used: make(map[place]int), numbers: make(map[place]int)}
	for _, name := range reserved {
		d.used[place{0, foldCase(name)}] = 0
	}
	return d
}

// Unique returns a path that it has not returned before: that of name, which must be
// clean, in a folder, or with the first free number as in plan-1.pdf, plan-2.pdf. The
// segments of the folder are cleaned, and those dropped that are empty, ".", ".." or would
// make the path too long. If one is the path of an entry, it gets a number too.
func (d *Dedup) Unique(folder, name string) string {
	var path strings.Builder
	parent := 0
	for segment := range strings.SplitSeq(folder, "/") {
		if segment = Clean(segment); segment != "" && path.Len()+len(segment)+len(name) < maxPathBytes {
			segment, parent = d.free(parent, segment, true)
			path.WriteString(segment + "/")
		}
	}
	name, _ = d.free(parent, name, false)
	return path.String() + name
}

// free returns name, with a number if it is taken, as a folder or an entry can have it in the
// folder parent. It also returns the id of the folder, or 0 for an entry.
func (d *Dedup) free(parent int, name string, isFolder bool) (string, int) {
	if id, ok := d.take(parent, name, isFolder); ok {
		return name, id
	}
	// Names that only differ where a number of four digits truncates them share a counter.
	counter := place{parent, foldCase(truncate(name, "-9999"))}
	if isFolder {
		counter.name += "/"
	}
	for number := max(d.numbers[counter], 1); ; number++ {
		numbered := truncate(name, "-"+strconv.Itoa(number))
		if id, ok := d.take(parent, numbered, isFolder); ok {
			if d.numbers[counter] = number; !isFolder {
				d.numbers[counter]++
			}
			return numbered, id
		}
	}
}

// take takes a name in a folder. It returns false if an entry has it, or a folder unless the
// name is for that.
func (d *Dedup) take(parent int, name string, isFolder bool) (id int, ok bool) {
	key := place{parent, foldCase(name)}
	id, used := d.used[key]
	switch {
	case used:
		return id, isFolder && id > 0
	case isFolder:
		id = len(d.used) + 1
	}
	d.used[key] = id
	return id, true
}

// foldCase maps names that some file system treats as equal to the same string.
func foldCase(name string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
}

// contentTypes lists the types of exported files, so that they do not depend on
// the machine. If a type has several extensions, or an extension several types,
// the first is used.
var contentTypes = []struct{ contentType, extensions string }{
	{"application/json", ".json"},
	{"application/pdf", ".pdf"},
	{"application/vnd.openxmlformats-officedocument.presentationml.presentation", ".pptx"},
	{"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"},
	{"application/vnd.openxmlformats-officedocument.wordprocessingml.document", ".docx"},
	{"application/zip", ".zip"},
	{"image/bmp", ".bmp"},
	{"image/gif", ".gif"},
	{"image/jpeg", ".jpg .jpeg"},
	{"image/png", ".png"},
	{"image/svg+xml", ".svg"},
	{"image/tiff", ".tiff .tif"},
	{"image/vnd.dwg", ".dwg"},
	{"image/vnd.dxf", ".dxf"},
	{"application/dxf", ".dxf"},
	{"image/webp", ".webp"},
	{"text/csv; charset=utf-8", ".csv"},
	{"text/html; charset=utf-8", ".html .htm"},
	{"text/plain; charset=utf-8", ".txt"},
	{"text/xml; charset=utf-8", ".xml"},
	{"application/xml", ".xml"},
}

var typeByExtension, extensionByType = indexContentTypes()

func indexContentTypes() (byExtension, byType map[string]string) {
	byExtension, byType = make(map[string]string), make(map[string]string)
	for _, t := range contentTypes {
		extensions := strings.Fields(t.extensions)
		mediaType, _, _ := strings.Cut(t.contentType, ";")
		byType[mediaType] = extensions[0]
		for _, ext := range extensions {
			byExtension[ext] = cmp.Or(byExtension[ext], t.contentType)
		}
	}
	return byExtension, byType
}

// Extension returns the extension of files of a content type, with its dot. It
// returns the empty string for an unknown type.
func Extension(contentType string) string {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	return extensionByType[mediaType]
}

// ContentType returns the content type of a file by the extension of its name. It
// returns the empty string for an unknown extension.
func ContentType(name string) string {
	return typeByExtension[strings.ToLower(path.Ext(name))]
}

var percentEscape = regexp.MustCompile(`%([0-9A-Fa-f]{2})`)

// Disposition returns a Content-Disposition (RFC 6266, section 4) with a file name, which
// must be clean. Clients without support for filename* get the name with an underscore for
// each character that is not ASCII, and for each percent sign before two hexadecimal
// digits, which some browsers decode (RFC 6266, appendix D).
func Disposition(kind, name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, percentEscape.ReplaceAllString(name, "_$1"))
	value := kind + `; filename="` + ascii + `"`
	if ascii == name {
		return value
	}
	var extended strings.Builder
	const unescaped = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$&+-.^_`|~" // RFC 8187, section 3.2.1
	for _, c := range []byte(name) {
		if strings.IndexByte(unescaped, c) >= 0 {
			extended.WriteByte(c)
		} else {
			fmt.Fprintf(&extended, "%%%02X", c)
		}
	}
	return value + `; filename*=UTF-8''` + extended.String()
}
