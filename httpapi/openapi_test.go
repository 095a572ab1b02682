package httpapi

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// openAPI is the part of the document that these tests read. Package
// internal/contract compares it with requests and responses.
type openAPI struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas struct {
			ErrorCode struct {
				Description string
				Enum        []string
			}
		}
	}
}

func readDocument(t *testing.T) (doc openAPI) {
	t.Helper()
	is.New(t).NoErr(json.Unmarshal(OpenAPI(), &doc))
	return doc
}

func TestOpenAPI_HasAllRoutes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	name := regexp.MustCompile(`\{\w+\}`) // of path parameters, which may differ
	var inDocument, inTable []string      // with the keys that may be required
	for path, item := range readDocument(t).Paths {
		for method, text := range item {
			if method == "parameters" {
				continue
			}
			var operation struct{ Security []map[string]any }
			is.NoErr(json.Unmarshal(text, &operation))
			line := strings.ToUpper(method) + " " + name.ReplaceAllString(path, "{}")
			for _, scheme := range operation.Security {
				delete(scheme, "pageToken") // in place of the client key
				line += strings.Join(slices.Collect(maps.Keys(scheme)), "")
			}
			inDocument = append(inDocument, line)
		}
	}
	schemes := map[credential]string{adminKey: "adminKey", clientKey: "clientKey", ownKey: "clientKey", registerKey: "clientKeyadminKey"}
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), &keys.Options{ForeignKeys: true})
	is.NoErr(err)
	library, err := symbols.NewService(db.Symbols(), nil)
	is.NoErr(err)
	files, err := exports.NewService(db.Exports(), nil)
	is.NoErr(err)
	a, err := New(&Options{Keys: clientKeys, Symbols: library, Exports: files, RevokeRoute: true})
	is.NoErr(err)
	for _, route := range a.routes() {
		inTable = append(inTable, route.method+" "+name.ReplaceAllString(route.path, "{}")+schemes[route.auth])
	}
	slices.Sort(inDocument)
	slices.Sort(inTable)
	is.New(t).Equal(inDocument, inTable)
}

func TestOpenAPI_HasAllErrorCodes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	statuses := make(map[string]int)
	for _, f := range append(slices.Clone(errorTable),
		lookupError(invalidRequest("")), lookupError(&DeniedError{RetryAfter: 1}), lookupError(&exports.NotReadyError{}),
		lookupError(errors.New("unforeseen"))) {
		if status, ok := statuses[f.code]; ok && status != f.status {
			t.Errorf("%s has the statuses %d and %d", f.code, status, f.status)
		}
		statuses[f.code] = f.status
	}
	codes := readDocument(t).Components.Schemas.ErrorCode
	is.Equal(slices.Sorted(slices.Values(codes.Enum)), slices.Sorted(maps.Keys(statuses)))
	for code, status := range statuses {
		is.True(strings.Contains(codes.Description, "`"+code+"` "+strconv.Itoa(status)))
	}
}

func TestOpenAPI_ReturnsCopy(t *testing.T) {
	t.Parallel()
	OpenAPI()[0] = 'x'
	is.New(t).Equal(string(OpenAPI()), document)
}
