package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.com/canvasback/httpapi"
)

// document is the description of the API with all references resolved. Objects
// in responses reject fields that are not described, although clients should
// ignore them.
type document struct {
	*openapi3.T
	operations     []operation // by path and method
	componentsJSON any         // for compile
}

// operation is a method of a path template.
type operation struct {
	*openapi3.Operation
	method string
	path   string // template
}

func (op operation) String() string {
	if op.Operation == nil {
		return "-" // not in the document
	}
	return op.OperationID
}

// loadDocument returns the shared document. Tests must not modify it.
func loadDocument(t *testing.T) *document {
	t.Helper()
	doc, err := loaded()
	is.New(t).NoErr(err)
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
	unmarshal(marshal(parsed.Components), &doc.componentsJSON)
	return doc, nil
})

// prepareResponse closes the objects of a response and canonicalizes the names
// of its headers.
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

// find returns the operations of a path by method, nil for an unknown path, and
// the values of the path parameters. A path without parameters comes first.
func (d *document) find(path string) (methods map[string]operation, values map[string]string) {
	exact := d.Paths.Find(path) != nil
	for _, op := range d.operations {
		if found, ok := match(op.path, path); ok && (!exact || op.path == path) {
			if methods == nil {
				methods = make(map[string]operation)
			}
			methods[op.method] = op
			values = found
		}
	}
	return methods, values
}

// match matches an escaped path against a template.
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

// response returns the response for a status, nil if there is none.
func (op operation) response(status int) *openapi3.Response {
	if ref := op.Responses.Status(status); ref != nil {
		return ref.Value
	}
	return nil
}

// statuses returns the documented statuses of an operation.
func (op operation) statuses() []string {
	return slices.Sorted(maps.Keys(op.Responses.Map()))
}

// keyHeader returns the header of the key that an operation requires, "" if it
// requires none.
func (d *document) keyHeader(op operation) string {
	for _, requirement := range *op.Security {
		for name := range requirement {
			return d.Components.SecuritySchemes[name].Value.Name
		}
	}
	return ""
}

// jsonExamples returns the JSON examples of content by name.
func jsonExamples(content openapi3.Content) map[string]any {
	examples := make(map[string]any)
	if mediaType := content["application/json"]; mediaType != nil {
		for name, example := range mediaType.Examples {
			examples[name] = example.Value.Value
		}
	}
	return examples
}

// validate validates a value against a schema of the document.
func validate(schema *openapi3.SchemaRef, value any) error {
	compiled, ok := compiledSchemas.Load(schema.Value)
	if !ok {
		compiled, _ = compiledSchemas.LoadOrStore(schema.Value, compile(schema.Value))
	}
	err := compiled.(*jsonschema.Schema).Validate(value)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		for len(invalid.Causes) > 0 {
			invalid = invalid.Causes[0]
		}
		return invalid
	}
	return err
}

// compiledSchemas has the results of compile by *openapi3.Schema. VisitJSON of openapi3
// compiles a schema for each value.
var compiledSchemas sync.Map

// compile compiles a schema of the document, which has references to its components.
func compile(schema *openapi3.Schema) *jsonschema.Schema {
	doc, err := loaded()
	if err != nil {
		panic(err)
	}
	var resource map[string]any
	unmarshal(marshal(schema), &resource)
	resource["components"] = doc.componentsJSON
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.RegisterFormat(&jsonschema.Format{Name: "int64", Validate: func(value any) error {
		if number, ok := value.(float64); ok && (number < math.MinInt64 || number >= math.MaxInt64) {
			return errors.New("is not a 64-bit integer")
		}
		return nil
	}})
	if err := compiler.AddResource("schema.json", resource); err != nil {
		panic(err)
	}
	return compiler.MustCompile("schema.json")
}

// unmarshal reads a JSON value of the document.
func unmarshal(text string, into any) {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
}

// marshal returns a value of the document as JSON.
func marshal(value any) string {
	body, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("%v: %v", value, err))
	}
	return string(body)
}

// errorCodes returns the codes in the examples of a response.
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

// anyString is one schema for all uses, so that it is compiled once.
var anyString = openapi3.NewStringSchema().NewRef()

// noOperation returns the response to a path or method that is not in the document,
// which describes it in words. Like others it has the code of one of its examples.
func (d *document) noOperation(code string, headers ...string) *openapi3.Response {
	response := *d.Components.Responses["KeyNotFound"].Value
	media := *response.Content["application/json"]
	media.Examples = openapi3.Examples{code: {Value: &openapi3.Example{Value: map[string]any{"code": code}}}}
	response.Content = openapi3.Content{"application/json": &media}
	response.Headers = maps.Clone(response.Headers)
	response.Headers["Referrer-Policy"] = d.Components.Headers["NoReferrer"] // below /viewer/exports/links
	for _, name := range headers {
		response.Headers[name] = &openapi3.HeaderRef{Value: &openapi3.Header{Parameter: openapi3.Parameter{
			Required: true, Schema: anyString,
		}}}
	}
	return &response
}

// allowedMethods returns the methods in the Allow header of a path.
func allowedMethods(methods map[string]operation) []string {
	list := slices.Collect(maps.Keys(methods))
	if methods[http.MethodGet].Operation != nil {
		list = append(list, http.MethodHead)
	}
	slices.Sort(list)
	return list
}
