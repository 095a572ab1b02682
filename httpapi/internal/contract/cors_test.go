package contract

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"example.com/canvasback/httpapi"
)

// TestCORS_AllowsDescribedMethodsAndHeaders checks that pages of allowed origins
// may send all methods and headers of the document, and that its description
// lists the headers that they may read.
func TestCORS_AllowsDescribedMethodsAndHeaders(t *testing.T) {
	t.Parallel()
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
		if name != "" && !slices.Contains(list(preflight, "Access-Control-Allow-Headers"), strings.ToLower(name)) {
			t.Errorf("header %s is not allowed", name)
		}
	}
	for method := range methods {
		if !slices.Contains(list(preflight, "Access-Control-Allow-Methods"), strings.ToLower(method)) {
			t.Errorf("method %s is not allowed", method)
		}
	}
	response := f.sendTo("GET", "/openapi.json", "", http.Header{"Origin": {origin}})
	exposed := strings.Split(response.GotHeader.Get("Access-Control-Expose-Headers"), ", ")
	last := len(exposed) - 1
	text := "`" + strings.Join(exposed[:last], "`, `") + "` and `" + exposed[last] + "`"
	if !strings.Contains(doc.Info.Description, "read "+text) {
		t.Errorf("the description does not list the readable headers %s", text)
	}
}
