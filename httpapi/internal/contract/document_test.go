package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"example.com/canvasback/httpapi"
)

// document is the description of the API with all references resolved. The
// objects of answers are closed in it: a field that is not described is wrong,
// although clients are to let pass what they do not know.
type document struct {
	*openapi3.T
	operations []operation // by path and method
}

// operation is a method of a path.
type operation struct {
	*openapi3.Operation
	method string
	path   string // with names in braces
}

func (op operation) String() string {
	if op.Operation == nil {
		return "-" // what the document does not have
	}
	return op.OperationID
}

// loadDocument returns the document, which no test changes.
func loadDocument(t *testing.T) *document {
	t.Helper()
	doc, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

var loaded = sync.OnceValues(func() (*document, error) {
	parsed, err := openapi3.NewLoader().LoadFromData(httpapi.OpenAPI())
	if err != nil {
		return nil, err
	}
	doc := &document{T: parsed}
	for _, path := range slices.Sorted(maps.Keys(parsed.Paths.Map())) {
		item := parsed.Paths.Value(path)
		for _, method := range slices.Sorted(maps.Keys(item.Operations())) {
			op := item.Operations()[method]
			op.Parameters = append(slices.Clone(item.Parameters), op.Parameters...)
			doc.operations = append(doc.operations, operation{op, method, path})
			for _, response := range op.Responses.Map() {
				prepareResponse(response.Value)
			}
		}
	}
	for _, response := range parsed.Components.Responses {
		prepareResponse(response.Value)
	}
	return doc, nil
})

// prepareResponse closes the objects that an answer consists of, and spells
// its headers as net/http does.
func prepareResponse(response *openapi3.Response) {
	for _, mediaType := range response.Content {
		closeObject(mediaType.Schema)
	}
	headers := make(openapi3.Headers)
	for name, header := range response.Headers {
		headers[http.CanonicalHeaderKey(name)] = header
	}
	response.Headers = headers
}

func closeObject(schema *openapi3.SchemaRef) {
	if schema == nil || schema.Value == nil {
		return
	}
	if len(schema.Value.Properties) > 0 {
		schema.Value.AdditionalProperties = openapi3.BoolSchema{Has: new(false)}
	}
	for _, property := range schema.Value.Properties {
		closeObject(property)
	}
	closeObject(schema.Value.Items)
}

// find returns what the document has for a path: the operations by method, nil
// if it has no such path, and the values of the names in braces.
func (d *document) find(path string) (methods map[string]operation, values map[string]string) {
	for _, op := range d.operations {
		if found, ok := match(op.path, path); ok {
			if methods == nil {
				methods = make(map[string]operation)
			}
			methods[op.method] = op
			values = found
		}
	}
	return methods, values
}

// match compares an escaped path with one that has names in braces.
func match(template, path string) (values map[string]string, ok bool) {
	names, parts := strings.Split(template, "/"), strings.Split(path, "/")
	if len(names) != len(parts) {
		return nil, false
	}
	values = make(map[string]string)
	for i, name := range names {
		part, err := url.PathUnescape(parts[i])
		if err != nil {
			return nil, false
		}
		if inner, ok := strings.CutPrefix(name, "{"); ok && part != "" {
			values[strings.TrimSuffix(inner, "}")] = part
		} else if name != part {
			return nil, false
		}
	}
	return values, true
}

// response returns what the document has for a status, nil if nothing.
func (op operation) response(status int) *openapi3.Response {
	if ref := op.Responses.Status(status); ref != nil {
		return ref.Value
	}
	return nil
}

// statuses are those that the document has for an operation.
func (op operation) statuses() []string {
	return slices.Sorted(maps.Keys(op.Responses.Map()))
}

// keyHeader is the header of the key that an operation asks for, empty if it
// asks for none.
func (d *document) keyHeader(op operation) string {
	for _, requirement := range *op.Security {
		for name := range requirement {
			return d.Components.SecuritySchemes[name].Value.Name
		}
	}
	return ""
}

// jsonExamples are the examples of a media type by name.
func jsonExamples(content openapi3.Content) map[string]any {
	examples := make(map[string]any)
	if mediaType := content["application/json"]; mediaType != nil {
		for name, example := range mediaType.Examples {
			examples[name] = example.Value.Value
		}
	}
	return examples
}

// valid reports what is wrong with a value by a schema of the document.
func valid(schema *openapi3.SchemaRef, value any) error {
	err := schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
	if err == nil {
		return nil
	}
	reason, _, _ := strings.Cut(err.Error(), "\n") // the schema and the value follow
	return errors.New(strings.TrimPrefix(reason, "validation failed due to: "))
}

// asJSON is a value of the document as it is sent.
func asJSON(value any) string {
	body, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("%v: %v", value, err))
	}
	return string(body)
}

// errorCodes are the codes that an answer may have by its examples.
func errorCodes(response *openapi3.Response) []string {
	var codes []string
	for _, value := range jsonExamples(response.Content) {
		if body, ok := value.(map[string]any); ok {
			if code, ok := body["code"].(string); ok {
				codes = append(codes, code)
			}
		}
	}
	return codes
}

// notFound and methodNotAllowed are the answers that no operation has.
func (d *document) notFound() *openapi3.Response { return d.Components.Responses["NoSuchPath"].Value }
func (d *document) methodNotAllowed() *openapi3.Response {
	return d.Components.Responses["MethodNotAllowed"].Value
}

// allow is the value of the header Allow for a path.
func allow(methods map[string]operation) []string {
	list := slices.Collect(maps.Keys(methods))
	if methods[http.MethodGet].Operation != nil {
		list = append(list, http.MethodHead)
	}
	slices.Sort(list)
	return list
}
