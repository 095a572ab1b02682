package bodies

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
	return AppendFields(dst, symbol, AllFields)
}

// AppendFields appends the given fields of a symbol as JSON.
func AppendFields(dst []byte, symbol symbols.Symbol, fields Fields) []byte {
	dst = slices.Grow(dst, encodedSize(symbol.Name, symbol.Type, symbol.Data))
	return appendFields(dst, &symbol, int64(len(symbol.Data)), fields)
}

// AppendInfo is AppendFields for fields that are [Fields.InInfo].
func AppendInfo(dst []byte, info symbols.SymbolInfo, fields Fields) []byte {
	symbol := symbols.Symbol{ID: info.ID, Name: info.Name, Type: info.Type, FolderID: info.FolderID, Tags: info.Tags}
	return appendFields(dst, &symbol, info.Size, fields)
}

func appendFields(dst []byte, symbol *symbols.Symbol, size int64, fields Fields) []byte {
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
			dst = AppendString(dst, symbol.Data)
		case folderIDField:
			dst = strconv.AppendInt(dst, symbol.FolderID, 10)
		case sizeField:
			dst = strconv.AppendInt(dst, size, 10)
		case tagsField:
			dst = appendTags(dst, symbol.Tags)
		case metaField:
			dst = append(dst, cmp.Or(symbol.Meta, "null")...)
		case createdAtField:
			dst = append(AppendTime(append(dst, '"'), symbol.CreatedAt), '"')
		case updatedAtField:
			dst = append(AppendTime(append(dst, '"'), symbol.UpdatedAt), '"')
		case updatedByField:
			dst = AppendOptionalID(dst, symbol.UpdatedBy)
		}
		separator = ','
	}
	return append(dst, '}')
}

func appendTags(dst []byte, tags symbols.Tags) []byte {
	dst = append(dst, '[')
	for i, tag := range tags.List() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, tag)
	}
	return append(dst, ']')
}

// AppendOptionalID appends an id, or null if it is zero.
func AppendOptionalID(dst []byte, id int64) []byte {
	if id == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, id, 10)
}

// AppendTime appends a time as RFC 3339 in UTC with milliseconds. AppendFormat has a fast
// path for time.RFC3339 only.
func AppendTime(dst []byte, t time.Time) []byte {
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst[:len(dst)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// encodedSize estimates the size of a symbol as JSON, rarely too low.
func encodedSize(name, mimeType, data string) int {
	const overhead = 192 // field names, ids, a few other escapes
	return overhead + len(name) + len(mimeType) + len(data) + strings.Count(data, `"`) + strings.Count(data, `\`)
}

// AppendString appends a JSON string (RFC 8259, section 7): the same bytes as
// jsontext.AppendQuote. It replaces invalid UTF-8 by U+FFFD.
//
// The loop has no branch for the most frequent escapes, quotes: in data that is JSON
// itself, the processor would mispredict each.
func AppendString(dst []byte, text string) []byte {
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
	end := 0 // text[:end] is UTF-8
	for end < len(text) && text[end] >= utf8.RuneSelf {
		r, size := utf8.DecodeRuneInString(text[end:])
		if r == utf8.RuneError && size == 1 {
			return append(append(dst, text[:end]...), "\ufffd"...), text[end+1:]
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
