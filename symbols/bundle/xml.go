package bundle

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep elements may lie in each other. Browsers have such a
// bound too.
const maxDepth = 1000

// What is kept of a root.
const maxAttributes, maxValue = 1000, 1000

// element is the start of an element.
type element struct {
	name       string
	attributes map[string]string // values as they are written
}

// xmlReader reads a document (XML 1.0, fifth edition). Its methods report
// whether what they read is well-formed.
type xmlReader struct {
	rest     []byte
	open     [][]byte // names of the elements that have begun
	root     element
	declares bool // has a document type, which may declare entities
}

const whiteSpace = " \t\r\n"

func (x *xmlReader) document() bool {
	if !x.characters() {
		return false
	}
	for len(x.rest) > 0 {
		text, markup := x.rest, []byte(nil)
		if i := bytes.IndexByte(x.rest, '<'); i >= 0 {
			text, markup = x.rest[:i], x.rest[i:]
		}
		if outside := len(x.open) == 0; outside && len(bytes.Trim(text, whiteSpace)) > 0 || !x.references(text) {
			return false
		}
		x.rest = markup
		if len(markup) > 0 && !x.markup() {
			return false
		}
	}
	return x.root.name != "" && len(x.open) == 0
}

// characters looks for bytes that no document may have.
func (x *xmlReader) characters() bool {
	for _, c := range x.rest {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return x.hasSingleBytes() || utf8.Valid(x.rest)
}

// hasSingleBytes reports whether the document declares an encoding with one
// byte for each character and ASCII among them. Which characters the others are
// does not matter here.
func (x *xmlReader) hasSingleBytes() bool {
	declaration, _, found := bytes.Cut(x.rest[:min(len(x.rest), 200)], []byte("?>"))
	if !found || !bytes.HasPrefix(declaration, []byte("<?xml")) {
		return false
	}
	_, encoding, _ := strings.Cut(strings.ToLower(string(declaration)), "encoding")
	encoding = strings.TrimLeft(encoding, whiteSpace+`='"`)
	return strings.HasPrefix(encoding, "iso-8859-") || strings.HasPrefix(encoding, "windows-125")
}

// markup reads what begins with <.
func (x *xmlReader) markup() bool {
	switch outside := len(x.open) == 0; {
	case x.skip("<!--"):
		return x.skipTo("-->")
	case x.skip("<?"):
		return x.skipTo("?>")
	case x.skip("<![CDATA["):
		return !outside && x.skipTo("]]>")
	case x.skip("<!DOCTYPE"):
		x.declares = true
		return x.root.name == "" && x.documentType()
	case x.skip("</"):
		return x.end()
	case outside && x.root.name != "":
		return false
	}
	return x.skip("<") && x.start()
}

// documentType reads to the end of a document type declaration.
func (x *xmlReader) documentType() bool {
	for inner := 0; len(x.rest) > 0; {
		switch c := x.rest[0]; {
		case x.skip("<!--"):
			if !x.skipTo("-->") {
				return false
			}
			continue
		case c == '"' || c == '\'':
			x.rest = x.rest[1:]
			if !x.skipTo(string(c)) {
				return false
			}
			continue
		case c == '[' || c == '<':
			inner++
		case c == '>' && inner == 0:
			x.rest = x.rest[1:]
			return true
		case c == ']' || c == '>':
			inner--
		}
		x.rest = x.rest[1:]
	}
	return false
}

// start reads the start of an element behind its first character.
func (x *xmlReader) start() bool {
	name := x.name()
	isRoot := x.root.name == ""
	if isRoot {
		x.root = element{string(name), make(map[string]string)}
	}
	for {
		spaced := x.space()
		switch {
		case len(name) == 0:
			return false
		case x.skip("/>"):
			return true
		case x.skip(">"):
			x.open = append(x.open, name)
			return len(x.open) <= maxDepth
		case !spaced:
			return false
		}
		attribute, value, ok := x.attribute()
		if !ok {
			return false
		}
		if isRoot && len(x.root.attributes) < maxAttributes && len(value) < maxValue {
			x.root.attributes[string(attribute)] = string(value)
		}
	}
}

func (x *xmlReader) attribute() (name, value []byte, ok bool) {
	name = x.name()
	x.space()
	if len(name) == 0 || !x.skip("=") {
		return nil, nil, false
	}
	x.space()
	if len(x.rest) == 0 || x.rest[0] != '"' && x.rest[0] != '\'' {
		return nil, nil, false
	}
	value, rest, ended := bytes.Cut(x.rest[1:], x.rest[:1])
	x.rest = rest
	return name, value, ended && bytes.IndexByte(value, '<') < 0 && x.references(value)
}

// end reads the end of an element behind its first two characters.
func (x *xmlReader) end() bool {
	name := x.name()
	x.space()
	last := len(x.open) - 1
	if last < 0 || !bytes.Equal(name, x.open[last]) {
		return false
	}
	x.open = x.open[:last]
	return x.skip(">")
}

// name reads a name, which may be empty.
func (x *xmlReader) name() []byte {
	end := bytes.IndexAny(x.rest, whiteSpace+`/>=<"'&;`)
	if end < 0 || strings.IndexByte("-.0123456789", x.rest[0]) >= 0 {
		return nil
	}
	name := x.rest[:end]
	x.rest = x.rest[end:]
	return name
}

// references looks whether each & in a text begins a reference that can be
// resolved.
func (x *xmlReader) references(text []byte) bool {
	for {
		_, rest, found := bytes.Cut(text, []byte("&"))
		if !found {
			return true
		}
		end := bytes.IndexByte(rest[:min(len(rest), maxReference)], ';')
		if end < 0 || !x.reference(string(rest[:end])) {
			return false
		}
		text = rest[end:]
	}
}

// maxReference is how long a reference may be.
const maxReference = 100

func (x *xmlReader) reference(name string) bool {
	if number, ok := strings.CutPrefix(name, "#"); ok {
		base := 10
		if number, ok = strings.CutPrefix(number, "x"); ok {
			base = 16
		}
		_, err := strconv.ParseUint(number, base, 32)
		return err == nil
	}
	switch name {
	case "amp", "lt", "gt", "quot", "apos":
		return true
	}
	return x.declares && name != "" && !strings.ContainsAny(name, whiteSpace+"&")
}

// space skips white space and reports whether there was any.
func (x *xmlReader) space() bool {
	before := len(x.rest)
	x.rest = bytes.TrimLeft(x.rest, whiteSpace)
	return len(x.rest) < before
}

// skip skips a text if it is next, and reports whether it was.
func (x *xmlReader) skip(text string) bool {
	rest, found := bytes.CutPrefix(x.rest, []byte(text))
	x.rest = rest
	return found
}

// skipTo skips all up to the end of a text.
func (x *xmlReader) skipTo(text string) (found bool) {
	_, x.rest, found = bytes.Cut(x.rest, []byte(text))
	return found
}
