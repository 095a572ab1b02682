package bodies

import (
	"cmp"
	"errors"
	"strings"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/picture"
)

// ErrNoImage means that the data of a symbol is not an image.
var ErrNoImage = errors.New("the data of this symbol is not an image")

// ImageInfo describes the image of a symbol.
type ImageInfo struct {
	Type     string // media type; empty if there is no image
	FileName string // clean, with the extension of the type
}

// image returns the image of a symbol; the zero ImageInfo if there is none.
func image(symbol symbols.Symbol) ([]byte, ImageInfo) {
	found, ok := picture.Find(symbol.Data)
	if !ok {
		return nil, ImageInfo{}
	}
	name := cmp.Or(filename.Clean(symbol.Name), "symbol")
	if !strings.HasSuffix(strings.ToLower(name), found.Extension) {
		name = filename.Clean(name + found.Extension)
	}
	return found.Content, ImageInfo{found.Type, name}
}
