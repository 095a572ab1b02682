package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// provocations make a server answer with a status, whichever of the operations
// that have it is asked for. Each gets a world of its own, changed first; then
// the operation's example is altered and sent.
var provocations = []struct {
	status string
	change func(*testing.T, *httpapi.Options)
	alter  func(*request)
	times  int // that the request is sent; once if zero
}{
	{
		status: "400",
		alter: func(r *request) {
			for name := range r.values {
				r.values[name] = "x"
			}
			if len(r.values) == 0 {
				r.body = "["
			}
		},
	},
	{
		status: "401",
		alter:  func(r *request) { r.setKey("") },
	},
	{
		status: "403",
		change: func(t *testing.T, o *httpapi.Options) {
			o.AdminKeys = nil
			if _, err := o.Keys.Update(t.Context(), 1, keys.Fields{Active: new(false)}); err != nil {
				t.Fatal(err)
			}
		},
	},
	{
		status: "404",
		change: func(_ *testing.T, o *httpapi.Options) {
			o.Exports = exports.NewService(memory.New().Exports(), nil)
		},
		alter: func(r *request) {
			for name := range r.values {
				r.values[name] = "999"
			}
		},
	},
	{
		status: "413",
		change: func(_ *testing.T, o *httpapi.Options) { o.BodyLimit, o.SymbolLimit, o.BatchLimit = 1, 1, 1 },
	},
	{
		status: "415",
		alter:  func(r *request) { r.header.Set("Content-Type", "text/plain") },
	},
	{
		status: "429",
		change: func(_ *testing.T, o *httpapi.Options) {
			o.Guessing = httpapi.Guessing{Burst: 1, Interval: time.Hour}
		},
		alter: func(r *request) { r.setKey("wrong") },
		times: 2,
	},
	{
		status: "500",
		change: func(t *testing.T, o *httpapi.Options) {
			o.DangerouslySkipClientKeys = true
			o.Keys = newKeyService(t, struct{ keys.Store }{}, nil) // whose methods panic
			o.Symbols = symbols.NewService(panickingStore{}, nil)
			o.Exports = exports.NewService(struct{ exports.Store }{}, &exports.Options{Openers: []exports.Opener{refusing{}}})
		},
	},
	{
		status: "503",
		change: func(_ *testing.T, o *httpapi.Options) {
			o.DangerouslySkipClientKeys = true
			o.StoreTimeout = 1
		},
	},
}

// panickingStore panics in every method that handles a request.
type panickingStore struct{ symbols.Store }

func (panickingStore) Shared() bool { return true }

// setKey replaces the value of the key that is sent, or takes it away.
func (r *request) setKey(value string) {
	for _, name := range []string{"x-admin-key", "x-api-key"} {
		if r.header.Get(name) != "" {
			r.header.Del(name)
			if value != "" {
				r.header.Set(name, value)
			}
		}
	}
}

// provoke returns the exchanges in which operations answer with the statuses
// that do not depend on what they do.
func provoke(t *testing.T, doc *document) (sent []exchange) {
	for _, p := range provocations {
		for _, op := range doc.operations {
			if op.Responses.Value(p.status) == nil {
				continue
			}
			w := newWorld(t, doc, func(o *httpapi.Options) {
				if p.change != nil {
					p.change(t, o)
				}
			})
			r := w.example(op)
			if p.alter != nil {
				p.alter(&r)
			}
			for range max(p.times, 1) {
				w.send(r)
			}
			sent = append(sent, w.sent...)
		}
	}
	return sent
}

// succeed returns the exchanges in which every example of a request is sent.
// Each has to be answered with a success that the document has.
func succeed(t *testing.T, doc *document) (sent []exchange) {
	for _, op := range doc.operations {
		for name := range newWorld(t, doc).examples(op) {
			w := newWorld(t, doc)
			r := w.examples(op)[name]
			r.header.Set("X-Request-Id", "viewer-42")
			e := w.send(r)
			if e.Status >= 300 || op.response(e.Status) == nil {
				t.Errorf("%s: example %q is answered %d %.200s", op, name, e.Status, e.GotBody)
			}
			if e.GotHeader.Get("X-Request-Id") != "viewer-42" {
				t.Errorf("%s does not return the request id", op)
			}
			sent = append(sent, w.sent...)
		}
	}
	return sent
}

