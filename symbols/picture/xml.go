package picture

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxDepth      = 1000 // of nested elements; browsers have a similar limit
	maxReference  = 100  // bytes of an entity or character reference
	maxAttributes = 1000 // of the root that are kept
	maxValue      = 1000 // bytes of a root attribute that is kept
)

// element is a start tag.
type element struct {
	name       string
	attributes map[string]string // values are not unescaped
}

// parseXML returns the root of a document and reports whether the document is
// well-formed. It accepts a few documents that are not, such as those with
// duplicate attributes, but no truncated one. It keeps only the root's
// attributes and the names of open elements in memory.
//
// encoding/xml does not fit: it rejects documents that drawing programs write,
// such as those with DOCTYPE entities or in ISO-8859-1, and it accepts a second
// DOCTYPE, text outside the root and any depth.
func parseXML(content []byte) (root element, ok bool) {
	p := xmlParser{rest: bytes.TrimPrefix(content, []byte("\ufeff"))}
	ok = p.document()
	return p.root, ok
}

// xmlParser parses a document (XML 1.0, fifth edition). Its methods report
// whether what they read is well-formed.
type xmlParser struct {
	rest       []byte
	open       [][]byte // names of the open elements
	root       element
	hasDoctype bool // which may declare entities
}

const whiteSpace = " \t\r\n"

func (p *xmlParser) document() bool {
	if !p.validText() {
		return false
	}
	for len(p.rest) > 0 {
		text, markup := p.rest, []byte(nil)
		if i := bytes.IndexByte(p.rest, '<'); i >= 0 {
			text, markup = p.rest[:i], p.rest[i:]
		}
		if outside := len(p.open) == 0; outside && len(bytes.Trim(text, whiteSpace)) > 0 || !p.validReferences(text) {
			return false
		}
		p.rest = markup
		if len(markup) > 0 && !p.markup() {
			return false
		}
	}
	return p.root.name != "" && len(p.open) == 0
}

// validText rejects control characters. It rejects invalid UTF-8 too, unless the
// encoding has one byte per character.
func (p *xmlParser) validText() bool {
	for _, c := range p.rest {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return p.isSingleByte() || utf8.Valid(p.rest)
}

// isSingleByte reports whether the document declares an encoding that extends
// ASCII with one byte per character.
func (p *xmlParser) isSingleByte() bool {
	declaration, _, found := bytes.Cut(p.rest[:min(len(p.rest), 200)], []byte("?>"))
	if !found || !bytes.HasPrefix(declaration, []byte("<?xml")) {
		return false
	}
	_, encoding, _ := strings.Cut(strings.ToLower(string(declaration)), "encoding")
	encoding = strings.TrimLeft(encoding, whiteSpace+`='"`)
	return strings.HasPrefix(encoding, "iso-8859-") || strings.HasPrefix(encoding, "windows-125")
}

// markup reads one comment, instruction, section, declaration or tag.
func (p *xmlParser) markup() bool {
	switch outside := len(p.open) == 0; {
	case p.consume("<!--"):
		return p.consumeThrough("-->")
	case p.consume("<?"):
		return p.consumeThrough("?>")
	case p.consume("<![CDATA["):
		return !outside && p.consumeThrough("]]>")
	case p.consume("<!DOCTYPE"):
		p.hasDoctype = true
		return p.root.name == "" && p.doctype()
	case p.consume("</"):
		return p.endTag()
	case outside && p.root.name != "":
		return false
	}
	return p.consume("<") && p.startTag()
}

// doctype reads the rest of a document type declaration.
func (p *xmlParser) doctype() bool {
	for depth := 0; len(p.rest) > 0; {
		switch c := p.rest[0]; {
		case p.consume("<!--"):
			if !p.consumeThrough("-->") {
				return false
			}
			continue
		case c == '"' || c == '\'':
			p.rest = p.rest[1:]
			if !p.consumeThrough(string(c)) {
				return false
			}
			continue
		case c == '[' || c == '<':
			depth++
		case c == '>' && depth == 0:
			p.rest = p.rest[1:]
			return true
		case c == ']' || c == '>':
			depth--
		}
		p.rest = p.rest[1:]
	}
	return false
}

// startTag reads the rest of a start tag or empty-element tag.
func (p *xmlParser) startTag() bool {
	name := p.name()
	isRoot := p.root.name == ""
	if isRoot {
		p.root = element{string(name), make(map[string]string)}
	}
	for {
		spaced := p.skipSpace()
		switch {
		case len(name) == 0:
			return false
		case p.consume("/>"):
			return true
		case p.consume(">"):
			p.open = append(p.open, name)
			return len(p.open) <= maxDepth
		case !spaced:
			return false
		}
		attribute, value, ok := p.attribute()
		if !ok {
			return false
		}
		if isRoot && len(p.root.attributes) < maxAttributes && len(value) < maxValue {
			p.root.attributes[string(attribute)] = string(value)
		}
	}
}

func (p *xmlParser) attribute() (name, value []byte, ok bool) {
	name = p.name()
	p.skipSpace()
	if len(name) == 0 || !p.consume("=") {
		return nil, nil, false
	}
	p.skipSpace()
	if len(p.rest) == 0 || p.rest[0] != '"' && p.rest[0] != '\'' {
		return nil, nil, false
	}
	value, rest, closed := bytes.Cut(p.rest[1:], p.rest[:1])
	p.rest = rest
	return name, value, closed && bytes.IndexByte(value, '<') < 0 && p.validReferences(value)
}

// endTag reads the rest of an end tag.
func (p *xmlParser) endTag() bool {
	name := p.name()
	p.skipSpace()
	last := len(p.open) - 1
	if last < 0 || !bytes.Equal(name, p.open[last]) {
		return false
	}
	p.open = p.open[:last]
	return p.consume(">")
}

// name reads a name. It returns nil if there is none.
func (p *xmlParser) name() []byte {
	end := bytes.IndexAny(p.rest, whiteSpace+`/>=<"'&;`)
	if end < 0 || strings.IndexByte("-.0123456789", p.rest[0]) >= 0 {
		return nil
	}
	name := p.rest[:end]
	p.rest = p.rest[end:]
	return name
}

// validReferences reports whether each & in text begins a valid reference.
func (p *xmlParser) validReferences(text []byte) bool {
	for {
		_, rest, found := bytes.Cut(text, []byte("&"))
		if !found {
			return true
		}
		end := bytes.IndexByte(rest[:min(len(rest), maxReference)], ';')
		if end < 0 || !p.validReference(string(rest[:end])) {
			return false
		}
		text = rest[end:]
	}
}

// validReference accepts any entity if the document has a DOCTYPE, because that
// may declare it.
func (p *xmlParser) validReference(name string) bool {
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
	return p.hasDoctype && name != "" && !strings.ContainsAny(name, whiteSpace+"&")
}

// skipSpace reports whether it has skipped white space.
func (p *xmlParser) skipSpace() bool {
	before := len(p.rest)
	p.rest = bytes.TrimLeft(p.rest, whiteSpace)
	return len(p.rest) < before
}

// consume skips a prefix of the rest and reports whether it was there.
func (p *xmlParser) consume(text string) bool {
	rest, found := bytes.CutPrefix(p.rest, []byte(text))
	p.rest = rest
	return found
}

// consumeThrough skips to the end of the next occurrence of text.
func (p *xmlParser) consumeThrough(text string) (found bool) {
	_, p.rest, found = bytes.Cut(p.rest, []byte(text))
	return found
}
