package client_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/client"
)

// maxCompressed is the limit on the size of client.js with gzip, in bytes.
const maxCompressed = 10_000

// operation is a row of the table in client.js.
type operation struct {
	name   string
	method string
	path   string
	kind   string // json, file or upload
}

// readOperations returns the table of client.js by name.
func readOperations(t *testing.T) []operation {
	t.Helper()
	script, err := fs.ReadFile(client.Files, "client.js")
	is.New(t).NoErr(err)
	var list []operation
	row := regexp.MustCompile(`(?m)^\t(\w+): \["([A-Z]+)", "(\S+)", "(\w+)"\],$`)
	for _, match := range row.FindAllStringSubmatch(string(script), -1) {
		list = append(list, operation{match[1], match[2], "/" + match[3], match[4]})
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.name, b.name) })
	return list
}

// content is by media type.
type content map[string]json.RawMessage

// documented returns the operations of the OpenAPI document that take x-api-key, as
// they must be in client.js, by name.
func documented(t *testing.T) []operation {
	t.Helper()
	is := is.New(t)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	is.NoErr(json.Unmarshal(httpapi.OpenAPI(), &doc))
	var list []operation
	for path, item := range doc.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var o struct {
				OperationID string
				Security    []map[string]any
				RequestBody *struct{ Content content }
				Responses   map[string]struct{ Content content }
			}
			is.NoErr(json.Unmarshal(raw, &o))
			if !slices.ContainsFunc(o.Security, func(one map[string]any) bool { return one["clientKey"] != nil }) {
				continue
			}
			row := operation{o.OperationID, strings.ToUpper(method), path, "json"}
			for status, response := range o.Responses {
				if status < "300" && hasOther(response.Content) {
					row.kind = "file"
				}
			}
			if o.RequestBody != nil && o.RequestBody.Content["application/json"] == nil {
				row.kind = "upload"
			}
			t.Log(row)
			takesBody := row.method == "POST" || row.method == "PATCH"
			is.Equal(takesBody, o.RequestBody != nil) // as client.js assumes
			list = append(list, row)
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.name, b.name) })
	return list
}

// hasOther reports whether content may be something else than JSON.
func hasOther(c content) bool {
	c = maps.Clone(c)
	delete(c, "application/json")
	return len(c) > 0
}

func TestClient_HasTheOperationsOfTheDocument(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(readOperations(t), documented(t))
}

func TestClient_IsSmallAndSelfContained(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, name := range []string{"client.js", "client.d.ts"} {
		text, err := fs.ReadFile(client.Files, name)
		is.NoErr(err)
		is.True(!regexp.MustCompile(`(?m)^\s*import\b|\bimport\(|\brequire\(`).Match(text))
		is.True(!regexp.MustCompile(`new URL\("[^"]*", import\.meta\.url\)`).Match(text)) // Parcel bundles the file, or fails
		is.True(!regexp.MustCompile(`[^\x00-\x7f]`).Match(text))                          // the media types name no encoding
		var compressed bytes.Buffer
		z := gzip.NewWriter(&compressed)
		_, err = z.Write(text)
		is.NoErr(err)
		is.NoErr(z.Close())
		is.True(compressed.Len() <= maxCompressed)
		t.Logf("%s: %d bytes, %d with gzip", name, len(text), compressed.Len())
	}
}
