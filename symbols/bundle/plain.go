package bundle

import (
	"archive/zip"
	"context"
	"path"
	"strings"
	"unicode/utf8"

	"example.com/canvasback/symbols"
)

// imageData is the data of a symbol that is made of an image, as viewers write
// it.
type imageData struct {
	Name    string  `json:"name"`
	Type    string  `json:"type"`
	Content []byte  `json:"content"` // in base64
	Width   float64 `json:"width"`
	Height  float64 `json:"height"`
}

// readPlain makes a symbol of every file.
func (r *reader) readPlain(ctx context.Context) error {
	read := make(map[string]bool, len(r.entries))
	for _, entry := range r.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.ignores(entry) {
			continue
		}
		if read[entry.Name] {
			r.refuse(entry.Name, "more than one file has this name")
			continue
		}
		read[entry.Name] = true
		symbol, err := r.image(entry)
		if err := r.take(entry.Name, symbol, err); err != nil {
			return err
		}
	}
	return nil
}

// image makes a symbol of an SVG or PNG file.
func (r *reader) image(entry *zip.File) (symbols.NewSymbol, error) {
	if !utf8.ValidString(entry.Name) {
		return symbols.NewSymbol{}, refusal("name is not in UTF-8")
	}
	base := baseName(entry.Name)
	extension := path.Ext(base)
	mimeType, sizeOf := "", pngSize
	switch strings.ToLower(extension) {
	case ".png":
		mimeType = "image/png"
	case ".svg":
		mimeType, sizeOf = "image/svg+xml", svgSize
	default:
		return symbols.NewSymbol{}, refusal("neither SVG nor PNG")
	}
	content, err := r.expand(entry, r.limits.Symbol)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	width, height, err := sizeOf(content)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	name := strings.TrimSuffix(base, extension)
	data := encode(imageData{name, mimeType, content, width, height})
	return symbols.NewSymbol{Name: name, Type: mimeType, Data: string(data)}, nil
}
