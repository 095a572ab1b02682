package bundle

import (
	"bytes"
	"strings"
)

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
