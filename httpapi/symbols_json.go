package httpapi

import (
	"strconv"
	"strings"
	"unicode/utf8"

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
	const overhead = 128 // field names, ids, a few other escapes
	return overhead + len(name) + len(mimeType) + len(data) + strings.Count(data, `"`) + strings.Count(data, `\`)
}

// appendString appends a JSON string (RFC 8259, section 7): the same bytes as
// encoding/json without HTML escaping.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	done := 0 // text[:done] has been appended
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if escapes[c] == "" {
				i++
				continue
			}
			dst = append(dst, text[done:i]...)
			dst = append(dst, escapes[c]...)
			i++
			done = i
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		escape := ""
		switch {
		case r == utf8.RuneError && size == 1: // not UTF-8
			escape = `\ufffd`
		case r == '\u2028': // a line terminator in JavaScript before ES2019
			escape = `\u2028`
		case r == '\u2029':
			escape = `\u2029`
		}
		if escape != "" {
			dst = append(dst, text[done:i]...)
			dst = append(dst, escape...)
			done = i + size
		}
		i += size
	}
	dst = append(dst, text[done:]...)
	return append(dst, '"')
}

// escapes has the escape sequence of each ASCII character that needs one.
var escapes = func() (table [utf8.RuneSelf]string) {
	const hex = "0123456789abcdef"
	for c := range byte(' ') {
		table[c] = `\u00` + string(hex[c>>4]) + string(hex[c&15])
	}
	table['\b'], table['\f'], table['\n'], table['\r'], table['\t'] = `\b`, `\f`, `\n`, `\r`, `\t`
	table['"'], table['\\'] = `\"`, `\\`
	return table
}()
