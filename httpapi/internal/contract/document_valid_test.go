package contract

import (
	"net/url"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestDocument_IsValidOpenAPI(t *testing.T) {
	t.Parallel()
	doc := loadDocument(t)
	if !doc.IsOpenAPI31OrLater() {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	err := doc.Validate(t.Context(), openapi3.IsOpenAPI31OrLater(), openapi3.EnableSchemaFormatValidation(), openapi3.EnableSchemaPatternValidation())
	if err != nil {
		t.Error(err)
	}
	for _, op := range doc.operations {
		if op.Summary == "" || op.Description == "" || len(op.Tags) != 1 || op.Security == nil {
			t.Errorf("%s lacks a summary, a description, a tag or its security", op)
		}
		if doc.Tags.Get(op.Tags[0]) == nil {
			t.Errorf("%s has the unknown tag %s", op, op.Tags[0])
		}
	}
}

// TestDocument_ExamplesMatchTheirSchemas validates every example. Other tests
// send those of requests and compare those of responses with actual ones.
func TestDocument_ExamplesMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	doc := loadDocument(t)
	check := func(where string, schema *openapi3.SchemaRef, value any) {
		t.Helper()
		if value == nil {
			t.Errorf("%s has no example", where)
		} else if err := validate(schema, value); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	contents := func(where string, content openapi3.Content) {
		t.Helper()
		if content["application/json"] != nil && len(jsonExamples(content)) == 0 {
			t.Errorf("%s has no example", where)
		}
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
	doc := loadDocument(t)
	if len(doc.Servers) != 1 {
		t.Fatalf("there are %d servers", len(doc.Servers))
	}
	server, err := url.Parse(doc.Servers[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{"http://h", "http://h/api", "https://h/x/api"} {
		documentURL, err := url.Parse(base + "/openapi.json")
		if err != nil {
			t.Fatal(err)
		}
		if got := documentURL.ResolveReference(server).String(); got != base+"/" {
			t.Errorf("the server of the document at %s is %s", base, got)
		}
	}
}
