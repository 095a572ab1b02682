package picture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// SVG is the media type of SVG documents.
const SVG = "image/svg+xml"

type format struct {
	mimeType, extension, name string
	matches                   func([]byte) bool
}

// formats are the types that the first bytes identify; SVG is the last.
var formats = []format{
	{"image/png", ".png", "a PNG", hasPrefix("\x89PNG\r\n\x1a\n")},
	{"image/jpeg", ".jpg", "a JPEG", hasPrefix("\xff\xd8\xff")},
	{"image/gif", ".gif", "a GIF", func(b []byte) bool { return hasPrefix("GIF87a")(b) || hasPrefix("GIF89a")(b) }},
	{"image/webp", ".webp", "a WebP", func(b []byte) bool {
		return len(b) >= 15 && string(b[:4]) == "RIFF" && string(b[8:14]) == "WEBPVP"
	}},
	{"image/avif", ".avif", "an AVIF", isAVIF},
	{"image/bmp", ".bmp", "a BMP", isBMP},
	{"image/x-icon", ".ico", "an icon", isIcon},
	{SVG, ".svg", "an SVG", hasTag},
}

// Sniff returns the media type of an image and its name in a sentence, such as "a PNG",
// or empty strings. Content that begins with a tag is taken for an SVG.
func Sniff(content []byte) (mimeType, name string) {
	if format := sniff(content); format != nil {
		return format.mimeType, format.name
	}
	return "", ""
}

func sniff(content []byte) *format {
	for i := range formats {
		if formats[i].matches(content) {
			return &formats[i]
		}
	}
	return nil
}

// hasTag reports whether a document, which may be in UTF-16, begins with a tag.
func hasTag(b []byte) bool {
	b = bytes.TrimLeft(b, whiteSpace) // of any length
	start := ToUTF8(b[:min(len(b), 64)])
	return bytes.HasPrefix(bytes.TrimLeft(start, whiteSpace+"\ufeff"), []byte("<"))
}

func hasPrefix(prefix string) func([]byte) bool {
	return func(b []byte) bool { return bytes.HasPrefix(b, []byte(prefix)) }
}

// isAVIF reports whether the first box lists the brand of AVIF.
func isAVIF(b []byte) bool {
	if len(b) < 16 || string(b[4:8]) != "ftyp" {
		return false
	}
	size := binary.BigEndian.Uint32(b)
	if size < 16 || size%4 != 0 || uint64(size) > uint64(len(b)) {
		return false
	}
	for at := uint32(8); at < size; at += 4 {
		if brand := string(b[at : at+4]); at != 12 && (brand == "avif" || brand == "avis") { // 12: minor version
			return true
		}
	}
	return false
}

// isBMP also checks the size of the second header, because two letters are little.
func isBMP(b []byte) bool {
	sizes := []uint32{12, 40, 52, 56, 64, 108, 124}
	return len(b) >= 26 && string(b[:2]) == "BM" && slices.Contains(sizes, binary.LittleEndian.Uint32(b[14:]))
}

// isIcon also checks that the first image is within the file.
func isIcon(b []byte) bool {
	if len(b) < 22 || string(b[:4]) != "\x00\x00\x01\x00" || binary.LittleEndian.Uint16(b[4:]) == 0 {
		return false
	}
	size, offset := binary.LittleEndian.Uint32(b[14:]), binary.LittleEndian.Uint32(b[18:])
	return size > 0 && offset >= 22 && uint64(offset)+uint64(size) <= uint64(len(b))
}

// maxHead is how much of a document an XML declaration may take.
const maxHead = 1 << 10

// declaredEncoding matches an XML declaration up to the name of the encoding, and the name.
var declaredEncoding = regexp.MustCompile(`^(\x{feff}?<\?xml[ \t\r\n][^>]*[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*["'])([\w.:-]+)`)

// ToUTF8 converts an XML document to UTF-8 and corrects its declaration. It knows UTF-16,
// and encodings with one byte for each character in documents of up to 4 MiB. Other content
// is returned unchanged, but for white space before a declaration.
func ToUTF8(content []byte) []byte {
	if text := bytes.TrimLeft(content, whiteSpace); len(text) < len(content) && bytes.HasPrefix(text, []byte("<?xml")) {
		content = bytes.Clone(text) // a cache of it must not keep the white space in memory
	}
	declared := declaredEncoding.FindSubmatch(content[:min(len(content), maxHead)])
	var from encoding.Encoding
	switch {
	case bytes.HasPrefix(content, []byte("\xff\xfe")), bytes.HasPrefix(content, []byte("<\x00")):
		from = unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case bytes.HasPrefix(content, []byte("\xfe\xff")), bytes.HasPrefix(content, []byte("\x00<")):
		from = unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	case declared == nil || strings.EqualFold(string(declared[2]), "UTF-8"):
		return content
	case utf8.Valid(content): // only the declaration is wrong
		from = encoding.Nop
	default:
		if from = findEncoding(string(declared[2])); from == nil || len(content) > 4<<20 {
			return content
		}
	}
	text, err := from.NewDecoder().Bytes(content)
	if err != nil {
		return content
	}
	head := min(len(text), maxHead)
	return append(declaredEncoding.ReplaceAll(text[:head], []byte("${1}UTF-8")), text[head:]...)
}

// findEncoding returns the encoding with one byte for each character that a label stands
// for in browsers (WHATWG Encoding, section 4.2), or nil.
func findEncoding(label string) encoding.Encoding {
	normal := strings.NewReplacer("-", "", "_", "", " ", "", "cp125", "windows125")
	label = normal.Replace(strings.ToLower(label))
	switch label {
	case "iso88591", "latin1", "usascii", "ascii":
		label = "windows1252"
	case "latin2":
		label = "iso88592"
	case "iso88599", "latin5":
		label = "windows1254"
	case "iso885911", "tis620":
		label = "windows874"
	}
	for _, e := range charmap.All {
		if normal.Replace(strings.ToLower(fmt.Sprint(e))) == label {
			return e
		}
	}
	return nil
}
