package httpapi

import (
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// optional is a field of a JSON object that may be left out. A null is refused
// unless T is a pointer, for which it is nil.
type optional[T any] struct {
	value T
	set   bool
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom]. It is not called for a
// field that is left out.
func (o *optional[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	o.set = true
	if t := reflect.TypeFor[T](); dec.PeekKind() == 'n' && t.Kind() != reflect.Pointer {
		return &json.SemanticError{JSONPointer: dec.StackPointer(), GoType: t}
	}
	return json.UnmarshalDecode(dec, &o.value)
}

// pointer returns the value, or nil if it was left out.
func (o *optional[T]) pointer() *T {
	if !o.set {
		return nil
	}
	return &o.value
}
