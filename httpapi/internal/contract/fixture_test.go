package contract

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

const (
	adminKey = "an admin key for tests"
	filesURL = "https://files.example/out/" // where exported files lie in the examples
)

// world is a server with what the examples of the document speak of: the
// client key 1, the folders 1 and 2, the symbols 1 and 2 in the first of them,
// and the exports of two documents.
type world struct {
	t    *testing.T
	doc  *document
	url  string
	raw  string // client key 1
	sent []exchange
}

// newKeyService returns a Service for options that must be valid.
func newKeyService(tb testing.TB, store keys.Store, options *keys.Options) *keys.Service {
	tb.Helper()
	service, err := keys.NewService(store, options)
	if err != nil {
		tb.Fatal(err)
	}
	return service
}

// newWorld starts a server; change may alter the options first.
func newWorld(t *testing.T, doc *document, change ...func(*httpapi.Options)) *world {
	t.Helper()
	db := memory.New()
	exported := make(fstest.MapFS)
	for _, name := range []string{"plan.pdf", "plan-2.pdf", "section.pdf"} {
		exported[name] = &fstest.MapFile{Data: []byte("%PDF-1.7 " + name), ModTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	}
	opener, err := files.New(filesURL, exported)
	if err != nil {
		t.Fatal(err)
	}
	options := httpapi.Options{
		Keys:      newKeyService(t, db.Keys(), nil),
		Symbols:   symbols.NewService(db.Symbols(), nil),
		Exports:   exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{opener}}),
		AdminKeys: []string{adminKey},
		Logger:    slog.New(slog.DiscardHandler),
	}
	w := &world{t: t, doc: doc}
	w.fill(options)
	for _, f := range change {
		f(&options)
	}
	server := httptest.NewServer(httpapi.Handler(options))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) fill(options httpapi.Options) {
	w.t.Helper()
	ctx := w.t.Context()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	issued, err := options.Keys.Create(ctx, keys.Fields{})
	must(err)
	w.raw = string(issued.Raw)
	for _, name := range []string{"Valves", "Pumps"} {
		_, err := options.Symbols.CreateFolder(ctx, name)
		must(err)
	}
	for _, name := range []string{"Gate valve", "Globe valve"} {
		_, err := options.Symbols.CreateSymbol(ctx, 1, name, "image/svg+xml", "<svg/>")
		must(err)
	}
	for source, file := range map[string]string{"17": "plan.pdf", "18": "section.pdf"} {
		_, _, err := options.Exports.Register(ctx, "https://viewer.example/documents/"+source, filesURL+file, "")
		must(err)
	}
}

// request is what is sent for an operation.
type request struct {
	op     operation
	values map[string]string // of the names in the path; those of the examples if left out
	query  string
	body   string
	header http.Header
}

// prepare returns a request for an operation with the right key, the names in
// the path as in the examples, and the body given.
func (w *world) prepare(op operation, body, contentType string) request {
	r := request{op: op, values: make(map[string]string), body: body, header: make(http.Header)}
	for _, ref := range op.Parameters {
		if ref.Value.In == openapi3.ParameterInPath {
			r.values[ref.Value.Name] = fmt.Sprint(ref.Value.Example)
		}
	}
	switch w.doc.keyHeader(op) {
	case "x-admin-key":
		r.header.Set("x-admin-key", adminKey)
	case "x-api-key":
		r.header.Set("x-api-key", w.raw)
	}
	if contentType != "" {
		r.header.Set("Content-Type", contentType)
	}
	return r
}

// examples returns a request for each example of a body, or the only request
// that there is. An archive has no example; it comes under each of its types.
func (w *world) examples(op operation) map[string]request {
	w.t.Helper()
	requests := make(map[string]request)
	switch {
	case op.RequestBody == nil:
		requests[""] = w.prepare(op, "", "")
	case op.RequestBody.Value.Content["application/json"] != nil:
		for name, value := range jsonExamples(op.RequestBody.Value.Content) {
			requests[name] = w.prepare(op, asJSON(value), "application/json")
		}
	default:
		for contentType := range op.RequestBody.Value.Content {
			requests[contentType] = w.prepare(op, archive(w.t, map[string]string{"Check valve.svg": svg}), contentType)
		}
	}
	return requests
}

const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 60 40"><path d="M0 5l60 30V5L0 35z"/></svg>`

// example returns the first of the examples.
func (w *world) example(op operation) request {
	w.t.Helper()
	examples := w.examples(op)
	return examples[slices.Min(slices.Collect(maps.Keys(examples)))]
}

// send sends a request and notes the exchange.
func (w *world) send(r request) exchange {
	w.t.Helper()
	target := r.op.path
	for name, value := range r.values {
		target = strings.ReplaceAll(target, "{"+name+"}", value)
	}
	return w.sendTo(r.op.method, target+r.query, r.body, r.header)
}

func (w *world) sendTo(method, target, body string, header http.Header) exchange {
	w.t.Helper()
	sent, err := http.NewRequestWithContext(w.t.Context(), method, w.url+target, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	maps.Copy(sent.Header, header.Clone())
	got, err := http.DefaultTransport.RoundTrip(sent)
	if err != nil {
		w.t.Fatal(err)
	}
	defer got.Body.Close()
	content, err := io.ReadAll(got.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	e := exchange{
		Test: w.t.Name(), Method: method, Target: target, Header: sent.Header, Body: []byte(body),
		Status: got.StatusCode, GotHeader: got.Header, GotBody: content,
	}
	w.sent = append(w.sent, e)
	return e
}

// archive is a zip with the files given.
func archive(t *testing.T, content map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range content {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// refusing opens nothing.
type refusing struct{ err error }

func (refusing) Serves(*url.URL) bool { return true }
func (refusing) Check(*url.URL) error { return nil }
func (r refusing) Open(context.Context, *url.URL) (*exports.File, error) {
	return nil, r.err
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
