package contract

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/symbols"
)

// fixture is a server with the records of the document's examples: client key 1,
// folders 1 and 2, symbols 1 and 2 in folder 1, and the exports of two sources.
type fixture struct {
	t         *testing.T
	doc       *document
	server    *apitest.Server
	exchanges []exchange
}

// plan and unregistered are the JSON of sources, of which the fixture has the first.
const (
	plan         = `{"sourceFileUrl":"https://viewer.example/documents/17"}`
	unregistered = `{"sourceFileUrl":"https://viewer.example/documents/99"}`
)

// newFixture starts a server. The opts modify the options of its handler.
func newFixture(t *testing.T, doc *document, opts ...func(*httpapi.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, doc: doc}
	f.server = apitest.New(t, slices.Insert(opts, 0, f.addRecords)...)
	for _, name := range []string{"plan.pdf", "section.pdf"} {
		f.server.AddFile(name, "%PDF-1.7 "+name)
	}
	return f
}

// addRecords adds the records through the default services of the options.
func (f *fixture) addRecords(options *httpapi.Options) {
	f.t.Helper()
	is, ctx := is.New(f.t), f.t.Context()
	options.RevokeRoute, options.RegisterWith = true, httpapi.RegisterWithClientKey
	for _, name := range []string{"Valves", "Pumps"} {
		_, err := options.Symbols.CreateFolder(ctx, name)
		is.NoErr(err)
	}
	for _, name := range []string{"Gate valve", "Globe valve", "In the trash"} {
		_, err := options.Symbols.CreateSymbol(ctx, 1, symbols.NewSymbol{Name: name, Type: "image/svg+xml", Data: "<svg/>"})
		is.NoErr(err)
	}
	is.NoErr(options.Symbols.DeleteSymbol(ctx, 3, symbols.Any, 0))
	for source, file := range map[string]string{"17": "plan.pdf", "18": "section.pdf"} {
		_, _, err := options.Exports.Register(ctx, exports.Registration{
			SourceURL: "https://viewer.example/documents/" + source, ExportedURL: apitest.FilesURL + file,
		})
		is.NoErr(err)
	}
}

// request is a request for an operation.
type request struct {
	op     operation
	values map[string]string // of the path parameters
	query  string
	body   string
	header http.Header
}

// prepare returns a request for an operation with a valid key, the path of the
// parameter examples, and a body.
func (f *fixture) prepare(op operation, body, contentType string) request {
	r := request{op: op, values: make(map[string]string), body: body, header: make(http.Header)}
	for _, ref := range op.Parameters {
		if ref.Value.In == openapi3.ParameterInPath {
			r.values[ref.Value.Name] = fmt.Sprint(ref.Value.Example)
		}
		if ref.Value.In == openapi3.ParameterInQuery && ref.Value.Required {
			r.query = fmt.Sprintf("?%s=%v", ref.Value.Name, ref.Value.Example)
		}
	}
	switch f.doc.keyHeader(op) {
	case "x-admin-key":
		r.header.Set("x-admin-key", apitest.AdminKey)
	case "x-api-key":
		r.header.Set("x-api-key", string(f.server.RawKey))
	}
	if contentType != "" {
		r.header.Set("Content-Type", contentType)
	}
	if r.values["token"] != "" {
		f.useLink(&r, `{"items":[`+plan+`]}`)
	}
	return r
}

// useLink gives a request the token of a new link, if the server makes one.
func (f *fixture) useLink(r *request, body string) {
	f.t.Helper()
	create := f.prepare(f.doc.operation(f.t, "createDownloadLink"), body, "application/json")
	var link struct{ URL string }
	if e := f.send(create); e.Status == http.StatusCreated {
		is.New(f.t).NoErr(json.Unmarshal(e.GotBody, &link))
		r.values["token"] = strings.Split(link.URL, "/")[1]
	}
}

// examples returns a request for each example of a body by name, one for each
// media type of an archive, or one without a body.
func (f *fixture) examples(op operation) map[string]request {
	f.t.Helper()
	requests := make(map[string]request)
	switch {
	case op.RequestBody == nil:
		requests[""] = f.prepare(op, "", "")
	case op.RequestBody.Value.Content["application/json"] != nil:
		for name, value := range jsonExamples(op.RequestBody.Value.Content) {
			requests[name] = f.prepare(op, marshal(value), "application/json")
		}
	default:
		for contentType := range op.RequestBody.Value.Content {
			requests[contentType] = f.prepare(op, archive(f.t, map[string]string{"Check valve.svg": svg}), contentType)
		}
	}
	return requests
}

const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><path d="M0 5l60 30V5L0 35z"/></svg>`

// example returns the first of examples by name.
func (f *fixture) example(op operation) request {
	f.t.Helper()
	examples := f.examples(op)
	return examples[slices.Min(slices.Collect(maps.Keys(examples)))]
}

// send sends a request and records the exchange.
func (f *fixture) send(r request) exchange {
	f.t.Helper()
	target := r.op.path
	for name, value := range r.values {
		target = strings.ReplaceAll(target, "{"+name+"}", value)
	}
	return f.sendTo(r.op.method, target+r.query, r.body, r.header)
}

func (f *fixture) sendTo(method, target, body string, header http.Header) exchange {
	is := is.New(f.t)
	is.Helper()
	sent, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+target, strings.NewReader(body))
	is.NoErr(err)
	maps.Copy(sent.Header, header.Clone())
	got, err := http.DefaultTransport.RoundTrip(sent)
	is.NoErr(err)
	defer got.Body.Close()
	var content []byte
	if got.Header.Get("Content-Type") == "text/event-stream" { // which does not end
		content = make([]byte, 4<<10)
		n, err := got.Body.Read(content)
		is.NoErr(err)
		content = content[:n]
	} else {
		content, err = io.ReadAll(got.Body)
		is.NoErr(err)
	}
	e := exchange{
		Test: f.t.Name(), Method: method, Target: target, Header: sent.Header, Body: []byte(body),
		Status: got.StatusCode, GotHeader: got.Header, GotBody: content,
	}
	f.exchanges = append(f.exchanges, e)
	return e
}

// archive returns a zip of the files with the given content.
func archive(t *testing.T, content map[string]string) string {
	t.Helper()
	is := is.New(t)
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range content {
		f, err := w.Create(name)
		is.NoErr(err)
		_, err = io.WriteString(f, text)
		is.NoErr(err)
	}
	is.NoErr(w.Close())
	return out.String()
}

// failingOpener accepts every URL and fails to open it. Without an error it opens an
// empty file.
type failingOpener struct{ err error }

func (failingOpener) Serves(*url.URL) bool { return true }
func (failingOpener) Check(*url.URL) error { return nil }
func (o failingOpener) Open(context.Context, *url.URL) (*exports.File, error) {
	return &exports.File{Body: http.NoBody}, o.err
}

// operation returns the operation with the id.
func (d *document) operation(t *testing.T, id string) operation {
	t.Helper()
	i := slices.IndexFunc(d.operations, func(op operation) bool { return op.OperationID == id })
	if i < 0 {
		t.Fatalf("the document has no operation %s", id)
	}
	return d.operations[i]
}
