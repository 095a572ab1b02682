package bodies

import (
	"slices"
	"strings"
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
