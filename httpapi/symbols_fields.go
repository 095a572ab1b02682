package httpapi

import (
	"slices"
	"strings"
)

// fieldSet is a set of the fields of a symbol record. Zero means that the request
// does not select fields.
type fieldSet uint8

const (
	idField fieldSet = 1 << iota
	nameField
	typeField
	dataField
	folderIDField
	sizeField

	allFields  = idField | nameField | typeField | dataField | folderIDField // of a record by default
	infoFields = allFields &^ dataField
)

// fieldNames are the names of the fields, in the order of the constants and of
// records.
var fieldNames = []string{"id", "name", "type", "data", "folderId", "size"}

// fields returns the parameter fields, or 0 if the request does not have it.
func (q query) fields() (fieldSet, error) {
	text, ok, err := q.get("fields")
	if err != nil || !ok {
		return 0, err
	}
	var set fieldSet
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(fieldNames, name)
		if i < 0 || set&(1<<i) != 0 {
			return 0, invalidRequest("fields must be different names, separated by commas: " + strings.Join(fieldNames, ", "))
		}
		set |= 1 << i
	}
	return set, nil
}
