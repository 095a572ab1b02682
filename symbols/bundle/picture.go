package bundle

import (
	"bytes"
	"encoding/binary"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	"path"
	"slices"
	"strings"
	"unicode/utf16"

	"example.com/canvasback/symbols"
)

const typeSVG = "image/svg+xml"

// signatures are how the content of pictures begins.
var signatures = []struct{ mimeType, name, text string }{
	{"image/png", "a PNG", "\x89PNG\r\n\x1a\n"},
	{"image/jpeg", "a JPEG", "\xff\xd8\xff"},
	{"image/gif", "a GIF", "GIF87a"},
	{"image/gif", "a GIF", "GIF89a"},
	{"image/webp", "a WebP", "RIFF"},
}

// pictureTypes are the types of pictures by their extension.
var pictureTypes = map[string]string{
	".svg": typeSVG, ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
}

// sniffPicture returns the type of a picture, SVG if the content begins with a tag, or "".
func sniffPicture(content []byte) string {
	for _, s := range signatures {
		if bytes.HasPrefix(content, []byte(s.text)) {
			return s.mimeType
		}
	}
	if bytes.HasPrefix(bytes.TrimLeft(decodeUTF16(content[:min(len(content), 64)]), whiteSpace+"\ufeff"), []byte("<")) {
		return typeSVG
	}
	return ""
}

// pictureSize returns the size of a picture. The error is a fileError.
func pictureSize(mimeType string, content []byte) (width, height float64, err error) {
	switch mimeType {
	case typeSVG:
		return svgSize(content)
	case "image/png":
		return pngSize(content)
	case "image/webp":
		return webpSize(content)
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(content))
	if err != nil || config.Width < 1 || config.Height < 1 {
		return 0, 0, fileError("broken " + strings.ToUpper(strings.TrimPrefix(mimeType, "image/")))
	}
	return float64(config.Width), float64(config.Height), nil
}

// webpSize reads the header of the first chunk (RFC 9649, sections 2.5 to 2.7).
func webpSize(content []byte) (width, height float64, err error) {
	const errBroken = fileError("broken WebP")
	if len(content) < 30 || string(content[8:12]) != "WEBP" || uint64(binary.LittleEndian.Uint32(content[4:]))+8 > uint64(len(content)) {
		return 0, 0, errBroken
	}
	switch string(content[12:16]) {
	case "VP8 ":
		const mask = 1<<14 - 1 // the rest is the scale
		return float64(binary.LittleEndian.Uint16(content[26:]) & mask), float64(binary.LittleEndian.Uint16(content[28:]) & mask), nil
	case "VP8L":
		bits := binary.LittleEndian.Uint32(content[21:])
		return float64(1 + bits&(1<<14-1)), float64(1 + bits>>14&(1<<14-1)), nil
	case "VP8X":
		const mask = 1<<24 - 1
		return float64(1 + binary.LittleEndian.Uint32(content[24:])&mask), float64(1 + binary.LittleEndian.Uint32(content[26:])>>8), nil
	}
	return 0, 0, errBroken
}

// pictureSymbol returns the symbol for a picture of the named type; any if that is empty.
// An SVG in UTF-16 becomes one in UTF-8.
func pictureSymbol(name, mimeType string, content []byte) (symbols.NewSymbol, error) {
	for _, s := range signatures {
		if bytes.HasPrefix(content, []byte(s.text)) && mimeType == typeSVG {
			return symbols.NewSymbol{}, fileError(s.name + ", not an SVG")
		}
	}
	if mimeType == "" {
		mimeType = sniffPicture(content)
	}
	if mimeType == "" {
		return symbols.NewSymbol{}, fileError("not a picture")
	}
	if mimeType == typeSVG {
		content = decodeUTF16(content)
	}
	width, height, err := pictureSize(mimeType, content)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	// The JSON is not encoded at once, because that takes three times its size.
	before, after, _ := strings.Cut(string(encodeJSON(imageData{name, mimeType, []byte{}, width, height})), `"content":""`)
	data := envelope{before + `"content":"`, `"` + after}.join(content)
	return symbols.NewSymbol{Name: name, Type: mimeType, Data: data}, nil
}

// withDetails adds tags, each once, and meta unless it is empty.
func withDetails(symbol symbols.NewSymbol, tags []string, meta map[string]any) (symbols.NewSymbol, error) {
	var unique []string
	for _, tag := range tags {
		if !slices.Contains(unique, tag) {
			unique = append(unique, tag)
		}
	}
	var err error
	if symbol.Tags, err = symbols.NewTags(unique...); err != nil {
		return symbols.NewSymbol{}, fileError(err.Error())
	}
	if len(meta) > 0 {
		symbol.Meta = string(encodeJSON(meta))
	}
	return symbol, nil
}

// decodeUTF16 returns a document in UTF-8, if it begins as XML in UTF-16 does.
func decodeUTF16(content []byte) []byte {
	order := binary.ByteOrder(binary.LittleEndian)
	switch {
	case bytes.HasPrefix(content, []byte("\xff\xfe")), bytes.HasPrefix(content, []byte("<\x00")):
	case bytes.HasPrefix(content, []byte("\xfe\xff")), bytes.HasPrefix(content, []byte("\x00<")):
		order = binary.BigEndian
	default:
		return content
	}
	units := make([]uint16, len(content)/2)
	for i := range units {
		units[i] = order.Uint16(content[2*i:])
	}
	text := strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff")
	if declaration, rest, ok := strings.Cut(text, "?>"); ok && strings.HasPrefix(declaration, "<?xml") {
		declaration = strings.NewReplacer("UTF-16LE", "UTF-8", "UTF-16BE", "UTF-8", "UTF-16", "UTF-8", "utf-16", "UTF-8").Replace(declaration)
		text = declaration + "?>" + rest
	}
	return []byte(text)
}

// stem returns a file name without its extension.
func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }
