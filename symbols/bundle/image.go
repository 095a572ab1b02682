package bundle

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
)

// pngSize returns the size of a PNG in pixels. It looks at the whole file, but
// not into the pixels: a small file can have a great many.
func pngSize(content []byte) (width, height float64, err error) {
	const (
		broken = refusal("broken PNG")
		head   = 8  // length and type of a chunk
		around = 12 // these and its checksum
	)
	rest, ok := bytes.CutPrefix(content, []byte("\x89PNG\r\n\x1a\n"))
	if !ok {
		return 0, 0, refusal("not a PNG")
	}
	for pixels, first := false, true; ; first = false {
		if len(rest) < around {
			return 0, 0, broken
		}
		length := binary.BigEndian.Uint32(rest)
		if uint64(length) > uint64(len(rest)-around) {
			return 0, 0, broken
		}
		end := head + int(length)
		chunk, sum := rest[4:end], binary.BigEndian.Uint32(rest[end:])
		if crc32.ChecksumIEEE(chunk) != sum {
			return 0, 0, broken
		}
		name, data := string(chunk[:4]), chunk[4:]
		switch {
		case first != (name == "IHDR"), first && length != 13:
			return 0, 0, broken
		case first:
			w, h := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
			if w == 0 || w > math.MaxInt32 || h == 0 || h > math.MaxInt32 {
				return 0, 0, broken
			}
			width, height = float64(w), float64(h)
		case name == "IDAT":
			pixels = true
		case name == "IEND" && pixels:
			return width, height, nil
		case name == "IEND":
			return 0, 0, broken
		}
		rest = rest[end+4:]
	}
}

const (
	notSVG    = refusal("not an SVG")
	brokenSVG = refusal("broken SVG: it is not well-formed XML")
)

const svgNamespace = "http://www.w3.org/2000/svg"

// svgSize returns the size of an SVG in CSS pixels. It reads the document to
// its end.
func svgSize(content []byte) (width, height float64, err error) {
	root, err := readXML(content)
	if err != nil {
		return 0, 0, err
	}
	namespace := "xmlns"
	local := root.name
	if prefix, rest, ok := strings.Cut(root.name, ":"); ok {
		namespace, local = "xmlns:"+prefix, rest
	}
	declared, ok := root.attributes[namespace]
	// Programs like to declare an entity for the address.
	if local != "svg" || ok && declared != svgNamespace && !strings.HasPrefix(declared, "&") {
		return 0, 0, notSVG
	}
	width, height = drawnSize(root.attributes)
	return width, height, nil
}

// readXML returns the root of a document that is well-formed. It lets through
// some that are not, with attributes that appear twice for example, but none
// that ends early. It needs no memory for what lies in the root: a decoder that
// does would let a small archive take much.
func readXML(content []byte) (element, error) {
	x := xmlReader{rest: bytes.TrimPrefix(content, []byte("\ufeff"))}
	if !x.document() {
		return element{}, brokenSVG
	}
	return x.root, nil
}

// What browsers make of an SVG that tells no size (CSS 2.1, section 10.3.2).
const defaultWidth, defaultHeight = 300, 150

// cssPixels are the units of length (CSS Values and Units 4, section 6). Those
// that depend on a font are as in one of 16 px.
var cssPixels = map[string]float64{
	"": 1, "px": 1,
	"in": 96, "pc": 16, "pt": 96.0 / 72, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6,
	"em": 16, "rem": 16, "ex": 8,
}

// drawnSize returns the size at which browsers draw an SVG whose root element
// has these attributes, in CSS pixels.
func drawnSize(attributes map[string]string) (width, height float64) {
	width, height = pixels(attributes["width"]), pixels(attributes["height"])
	boxWidth, boxHeight := viewBox(attributes["viewBox"])
	switch hasBox := boxWidth > 0 && boxHeight > 0; {
	case hasBox && width == 0 && height == 0:
		width, height = boxWidth, boxHeight
	case hasBox && width == 0:
		width = height / boxHeight * boxWidth
	case hasBox && height == 0:
		height = width / boxWidth * boxHeight
	}
	return sensible(width, defaultWidth), sensible(height, defaultHeight)
}

// pixels reads a length, or returns zero for one that is relative to what is
// around the image or has no meaning.
func pixels(text string) float64 {
	text = strings.ToLower(strings.TrimSpace(text))
	// An exponent ends in digits: the letters behind them are the unit.
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz%")
	factor, known := cssPixels[text[len(number):]]
	value, ok := positive(number)
	if !known || !ok {
		return 0
	}
	return value * factor
}

// viewBox reads the last two numbers of four.
func viewBox(text string) (width, height float64) {
	numbers := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	if len(numbers) != 4 {
		return 0, 0
	}
	width, _ = positive(numbers[2])
	height, _ = positive(numbers[3])
	return width, height
}

// positive reads a decimal number above zero.
func positive(text string) (float64, bool) {
	if strings.Trim(text, "+-.0123456789eE") != "" { // Go knows other numbers too
		return 0, false
	}
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && value > 0
}

// sensible rounds to thousandths, and replaces what is no size.
func sensible(value, instead float64) float64 {
	value = math.Round(value*1000) / 1000
	if value > 0 && value <= math.MaxInt32 {
		return value
	}
	return instead
}
