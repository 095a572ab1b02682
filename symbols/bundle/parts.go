package bundle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

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
