package httpapi

import (
	"slices"
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
	const overhead = 192 // field names, ids, a few other escapes
	return overhead + len(name) + len(mimeType) + len(data) + strings.Count(data, `"`) + strings.Count(data, `\`)
}

// appendString appends a JSON string (RFC 8259, section 7): the same bytes as
// encoding/json without HTML escaping.
//
// The loop has no branch for the most frequent escapes, quotes: in data that is JSON
// itself, the processor would mispredict each.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for len(text) > 0 {
		n := min(len(text), max(cap(dst)-len(dst), 64)/2)
		dst = slices.Grow(dst, 2*n)
		out := dst[len(dst) : len(dst)+2*n]
		i, j := 0, 0
		for ; i < n; i++ {
			c := text[i]
			backslash := escapes[c]
			if backslash > 1 {
				break
			}
			out[j] = '\\'
			j += int(backslash)
			out[j] = c
			j++
		}
		dst, text = dst[:len(dst)+j], text[i:]
		if i < n {
			dst, text = appendRune(dst, text)
		}
	}
	return append(dst, '"')
}

// appendRune appends the control character, or the characters that are not ASCII, at
// the start of text. It returns what follows.
func appendRune(dst []byte, text string) (appended []byte, rest string) {
	if c := text[0]; c < ' ' {
		if i := strings.IndexByte("\b\f\n\r\t", c); i >= 0 {
			return append(dst, '\\', "bfnrt"[i]), text[1:]
		}
		const hex = "0123456789abcdef"
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15]), text[1:]
	}
	end := 0 // text[:end] needs no escapes
	for end < len(text) && text[end] >= utf8.RuneSelf {
		r, size := utf8.DecodeRuneInString(text[end:])
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
			return append(append(dst, text[:end]...), escape...), text[end+size:]
		}
		end += size
	}
	return append(dst, text[:end]...), text[end:]
}

// escapes has 1 for each byte that needs only a backslash, and 2 for those that need
// more or are not ASCII.
var escapes = func() (table [256]uint8) {
	for c := range table {
		switch {
		case c == '"' || c == '\\':
			table[c] = 1
		case c < ' ' || c >= utf8.RuneSelf:
			table[c] = 2
		}
	}
	return table
}()