// stray returns the exchanges that no operation has.
func stray(t *testing.T, doc *document) []exchange {
	w := newWorld(t, doc)
	for path := range doc.Paths.Map() {
		path = strings.NewReplacer("{id}", "1", "{folderId}", "1").Replace(path)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			w.sendTo(method, path, "", nil)
			w.sendTo(method, path+"/x", "", nil)
		}
	}
	return w.sent
}

// stories are exchanges of a few operations in a row.
func stories(t *testing.T, doc *document) (sent []exchange) {
	for _, name := range slices.Sorted(maps.Keys(tales)) {
		w := newWorld(t, doc)
		tales[name](w)
		sent = append(sent, w.sent...)
	}
	for _, failure := range []error{exports.ErrFailed, exports.ErrTimeout, exports.ErrForbidden} {
		sent = append(sent, deadOrigin(t, doc, failure)...)
	}
	return sent
}

// deadOrigin asks for files of an origin that fails.
func deadOrigin(t *testing.T, doc *document, failure error) []exchange {
	service := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{refusing{failure}}})
	w := newWorld(t, doc, func(o *httpapi.Options) { o.Exports = service })
	w.do("registerExport", `{"sourceFileUrl":"https://viewer.example/documents/17","exportedUrl":"https://files.example/out/plan.pdf"}`)
	w.do("downloadExport", `{"sourceFileUrl":"https://viewer.example/documents/17"}`)
	w.do("downloadExportBatch", `{"items":[{"sourceFileUrl":"https://viewer.example/documents/17"}]}`)
	w.do("downloadExportBatch", `{"items":[{"sourceFileUrl":"https://viewer.example/documents/17"},{"sourceFileUrl":"https://viewer.example/documents/99"}]}`)
	return w.sent
}

// do sends an operation a JSON body, if there is one.
func (w *world) do(id, body string, alter ...func(*request)) exchange {
	w.t.Helper()
	contentType := ""
	if body != "" {
		contentType = "application/json"
	}
	r := w.prepare(w.doc.operation(w.t, id), body, contentType)
	for _, f := range alter {
		f(&r)
	}
	return w.send(r)
}

func query(text string) func(*request) { return func(r *request) { r.query = text } }

func header(name, value string) func(*request) {
	return func(r *request) { r.header.Set(name, value) }
}

func at(id string) func(*request) {
	return func(r *request) {
		for name := range r.values {
			r.values[name] = id
		}
	}
}

