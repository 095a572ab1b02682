package bundle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	manifestName  = "manifest.json"
	formatName    = "canvasback-symbols"
	formatVersion = 1

	// maxManifestEntry is the size of a manifest in bytes per allowed symbol,
	// plus one for its header. Write stays below it: escaping doubles the
	// maxEnvelope bytes of an envelope, a name or type of 255 characters takes
	// up to 1530 bytes, 32 tags of 64 characters 12 KiB, and meta 16 KiB.
	maxManifestEntry = 40 << 10

	// maxEnvelope is the size of an envelope in bytes. Write keeps all
	// envelopes in memory until it writes the manifest.
	maxEnvelope = 2 << 10
)

// manifestHeader is a manifest whose entries are still encoded.
type manifestHeader struct {
	Format  string          `json:"format"`
	Version int64           `json:"version"`
	Folder  string          `json:"folder"`
	Symbols json.RawMessage `json:"symbols"`
}

type manifestEntry struct {
	File   string `json:"file"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	envelope
	Tags tagList         `json:"tags,omitempty"`
	Meta json.RawMessage `json:"meta,omitempty"`
}

// tagList are the tags of an entry. Short ones take six times the memory of their text.
type tagList []string

// UnmarshalJSON rejects what is longer than the tags of any symbol.
func (l *tagList) UnmarshalJSON(text []byte) error {
	if len(text) > maxManifestEntry {
		return errors.New("bundle: too many tags")
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// parseManifest returns the entries of a manifest, at most limit+1.
func parseManifest(text []byte, limit int) ([]manifestEntry, error) {
	var header manifestHeader
	if !utf8.Valid(text) || json.Unmarshal(text, &header) != nil {
		return nil, fileError("not a symbol manifest")
	}
	switch {
	case header.Format != formatName:
		return nil, fileError("not a symbol manifest: format is not " + formatName)
	case header.Version != formatVersion:
		return nil, fileError(fmt.Sprintf("unsupported format version %d", header.Version))
	}
	// Decoding entry by entry bounds memory: "{}," takes 3 bytes, a manifestEntry 152.
	decoder := json.NewDecoder(bytes.NewReader(header.Symbols))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return nil, fileError("not a symbol manifest: symbols is not an array")
	}
	var list []manifestEntry
	for decoder.More() && len(list) <= limit {
		var entry manifestEntry
		if err := decoder.Decode(&entry); err != nil {
			return nil, fileError(fmt.Sprintf("not a symbol manifest: symbols[%d] is invalid", len(list)))
		}
		list = append(list, entry)
	}
	return list, nil
}

// encodeJSON encodes strings and numbers without escaping HTML, as JavaScript
// does.
func encodeJSON(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // strings and numbers always encode
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// envelope is the text of a symbol's data before and after its base64 content.
// It is empty if the file is the data.
type envelope struct {
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// splitData returns the file in data of the JSON form that viewers write, and
// its envelope. If there is no such file, or join would not restore data
// exactly, it returns data and an empty envelope.
func splitData(data string) (envelope, []byte) {
	raw := []byte(data)
	var object struct {
		Name    *string         `json:"name"`
		Type    *string         `json:"type"`
		Content *string         `json:"content"`
		Width   json.RawMessage `json:"width"`
		Height  json.RawMessage `json:"height"`
	}
	err := json.Unmarshal(raw, &object)
	if err != nil || object.Name == nil || object.Type == nil || object.Content == nil || object.Width == nil || object.Height == nil {
		return envelope{}, raw
	}
	encoded := *object.Content
	if strings.HasPrefix(encoded, "data:") {
		_, encoded, _ = strings.Cut(encoded, ";base64,")
	}
	if encoded == "" || len(data)-len(encoded) > maxEnvelope {
		return envelope{}, raw
	}
	// If the text occurs more than once, each occurrence restores the same data.
	at := strings.Index(data, encoded)
	file, err := base64.StdEncoding.DecodeString(encoded)
	if at < 0 || err != nil {
		return envelope{}, raw
	}
	e := envelope{Before: strings.Clone(data[:at]), After: strings.Clone(data[at+len(encoded):])}
	if e.join(file) != data {
		return envelope{}, raw // not canonical base64
	}
	return e, file
}

// join returns the data of a symbol whose file has this content.
func (e envelope) join(file []byte) string {
	if e.empty() {
		return string(file)
	}
	var data strings.Builder
	data.Grow(len(e.Before) + base64.StdEncoding.EncodedLen(len(file)) + len(e.After))
	data.WriteString(e.Before)
	encoder := base64.NewEncoder(base64.StdEncoding, &data)
	encoder.Write(file) // a Builder returns no error
	encoder.Close()
	data.WriteString(e.After)
	return data.String()
}

func (e envelope) empty() bool { return e == envelope{} }
