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

// image is a picture to import.
type image struct {
	name     string // of the symbol
	mimeType string // that the content must have; any if empty
	content  []byte
	tags     []string // each may be repeated
	meta     map[string]any
}

// symbol returns the symbol of a picture. An SVG is converted by [picture.ToUTF8].
func (i image) symbol() (symbol symbols.NewSymbol, err error) {
	actual, description := picture.Sniff(i.content)
	switch {
	case i.mimeType == picture.SVG && actual != "" && actual != picture.SVG:
		return symbol, fileError(description + ", not an SVG")
	case i.mimeType != "" && actual != "" && actual != i.mimeType:
		return symbol, fileError(description + ", not a " + strings.ToUpper(strings.TrimPrefix(i.mimeType, "image/")))
	case actual == "" && i.mimeType != picture.SVG:
		return symbol, fileError("not a picture")
	}
	mimeType := cmp.Or(i.mimeType, actual)
	if mimeType == picture.SVG {
		i.content = picture.ToUTF8(i.content)
	}
	width, height, err := picture.Size(mimeType, i.content)
	if err != nil {
		return symbol, fileError(err.Error())
	}
	if symbol.Tags, err = symbols.NewTags(distinct(i.tags)...); err == nil && len(i.meta) > 0 {
		symbol.Meta, err = symbols.ParseMeta(encodeJSON(i.meta))
	}
	if err != nil {
		return symbol, fileError(err.Error())
	}
	// The JSON is not encoded at once, because that takes three times its size.
	before, after, _ := strings.Cut(string(encodeJSON(imageData{i.name, mimeType, []byte{}, width, height})), `"content":""`)
	symbol.Name, symbol.Type, symbol.Data = i.name, mimeType, envelope{before + `"content":"`, `"` + after}.join(i.content)
	return symbol, nil
}

// distinct returns each tag of a list once, at most 33: NewTags rejects more than 32.
func distinct(tags []string) (list []string) {
	for _, tag := range tags {
		if len(list) <= 32 && !slices.Contains(list, tag) {
			list = append(list, tag)
		}
	}
	return list
}

func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }
