package bundle

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/picture"
)

// pictureTypes are the types of pictures by their extension.
var pictureTypes = map[string]string{
	".svg": picture.SVG, ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
}

// imageData is the JSON form of a symbol's data that viewers write.
type imageData struct {
	Name    string  `json:"name"`
	Type    string  `json:"type"`
	Content []byte  `json:"content"` // base64
	Width   float64 `json:"width"`
	Height  float64 `json:"height"`
}

// pictureSymbol returns the symbol for a picture of the named type; any if that is empty.
// An SVG in UTF-16 becomes one in UTF-8.
func pictureSymbol(name, mimeType string, content []byte) (symbols.NewSymbol, error) {
	actual, description := picture.Sniff(content)
	switch {
	case mimeType == picture.SVG && actual != "" && actual != picture.SVG:
		return symbols.NewSymbol{}, fileError(description + ", not an SVG")
	case mimeType == "" && actual == "":
		return symbols.NewSymbol{}, fileError("not a picture")
	}
	mimeType = cmp.Or(mimeType, actual)
	if mimeType == picture.SVG {
		content = picture.ToUTF8(content)
	}
	width, height, err := picture.Size(mimeType, content)
	if err != nil {
		return symbols.NewSymbol{}, fileError(err.Error())
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

// stem returns a file name without its extension.
func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }
