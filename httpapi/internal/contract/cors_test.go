package contract

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

// TestCORS_AllowsDescribedMethodsAndHeaders checks that pages of allowed origins
// may send all methods and headers of the document, and that its description
// lists the headers that they may read.
func TestCORS_AllowsDescribedMethodsAndHeaders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const origin = "https://viewer.example"
	doc := loadDocument(t)
	f := newFixture(t, doc, func(o *httpapi.Options) { o.AllowedOrigins = []string{origin} })
	preflight := f.sendTo("OPTIONS", "/symbol/folders", "", http.Header{
		"Origin": {origin}, "Access-Control-Request-Method": {"POST"},
	})
	list := func(e exchange, name string) []string {
		return strings.Split(strings.ToLower(e.GotHeader.Get(name)), ", ")
	}
	sent, methods := []string{"Content-Type"}, make(map[string]bool)
	for _, op := range doc.operations {
		sent = append(sent, doc.keyHeader(op))
		methods[op.method] = true
		for _, parameter := range op.Parameters {
			if parameter.Value.In == openapi3.ParameterInHeader {
				sent = append(sent, parameter.Value.Name)
			}
		}
	}
	for _, name := range sent {
		t.Log(name)
		is.True(name == "" || slices.Contains(list(preflight, "Access-Control-Allow-Headers"), strings.ToLower(name)))
	}
	for method := range methods {
		t.Log(method)
		is.True(slices.Contains(list(preflight, "Access-Control-Allow-Methods"), strings.ToLower(method)))
	}
	response := f.sendTo("GET", "/openapi.json", "", http.Header{"Origin": {origin}})
	exposed := strings.Split(response.GotHeader.Get("Access-Control-Expose-Headers"), ", ")
	last := len(exposed) - 1
	text := "`" + strings.Join(exposed[:last], "`, `") + "` and `" + exposed[last] + "`"
	is.True(strings.Contains(doc.Info.Description, "read "+text))
}
