package bundle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	manifestName  = "manifest.json"
	formatName    = "canvasback-symbols"
	formatVersion = 1
)

// manifestHead is a manifest without its list, and manifestSymbol an element
// of that: a folder may have too many to have them all at hand.
type manifestHead struct {
	Format  string          `json:"format"`
	Version int64           `json:"version"`
	Folder  string          `json:"folder"`
	Symbols json.RawMessage `json:"symbols"`
}

type manifestSymbol struct {
	File   string `json:"file"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	parts
}

// encode is JSON as JavaScript writes it, without escapes for HTML.
func encode(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // strings and numbers always encode
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// maxManifest is how many bytes a manifest may have for its head and for each
// symbol that is allowed. One that was written has no more: before and after
// have maxAround bytes together, which escapes double, and a name or type of
// 255 characters has up to 1530.
const maxManifest = 8 << 10

// readManifest returns the list of a manifest if it has at most so many
// elements, and otherwise one element more.
func readManifest(text []byte, most int) ([]manifestSymbol, error) {
	var head manifestHead
	if !utf8.Valid(text) || json.Unmarshal(text, &head) != nil {
		return nil, refusal("not a manifest of symbols")
	}
	switch {
	case head.Format != formatName:
		return nil, refusal("not a manifest of symbols: format is not " + formatName)
	case head.Version != formatVersion:
		return nil, refusal(fmt.Sprintf("version %d of the format is not known here", head.Version))
	}
	// One by one, because a short text can hold a great many empty elements.
	list := json.NewDecoder(bytes.NewReader(head.Symbols))
	if start, err := list.Token(); err != nil || start != json.Delim('[') {
		return nil, refusal("not a manifest of symbols: symbols is not a list")
	}
	var symbols []manifestSymbol
	for list.More() && len(symbols) <= most {
		var symbol manifestSymbol
		if err := list.Decode(&symbol); err != nil {
			return nil, refusal(fmt.Sprintf("not a manifest of symbols: symbols[%d] is not one", len(symbols)))
		}
		symbols = append(symbols, symbol)
	}
	return symbols, nil
}

// parts are the text around the base64 of a file in a symbol's data. They are
// empty if the file is the data.
type parts struct {
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// maxAround is how long the parts of one symbol may be together. They are kept
// until the manifest is written.
const maxAround = 2 << 10

// takeApart finds the file in data that is a JSON object as viewers write it.
// It returns data itself if there is none, or if the parts would not make the
// same data again.
func takeApart(data string) (parts, []byte) {
	whole := []byte(data)
	var object struct {
		Name    *string         `json:"name"`
		Type    *string         `json:"type"`
		Content *string         `json:"content"`
		Width   json.RawMessage `json:"width"`
		Height  json.RawMessage `json:"height"`
	}
	err := json.Unmarshal(whole, &object)
	if err != nil || object.Name == nil || object.Type == nil || object.Content == nil || object.Width == nil || object.Height == nil {
		return parts{}, whole
	}
	encoded := *object.Content
	if strings.HasPrefix(encoded, "data:") {
		_, encoded, _ = strings.Cut(encoded, ";base64,")
	}
	if encoded == "" || len(data)-len(encoded) > maxAround {
		return parts{}, whole
	}
	// Wherever this text stands first, what is around it makes the data again.
	at := strings.Index(data, encoded)
	file, err := base64.StdEncoding.DecodeString(encoded)
	if at < 0 || err != nil {
		return parts{}, whole
	}
	p := parts{Before: strings.Clone(data[:at]), After: strings.Clone(data[at+len(encoded):])}
	if !bytes.Equal(p.around(file), whole) {
		return parts{}, whole // there are other spellings of base64
	}
	return p, file
}

// around returns the data that the parts make with a file between them.
func (p parts) around(file []byte) []byte {
	if p.empty() {
		return file
	}
	size := len(p.Before) + base64.StdEncoding.EncodedLen(len(file)) + len(p.After)
	data := append(make([]byte, 0, size), p.Before...)
	return append(base64.StdEncoding.AppendEncode(data, file), p.After...)
}

func (p parts) empty() bool { return p == parts{} }
