package contract

import (
	"net/url"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"
)

func TestDocument_IsValidOpenAPI(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc := loadDocument(t)
	is.True(doc.IsOpenAPI31OrLater())
	is.NoErr(doc.Validate(t.Context(), openapi3.IsOpenAPI31OrLater(), openapi3.EnableSchemaFormatValidation(), openapi3.EnableSchemaPatternValidation()))
	for _, op := range doc.operations {
		t.Log(op)
		is.True(op.Summary != "")
		is.True(op.Description != "")
		is.Equal(len(op.Tags), 1)
		is.True(op.Security != nil)
		is.True(doc.Tags.Get(op.Tags[0]) != nil)
	}
}

// TestDocument_ExamplesMatchTheirSchemas validates every example. Other tests
// send those of requests and compare those of responses with actual ones.
func TestDocument_ExamplesMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc := loadDocument(t)
	check := func(where string, schema *openapi3.SchemaRef, value any) {
		t.Helper()
		t.Log(where)
		is.True(value != nil)
		is.NoErr(validate(schema, value))
	}
	contents := func(where string, content openapi3.Content) {
		t.Helper()
		t.Log(where)
		is.True(content["application/json"] == nil || len(jsonExamples(content)) > 0)
		for name, value := range jsonExamples(content) {
			check(where+" "+name, content["application/json"].Schema, value)
		}
	}
	for _, op := range doc.operations {
		for _, parameter := range op.Parameters {
			check(op.OperationID+" "+parameter.Value.Name, parameter.Value.Schema, parameter.Value.Example)
		}
		if op.RequestBody != nil {
			contents(op.OperationID, op.RequestBody.Value.Content)
		}
		for status, response := range op.Responses.Map() {
			contents(op.OperationID+" "+status, response.Value.Content)
			for name, header := range response.Value.Headers {
				check(op.OperationID+" "+status+" "+name, header.Value.Schema, header.Value.Example)
			}
		}
	}
	for name, response := range doc.Components.Responses {
		contents(name, response.Value.Content)
	}
}

func TestDocument_ServerURLIsRelativeToDocument(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc := loadDocument(t)
	is.Equal(len(doc.Servers), 1)
	server, err := url.Parse(doc.Servers[0].URL)
	is.NoErr(err)
	for _, base := range []string{"http://h", "http://h/api", "https://h/x/api"} {
		t.Log(base)
		documentURL, err := url.Parse(base + "/openapi.json")
		is.NoErr(err)
		is.Equal(documentURL.ResolveReference(server).String(), base+"/")
	}
}
