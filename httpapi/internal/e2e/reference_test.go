package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

// document is a short OpenAPI document with the features of the API's own.
const document = `{
	"openapi": "3.1.1",
	"info": {"title": "Canvasback", "version": "1", "description": "What it is.\n\n## Keys\n\nAn ` + "`x-admin-key`" + ` for some."},
	"tags": [{"name": "Keys"}, {"name": "Symbols"}],
	"paths": {
		"/admin/api-keys": {
			"parameters": [{"$ref": "#/components/parameters/RequestId"}],
			"post": {
				"tags": ["Keys"], "summary": "Create a client key", "description": "Issues a raw key; ` + "`name`" + ` is free.", "security": [{"adminKey": []}],
				"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Request"}, "examples": {"one": {"summary": "A quoted name", "value": {"name": "it's <b>mine</b>"}}}}}},
				"responses": {
					"201": {"description": "The key was created.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Response"}, "examples": {"one": {"summary": "A key", "value": {"apiKey": "cbk_EXAMPLE"}}}}}},
					"400": {"$ref": "#/components/responses/Invalid"}
				}
			}
		},
		"/symbol/folders/{id}/import": {
			"parameters": [{"name": "id", "in": "path", "description": "Of the folder.", "example": 7}],
			"post": {
				"tags": ["Symbols"], "summary": "Import", "description": "All or none.", "security": [{"clientKey": []}],
				"requestBody": {"content": {"application/zip": {"schema": {}}}}, "responses": {"201": {"description": "Done."}}
			}
		},
		"/symbol/folders/{id}/export": {
			"parameters": [{"name": "id", "in": "path", "description": "Of the folder.", "example": 7}],
			"get": {"tags": ["Symbols"], "summary": "Export", "description": "A zip.", "security": [{"clientKey": []}, {"adminKey": []}], "responses": {"200": {"description": "The zip.", "content": {"application/zip": {"schema": {}}}}}}
		}
	},
	"components": {
		"securitySchemes": {"adminKey": {"name": "x-admin-key"}, "clientKey": {"name": "x-api-key"}},
		"parameters": {"RequestId": {"name": "X-Request-Id", "in": "header", "description": "Request id."}},
		"responses": {"Invalid": {"description": "Invalid request."}},
		"schemas": {
			"Request": {"type": "object", "required": ["name"], "properties": {"name": {"description": "For people.", "type": "string", "maxLength": 255}, "expiresAt": {"type": ["string", "null"]}}},
			"Response": {"type": "object", "properties": {"apiKey": {"type": "string"}, "key": {"$ref": "#/components/schemas/Record"}, "list": {"type": "array", "items": {"$ref": "#/components/schemas/Record"}}}},
			"Record": {"type": "object", "properties": {"id": {"type": "integer"}}}
		}
	}
}`

// startDocumentSite returns a site that replaces the OpenAPI document of its API.
func startDocumentSite(t *testing.T) *site {
	s := startSite(t)
	s.failure.Store(&failure{part: "/api/openapi.json", status: 200, body: document})
	return s
}

func TestReference_ShowsOperations(t *testing.T) {
	s := startDocumentSite(t)
	b := openTab(t, s.url+"#/api")
	b.waitText("Create a client key", s.url+"api/")
	b.click("About this API")
	b.waitText("An x-admin-key for some.")
	show := func(summary string) string {
		operation := `[...document.querySelectorAll(".operation")].find((one) => one.innerText.includes(` + quote(summary) + `))`
		b.clickNode(operation + `.querySelector("summary")`)
		b.wait(operation + `.querySelector(".command")`)
		return eval[string](b, operation+`.innerText.replace(/\s+/g, " ")`)
	}
	text := show("Create a client key")
	for _, want := range []string{
		"Issues a raw key; name is free.", "Requires x-admin-key.", "X-Request-Id header Request id.", "name string required For people. At most 255 characters.",
		"expiresAt string or null", "Example: A quoted name", "201 The key was created.", "400 Invalid request.", "key.id integer", "list array of object", "list[].id integer", "Example: A key",
		`curl '` + s.url + `api/admin/api-keys' \ -H "x-admin-key: $ADMIN_KEY" \ -H 'Content-Type: application/json' \ -d '{"name":"it'\''s <b>mine</b>"}'`,
	} {
		t.Log(want)
		s.is.True(strings.Contains(text, want))
	}
	b.clickNode(`[...document.querySelectorAll(".operation[open] summary")].find((one) => one.innerText === "Example: A quoted name")`)
	b.waitText(`"name": "it's <b>mine</b>"`)
	s.is.True(strings.Contains(show("Import"), `curl '`+s.url+`api/symbol/folders/7/import' \ -H "x-api-key: $CLIENT_KEY" \ -H 'Content-Type: application/zip' \ --data-binary @symbols.zip`))
	text = show("Export")
	s.is.True(strings.Contains(text, "Requires x-api-key or x-admin-key."))
	s.is.True(strings.Contains(text, `curl -OJ '`+s.url+`api/symbol/folders/7/export' \ -H "x-api-key: $CLIENT_KEY"`))

	b.click("Copy: With curl")
	b.waitText("Copied.")
}

func TestReference_ShowsAllOperationsOfTheAPI(t *testing.T) {
	is := is.New(t)
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	is.NoErr(json.Unmarshal(httpapi.OpenAPI(), &document))
	operations := 0
	for _, item := range document.Paths {
		for method := range item {
			if slices.Contains([]string{"get", "post", "patch", "delete"}, method) {
				operations++
			}
		}
	}
	b := openTab(t, startSite(t).url+"#/api")
	b.waitText("Create a client key")
	equal(b, `document.querySelectorAll(".operation").length`, operations)
	b.clickNode(`document.querySelector(".operation summary")`)
	b.wait(`document.querySelector(".operation .command")`)
}
