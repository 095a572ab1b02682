package bodies

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/symbols"
)

// Viewers load folders and symbols often, with all their data. These functions
// encode them without reflection.

// AppendFolder appends a folder as JSON.
func AppendFolder(dst []byte, folder symbols.Folder) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, folder.ID, 10)
	dst = append(dst, `,"name":`...)
	dst = AppendString(dst, folder.Name)
	return append(dst, '}')
}

// AppendSymbol appends a symbol as JSON.
func AppendSymbol(dst []byte, symbol symbols.Symbol) []byte {
	dst = slices.Grow(dst, encodedSize(symbol.Name, symbol.Type, symbol.Data))
	return AppendFields(dst, symbol.Info(), symbol.Data, AllFields)
}

// AppendFields appends the given fields of a symbol as JSON. The data is used only if it
// is among them.
func AppendFields(dst []byte, symbol symbols.SymbolInfo, data string, fields Fields) []byte {
	separator := byte('{')
	for i, name := range fieldNames {
		field := Fields(1) << i
		if fields&field == 0 {
			continue
		}
		dst = append(dst, separator, '"')
		dst = append(dst, name...)
		dst = append(dst, `":`...)
		switch field {
		case idField:
			dst = strconv.AppendInt(dst, symbol.ID, 10)
		case nameField:
			dst = AppendString(dst, symbol.Name)
		case typeField:
			dst = AppendString(dst, symbol.Type)
		case dataField:
			dst = AppendString(dst, data)
		case folderIDField:
			dst = strconv.AppendInt(dst, symbol.FolderID, 10)
		case sizeField:
			dst = strconv.AppendInt(dst, symbol.Size, 10)
		}
		separator = ','
	}
	return append(dst, '}')
}

// encodedSize estimates the size of a symbol as JSON, rarely too low.
func encodedSize(name, mimeType, data string) int {
	const overhead = 192 // field names, ids, a few other escapes
	return overhead + len(name) + len(mimeType) + len(data) + strings.Count(data, `"`) + strings.Count(data, `\`)
}

// AppendString appends a JSON string (RFC 8259, section 7). It replaces invalid
// UTF-8 by U+FFFD.
func AppendString(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // the error only reports the replacement
	return dst
}
