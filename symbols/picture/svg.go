package picture

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SVGNamespace is the XML namespace of SVG documents.
const SVGNamespace = "http://www.w3.org/2000/svg"

// svgSize returns the size in CSS pixels at which browsers draw an SVG, which [ToUTF8] has
// returned. It parses the complete document.
func svgSize(content []byte) (width, height float64, err error) {
	const defaultWidth, defaultHeight = 300, 150 // CSS 2.1, section 10.3.2
	if !utf8.Valid(content) {
		return 0, 0, errors.New("an SVG in an encoding that is not supported; save it in UTF-8")
	}
	root, ok := parseXML(content)
	if !ok {
		return 0, 0, errors.New("broken SVG: it is not well-formed XML")
	}
	// Adobe Illustrator writes an entity in place of the namespace.
	if root.Name.Local != "svg" || !slices.Contains([]string{"", SVGNamespace, entityText}, root.Name.Space) {
		return 0, 0, errors.New("not an SVG")
	}
	var boxWidth, boxHeight float64
	for _, attribute := range root.Attr {
		switch attribute.Name {
		case xml.Name{Local: "width"}:
			width = cssLength(attribute.Value)
		case xml.Name{Local: "height"}:
			height = cssLength(attribute.Value)
		case xml.Name{Local: "viewBox"}:
			boxWidth, boxHeight = viewBoxSize(attribute.Value)
		}
	}
	switch hasBox := boxWidth > 0 && boxHeight > 0; {
	case hasBox && width == 0 && height == 0:
		width, height = boxWidth, boxHeight
	case hasBox && width == 0:
		width = height / boxHeight * boxWidth
	case hasBox && height == 0:
		height = width / boxWidth * boxHeight
	}
	return clampSize(width, defaultWidth), clampSize(height, defaultHeight), nil
}

const (
	maxDepth      = 1000    // of nested elements; browsers have a similar limit
	maxEntities   = 1000    // that a document declares
	maxAttributes = 1 << 16 // of a tag; the decoder keeps 48 bytes for each
	maxNamespaces = 100     // that a tag declares; the decoder keeps 160 bytes for each until its end tag
	entityText    = "\ufffd"
	whiteSpace    = " \t\r\n"
)

var attributeStart = regexp.MustCompile(`=\s*["']`)
var xmlDeclaration = regexp.MustCompile(`^\x{feff}?(<\?xml[ \t\r\n][^>]*\?>)?`)
var declaredEntity = regexp.MustCompile(`<!ENTITY\s+([^\s%]+)\s`)

// parseXML returns the root of a document in UTF-8 and reports whether the document is
// well-formed. It accepts a few documents that are not, such as those with duplicate
// attributes, but no truncated one. References to entities that the document declares
// become entityText, which is not longer than any of them.
func parseXML(content []byte) (root xml.StartElement, ok bool) {
	for tag := range bytes.SplitSeq(content, []byte("<")) {
		if bytes.Count(tag, []byte("=")) > maxAttributes && len(attributeStart.FindAllIndex(tag, maxAttributes+1)) > maxAttributes {
			return root, false
		}
	}
	head := len(xmlDeclaration.Find(content[:min(len(content), maxHead)])) // encoding/xml rejects version 1.1
	decoder := xml.NewDecoder(bytes.NewReader(content[head:]))
	decoder.Entity = make(map[string]string)
	hasRoot := false
	for depth := 0; ; {
		start := decoder.InputOffset()
		token, err := decoder.Token()
		switch outside := depth == 0; token := token.(type) {
		case nil:
			return root, err == io.EOF && hasRoot
		case xml.StartElement:
			namespaces := 0
			for _, attribute := range token.Attr {
				if cmp.Or(attribute.Name.Space, attribute.Name.Local) == "xmlns" {
					namespaces++
				}
			}
			if outside && hasRoot || depth == maxDepth || namespaces > maxNamespaces {
				return root, false
			}
			if !hasRoot {
				root, hasRoot = token, true
			}
			depth++
		case xml.EndElement:
			depth--
		case xml.ProcInst:
			if token.Target == "xml" { // a further declaration
				return root, false
			}
		case xml.CharData:
			// A CDATA section, which may be empty, and a reference are longer than their text,
			// and so is CRLF, by one byte.
			isLonger := int(decoder.InputOffset()-start) > len(token)+bytes.Count(token, []byte("\n"))
			if outside && (isLonger || len(bytes.Trim(token, whiteSpace)) > 0) {
				return root, false
			}
		case xml.Directive:
			if hasRoot || !bytes.HasPrefix(token, []byte("DOCTYPE")) {
				return root, false
			}
			matches := declaredEntity.FindAllSubmatch(token, maxEntities+1)
			if len(matches) > maxEntities {
				return root, false
			}
			for _, match := range matches {
				decoder.Entity[string(match[1])] = entityText
			}
		}
	}
}

// cssUnits are the absolute units in CSS pixels (CSS Values and Units 4, section
// 6), and the units of a font of 16 pixels.
var cssUnits = map[string]float64{
	"": 1, "px": 1,
	"in": 96, "pc": 16, "pt": 96.0 / 72, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6,
	"em": 16, "rem": 16, "ex": 8,
}

// cssLength returns a length in CSS pixels, or 0 if it is relative or invalid.
func cssLength(text string) float64 {
	text = strings.ToLower(strings.TrimSpace(text))
	// An exponent ends in a digit, so trailing letters are the unit.
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz%")
	return parsePositive(number) * cssUnits[text[len(number):]]
}

// viewBoxSize returns the width and height of a viewBox attribute, or 0.
func viewBoxSize(text string) (width, height float64) {
	numbers := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	if len(numbers) != 4 {
		return 0, 0
	}
	return parsePositive(numbers[2]), parsePositive(numbers[3])
}

// parsePositive parses a positive decimal number. It returns 0 for other text.
func parsePositive(text string) float64 {
	if strings.Trim(text, "+-.0123456789eE") != "" { // ParseFloat accepts NaN, Inf and 0x1p4
		return 0
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return max(value, 0)
}

// clampSize rounds value to thousandths. It returns fallback if the result is
// not positive or too large.
func clampSize(value, fallback float64) float64 {
	value = math.Round(value*1000) / 1000
	if value > 0 && value <= math.MaxInt32 {
		return value
	}
	return fallback
}
