package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"
)

// variant is a body that differs from an example in one field.
type variant struct {
	name string
	body map[string]any
}

// variants alters every field of an object: around each limit, and to values of
// every other type.
func variants(schema *openapi3.Schema, example map[string]any) (list []variant) {
	with := func(name, field string, value any) {
		body := maps.Clone(example)
		body[field] = value
		list = append(list, variant{name, body})
	}
	with("with an unknown field", "unknown", []any{1, nil})
	for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[field].Value
		without := maps.Clone(example)
		delete(without, field)
		list = append(list, variant{"without " + field, without})
		for _, value := range []any{nil, true, 1, 1.5, "text", "", " \t", "a\x00b", []any{}, map[string]any{}, 0, -1} {
			with(fmt.Sprintf("%s is %#v", field, value), field, value)
		}
		if text, ok := example[field].(string); ok {
			with(field+" ends with NUL", field, text+"\x00")
			with(field+" starts with NUL", field, "\x00"+text)
			if longest := property.MaxLength; longest != nil {
				at := func(n uint64) string { return text + strings.Repeat("x", int(n)-len(text)) }
				with(field+" has the maximum length", field, at(*longest))
				with(field+" is too long", field, at(*longest+1))
				if field != "type" { // MIME types are ASCII
					with(field+" has the maximum length in two-byte characters", field, text+strings.Repeat("ä", int(*longest)-len(text)))
				}
			}
		}
		items, ok := example[field].([]any)
		if !ok || len(items) == 0 {
			continue
		}
		if object, ok := items[len(items)-1].(map[string]any); ok {
			for _, inner := range variants(property.Items.Value, object) {
				with(fmt.Sprintf("%s[1] %s", field, inner.name), field, []any{items[0], inner.body})
			}
		}
		for _, value := range []any{nil, "text", 1} {
			with(fmt.Sprintf("%s[0] is %#v", field, value), field, []any{value})
		}
	}
	return list
}

// TestLimits_SchemaAndServerAgree checks that the server rejects a body with 400
// if and only if the schema rejects it.
func TestLimits_SchemaAndServerAgree(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc := loadDocument(t)
	count := 0
	for _, op := range doc.operations {
		if op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil {
			continue
		}
		f := newFixture(t, doc)
		schema := op.RequestBody.Value.Content["application/json"].Schema
		fullest := make(map[string]any) // all fields of the examples
		for _, example := range jsonExamples(op.RequestBody.Value.Content) {
			for field, value := range example.(map[string]any) {
				if value != nil {
					fullest[field] = value
				}
			}
		}
		for name := range schema.Value.Properties {
			t.Log(op, name)
			is.True(fullest[name] != nil)
		}
		for _, v := range variants(schema.Value, fullest) {
			body := marshal(v.body)
			var value any
			is.NoErr(json.Unmarshal([]byte(body), &value))
			invalid := validate(schema, value)
			e := f.send(f.prepare(op, body, "application/json"))
			if rejected := e.Status == 400; rejected != (invalid != nil) {
				t.Errorf("%s, %s: the schema returns %v, the server %d %.200s", op, v.name, invalid, e.Status, e.GotBody)
			}
			count++
		}
	}
	t.Logf("%d bodies", count)
}
