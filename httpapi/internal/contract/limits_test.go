package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// variant is a body that differs from an example in one place.
type variant struct {
	name string
	body map[string]any
}

// variants alters an object in every place that its schema speaks of: around
// each limit, and with values of every other type.
func variants(schema *openapi3.Schema, example map[string]any) (list []variant) {
	with := func(name, field string, value any) {
		body := maps.Clone(example)
		body[field] = value
		list = append(list, variant{name, body})
	}
	with("with a field that nobody knows", "unknown", []any{1, nil})
	for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[field].Value
		without := maps.Clone(example)
		delete(without, field)
		list = append(list, variant{"without " + field, without})
		for _, value := range []any{nil, true, 1, 1.5, "text", "", " \t", "a\x00b", []any{}, map[string]any{}, 0, -1} {
			with(fmt.Sprintf("%s is %#v", field, value), field, value)
		}
		if text, ok := example[field].(string); ok {
			with(field+" has a NUL at its end", field, text+"\x00")
			with(field+" has a NUL at its start", field, "\x00"+text)
			if longest := property.MaxLength; longest != nil {
				at := func(n uint64) string { return text + strings.Repeat("x", int(n)-len(text)) }
				with(field+" is as long as can be", field, at(*longest))
				with(field+" is too long", field, at(*longest+1))
				if field != "type" { // which is ASCII
					with(field+" is as long as can be in letters of two bytes", field, text+strings.Repeat("ä", int(*longest)-len(text)))
				}
			}
		}
		items, ok := example[field].([]any)
		if !ok || len(items) == 0 {
			continue
		}
		for _, inner := range variants(property.Items.Value, items[0].(map[string]any)) {
			with(fmt.Sprintf("%s[1] %s", field, inner.name), field, []any{items[0], inner.body})
		}
		for _, value := range []any{nil, "text", 1} {
			with(fmt.Sprintf("%s[0] is %#v", field, value), field, []any{value})
		}
	}
	return list
}

// TestLimits_areThoseOfTheServer: what a schema refuses, the server refuses,
// and what a schema accepts is at least not refused for its form.
func TestLimits_areThoseOfTheServer(t *testing.T) {
	t.Parallel()
	doc := loadDocument(t)
	count := 0
	for _, op := range doc.operations {
		if op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil {
			continue
		}
		w := newWorld(t, doc)
		schema := op.RequestBody.Value.Content["application/json"].Schema
		fullest := make(map[string]any) // all the fields that examples have
		for _, example := range jsonExamples(op.RequestBody.Value.Content) {
			for field, value := range example.(map[string]any) {
				if value != nil {
					fullest[field] = value
				}
			}
		}
		for name := range schema.Value.Properties {
			if fullest[name] == nil {
				t.Errorf("%s: no example has the field %s", op, name)
			}
		}
		for _, v := range variants(schema.Value, fullest) {
			body := asJSON(v.body)
			var value any
			if err := json.Unmarshal([]byte(body), &value); err != nil {
				t.Fatal(err)
			}
			refusal := valid(schema, value)
			e := w.send(w.prepare(op, body, "application/json"))
			if refused := e.Status == 400; refused != (refusal != nil) {
				t.Errorf("%s, %s: the schema says %v, the server %d %.200s", op, v.name, refusal, e.Status, e.GotBody)
			}
			count++
		}
	}
	t.Logf("%d bodies", count)
}
