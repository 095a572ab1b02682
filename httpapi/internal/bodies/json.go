package bodies

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/canvasback/symbols"
)

// Viewers load folders and symbols often, with all their data. These functions
// encode them without reflection.

// AppendFolder appends a folder as JSON.
func AppendFolder(dst []byte, folder symbols.Folder) []byte {
	dst = strconv.AppendInt(append(dst, `{"id":`...), folder.ID, 10)
	dst = AppendString(append(dst, `,"name":`...), folder.Name)
	return append(dst, '}')
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
			dst = AppendStrings(dst, symbol.Tags.List())
		case metaField:
			dst = append(dst, cmp.Or(symbol.Meta, "null")...)
		case createdAtField:
			dst = append(AppendTime(append(dst, '"'), symbol.CreatedAt), '"')
		case updatedAtField:
			dst = append(AppendTime(append(dst, '"'), symbol.UpdatedAt), '"')
		case updatedByField:
			if symbol.UpdatedBy == 0 {
				dst = append(dst, "null"...)
			} else {
				dst = strconv.AppendInt(dst, symbol.UpdatedBy, 10)
			}
		}
		separator = ','
	}
	return append(dst, '}')
}

// AppendStrings appends a list of JSON strings.
func AppendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, text := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, text)
	}
	return append(dst, ']')
}

// AppendTime appends a time as RFC 3339 in UTC with milliseconds. AppendFormat is several
// times as fast for time.RFC3339 as for other layouts.
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

// AppendString appends a JSON string (RFC 8259, section 7). It replaces invalid UTF-8 by
// U+FFFD. The inner loop has no branch for quotes: in data that is JSON itself, the processor
// would mispredict many, and [jsontext.AppendQuote] takes more than twice as long.
func AppendString(dst []byte, text string) []byte {
	if !utf8.ValidString(text) {
		dst, _ = jsontext.AppendQuote(dst, text) // the error reports what it has replaced
		return dst
	}
	dst = append(dst, '"')
	for text != "" {
		n := min(len(text), max(cap(dst)-len(dst), 64)/2)
		dst = slices.Grow(dst, 2*n) // copies nothing while 64 bytes are free
		out, i, j := dst[len(dst):len(dst)+2*n], 0, 0
		for ; i < n && text[i] >= ' '; i++ {
			c := text[i]
			out[j] = '\\'
			j += int(backslashes[c])
			out[j] = c
			j++
		}
		dst = dst[:len(dst)+j]
		for text = text[i:]; text != "" && text[0] < ' '; text = text[1:] {
			dst = append(dst, controls[text[0]]...)
		}
	}
	return append(dst, '"')
}

// What a byte needs: a number of backslashes, or if it is a control character an escape.
var (
	backslashes = [256]byte{'"': 1, '\\': 1}
	controls    = strings.Fields(`\u0000 \u0001 \u0002 \u0003 \u0004 \u0005 \u0006 \u0007 \b \t \n \u000b \f \r \u000e \u000f
		\u0010 \u0011 \u0012 \u0013 \u0014 \u0015 \u0016 \u0017 \u0018 \u0019 \u001a \u001b \u001c \u001d \u001e \u001f`)
)

// Fields is a set of the fields of a symbol record.
type Fields uint16

const (
	idField Fields = 1 << iota
	nameField
	typeField
	dataField
	folderIDField
	sizeField
	tagsField
	metaField
	createdAtField
	updatedAtField
	updatedByField

	AllFields  = idField | nameField | typeField | dataField | folderIDField // of a record by default
	InfoFields = AllFields &^ dataField

	detailFields = tagsField | metaField | createdAtField | updatedAtField | updatedByField
)

// fieldNames are the names of the fields, in the order of the constants and of
// records.
var fieldNames = []string{"id", "name", "type", "data", "folderId", "size", "tags", "meta", "createdAt", "updatedAt", "updatedBy"}

// ParseFields parses names that are separated by commas. It returns false unless they
// are known and different.
func ParseFields(text string) (set Fields, ok bool) {
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(fieldNames, name)
		if i < 0 || set&(1<<i) != 0 {
			return 0, false
		}
		set |= 1 << i
	}
	return set, true
}

// FieldNames returns the names of all fields, in the order of records.
func FieldNames() []string { return slices.Clone(fieldNames) }

// InInfo reports whether a [symbols.SymbolInfo] has all fields.
func (f Fields) InInfo() bool { return f&^(InfoFields|sizeField|tagsField) == 0 }
