package bundle

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/symbols"
)

const (
	fallbackName = "symbol"

	// maxStem leaves room for an extension and a number. Were names cut to
	// make room for a number, many could be cut to the same.
	maxStem = 200
)

// entryName is the name of a symbol's file, clean but not unique.
func entryName(symbol symbols.Symbol, isData bool) string {
	name := filename.Clean(symbol.Name)
	if len(name) > maxStem {
		name = filename.Clean(name[:maxStem])
	}
	if name == "" {
		name = fallbackName
	}
	extension := filename.Extension(symbol.Type)
	if isData {
		extension = textExtension(symbol)
	}
	if strings.EqualFold(path.Ext(name), extension) {
		return name
	}
	return name + extension
}

// textExtension is an extension for a symbol's data as it is. The symbol's type
// is often that of something in it.
func textExtension(symbol symbols.Symbol) string {
	extension := filename.Extension(symbol.Type)
	switch {
	case strings.HasPrefix(symbol.Data, "{") && json.Valid([]byte(symbol.Data)):
		return ".json"
	case strings.HasPrefix(symbol.Data, "<") && slices.Contains([]string{".svg", ".xml", ".html"}, extension):
		return extension
	}
	return ".txt"
}
