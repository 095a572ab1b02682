package httpapi

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/symbols"
)

// Viewers load folders and symbols often, with all their data. These functions
// encode them without reflection.

// appendFolder appends a folder as JSON.
func appendFolder(dst []byte, folder symbols.Folder) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, folder.ID, 10)
	dst = append(dst, `,"name":`...)
	dst = appendString(dst, folder.Name)
	return append(dst, '}')
}

// appendFolders appends a list of folders as JSON.
func appendFolders(dst []byte, list []symbols.Folder) []byte {
	dst = append(dst, '[')
	for i, folder := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendFolder(dst, folder)
	}
	return append(dst, ']')
}

// appendSymbol appends a symbol as JSON.
func appendSymbol(dst []byte, symbol symbols.Symbol) []byte {
	return appendFields(dst, symbol.Info(), symbol.Data, allFields)
}

// appendFields appends the given fields of a symbol as JSON.
func appendFields(dst []byte, symbol symbols.SymbolInfo, data string, fields fieldSet) []byte {
	separator := byte('{')
	for i, name := range fieldNames {
		field := fieldSet(1) << i
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
			dst = appendString(dst, symbol.Name)
		case typeField:
			dst = appendString(dst, symbol.Type)
		case dataField:
			dst = appendString(dst, data)
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

// appendString appends a JSON string (RFC 8259, section 7). It replaces invalid
// UTF-8 by U+FFFD.
func appendString(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // the error only reports the replacement
	return dst
}