// tales are told in a world of their own each.
var tales = map[string]func(*world){
	"a key is made, used, changed and replaced": func(w *world) {
		var issued struct{ APIKey string }
		created := w.do("createKey", `{"name":"Viewer","expiresAt":"2099-12-31"}`)
		if err := json.Unmarshal(created.GotBody, &issued); err != nil {
			w.t.Fatal(err)
		}
		w.do("listFolders", "", header("x-api-key", issued.APIKey))
		w.do("listFolders", "")
		w.do("getKey", "", at("2"))
		w.do("getKey", "")
		w.do("listKeys", "")
		w.do("rotateKey", "", at("2"))
		w.do("updateKey", `{"isActive":false}`, at("2"))
		w.do("updateKey", `{"expiresAt":"2099-12-31T23:59:59+01:00"}`)
		w.do("updateKey", "")
		w.do("createKey", "")
	},
	"nothing is there": func(w *world) {
		w.do("deleteFolder", "")
		w.do("deleteFolder", "", at("2"))
		w.do("listFolders", "")
		w.do("deleteKey", "")
		w.do("listKeys", "")
	},
	"a folder is empty":   func(w *world) { w.do("listSymbols", "", at("2")) },
	"a name is taken":     func(w *world) { w.do("createFolder", `{"name":"Pumps"}`); w.do("updateFolder", `{"name":"Pumps"}`) },
	"a folder is no more": func(w *world) { w.do("updateSymbol", `{"folderId":999}`) },
	"addresses are asked for": func(w *world) {
		const known, unknown = `{"sourceFileUrl":"https://viewer.example/documents/17"}`, `{"sourceFileUrl":"https://viewer.example/documents/99"}`
		for _, value := range []string{"?responseType=urls", "?responseType=", ""} {
			w.do("downloadExport", known, query(value))
			w.do("downloadExportBatch", `{"items":[`+known+`]}`, query(value))
			w.do("downloadExportBatch", `{"items":[`+known+`,`+unknown+`]}`, query(value))
			w.do("downloadExportBatch", `{"items":[`+unknown+`]}`, query(value))
		}
		w.do("downloadExport", known, query("?responseType=zip"))
	},
	"a change is refused for several reasons": func(w *world) {
		for _, c := range []struct {
			id, body string
			status   int
		}{
			{"9", `{"name":""}`, 400},
			{"9", `{"name":"Pumps"}`, 404},
			{"1", `{"name":"Pumps"}`, 412},
		} {
			if e := w.do("updateFolder", c.body, at(c.id), header("If-Match", `"other"`)); e.Status != c.status {
				w.t.Errorf("want %d first: %s", c.status, e)
			}
		}
	},
	"a key expires": func(w *world) {
		w.do("updateKey", `{"expiresAt":"2000-01-01"}`)
		w.do("listFolders", "")
	},
	"a body is not read": func(w *world) {
		w.do("createFolder", `{"name":"Vessels"}`, header("Content-Encoding", "gzip"))
		w.do("createFolder", `{"name":`)
		w.do("createFolder", `{"name":""}`)
		w.do("getFolder", "", at("01"))
	},
	"an export is replaced": func(w *world) {
		const source = `{"sourceFileUrl":"https://viewer.example/documents/20",`
		w.do("registerExport", source+`"exportedUrl":"https://files.example/out/plan.pdf"}`)
		w.do("registerExport", source+`"exportedUrl":"https://files.example/out/plan.pdf","fileName":"Résumé.pdf"}`)
		w.do("downloadExport", `{"sourceFileUrl":"https://viewer.example/documents/20"}`)
	},
	"what is known is asked for again": func(w *world) {
		for _, id := range []string{"listFolders", "getFolder", "listSymbols", "getSymbol"} {
			tag := w.do(id, "").GotHeader.Get("ETag")
			for _, value := range []string{tag, "W/" + tag, `"other", ` + tag, "*", `"other"`} {
				w.do(id, "", header("If-None-Match", value))
			}
		}
	},
	"a change is meant for one version": func(w *world) {
		for of, get := range map[string]string{"Folder": "getFolder", "Symbol": "getSymbol"} {
			for _, value := range []string{`"other"`, "*", w.do(get, "").GotHeader.Get("ETag")} {
				w.do("update"+of, `{}`, header("If-Match", value))
			}
			w.do("delete"+of, "", at("2"), header("If-Match", `"other"`))
			w.do("delete"+of, "", at("2"), header("If-Match", "*"))
		}
	},
	"a folder is exported and imported": func(w *world) {
		zipped := header("Content-Type", "application/zip")
		body := string(w.do("exportFolder", "").GotBody)
		w.do("importSymbols", body, zipped, at("2"), query("?dryRun=true"))
		w.do("importSymbols", body, zipped, at("2"), query("?dryRun=false"))
		w.do("importSymbols", body, zipped, query("?dryRun=perhaps"))
		w.do("importSymbols", "no archive", zipped)
		w.do("importSymbols", archive(w.t, map[string]string{"Empty.svg": ""}), zipped)
		w.do("importSymbols", archive(w.t, map[string]string{"Good.svg": svg, "__MACOSX/._Good.svg": "x"}), zipped)
		w.do("importSymbols", archive(w.t, map[string]string{"Good.svg": svg, "__MACOSX/._Good.svg": "x"}), zipped, query("?dryRun=true"))
	},
}
