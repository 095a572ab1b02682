package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// failures cause a status for each operation that documents it. For each
// operation a fixture is started with the option, and the operation's example
// is altered and sent.
var failures = []struct {
	status string
	option func(*testing.T, *httpapi.Options)
	alter  func(*request)
	times  int // to send the request; once if zero
}{
	{
		status: "400",
		alter: func(r *request) {
			withID("x")(r)
			if len(r.values) == 0 {
				r.body = "["
			}
		},
	},
	{status: "401", alter: func(r *request) { r.setKey("") }},
	{
		status: "403",
		option: func(t *testing.T, o *httpapi.Options) {
			o.AdminKeys = nil
			_, err := o.Keys.Update(t.Context(), 1, keys.Fields{Active: new(false)})
			is.New(t).NoErr(err)
		},
	},
	{
		status: "404",
		option: func(t *testing.T, o *httpapi.Options) { o.Exports = newExports(t) },
		alter:  withID("999"),
	},
	{
		status: "413",
		option: func(_ *testing.T, o *httpapi.Options) { o.Limits.Body, o.Limits.Symbol, o.Limits.Batch = 1, 1, 1 },
		alter: func(r *request) {
			if r.body == "" {
				r.body = "{}"
			}
		},
	},
	{status: "415", alter: withHeader("Content-Type", "text/plain")},
	{
		status: "429",
		option: func(_ *testing.T, o *httpapi.Options) {
			o.Limits.WrongKeys = httpapi.RateLimit{Burst: 1, Interval: time.Hour}
		},
		alter: func(r *request) { r.setKey("wrong") },
		times: 2,
	},
	{
		status: "500",
		option: func(t *testing.T, o *httpapi.Options) {
			o.DangerouslySkipClientKeys = true
			service, err := keys.NewService(struct{ keys.Store }{}, &keys.Options{ForeignKeys: true}) // panics in every method
			is.New(t).NoErr(err)
			o.Keys = service
			o.Symbols, err = symbols.NewService(panickingStore{}, nil)
			is.New(t).NoErr(err)
			o.Exports, err = exports.NewService(struct {
				exports.Store
				exports.LinkStore
			}{}, &exports.Options{Openers: []exports.Opener{failingOpener{}}})
			is.New(t).NoErr(err)
		},
	},
	{
		status: "503",
		option: func(_ *testing.T, o *httpapi.Options) {
			o.DangerouslySkipClientKeys = true
			o.Limits.StoreTimeout = 1
		},
	},
}

// panickingStore panics in every method but Shared.
type panickingStore struct{ symbols.Store }

func (panickingStore) Shared() bool { return true }

// setKey replaces the key of a request, or removes it if value is empty.
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

// sendFailures returns exchanges with the statuses that any operation may have.
func sendFailures(t *testing.T, doc *document) (sent []exchange) {
	for _, c := range failures {
		for _, op := range doc.operations {
			if op.Responses.Value(c.status) == nil {
				continue
			}
			f := newFixture(t, doc, func(o *httpapi.Options) {
				if c.option != nil {
					c.option(t, o)
				}
			})
			r := f.example(op)
			if c.alter != nil {
				c.alter(&r)
			}
			for range max(c.times, 1) {
				f.send(r)
			}
			sent = append(sent, f.exchanges...)
		}
	}
	return sent
}

// sendExamples sends every request example. Each must have a documented success
// status.
func sendExamples(t *testing.T, doc *document) (sent []exchange) {
	is := is.New(t)
	for _, op := range doc.operations {
		for name := range newFixture(t, doc).examples(op) {
			t.Log(op, name)
			f := newFixture(t, doc)
			r := f.examples(op)[name]
			r.header.Set("X-Request-Id", "viewer-42")
			e := f.send(r)
			is.True(e.Status < 300 && op.response(e.Status) != nil)
			is.Equal(e.GotHeader.Get("X-Request-Id"), "viewer-42")
			sent = append(sent, f.exchanges...)
		}
	}
	return sent
}

// sendUnknown sends requests for paths and methods without an operation.
func sendUnknown(t *testing.T, doc *document) []exchange {
	f := newFixture(t, doc)
	for path := range doc.Paths.Map() {
		path = strings.NewReplacer("{id}", "1", "{folderId}", "1").Replace(path)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			f.sendTo(method, path, "", nil)
			f.sendTo(method, path+"/x", "", nil)
		}
	}
	return f.exchanges
}

// sendScenarios sends sequences of requests.
func sendScenarios(t *testing.T, doc *document) (sent []exchange) {
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		f := newFixture(t, doc)
		scenarios[name](f)
		sent = append(sent, f.exchanges...)
	}
	for _, err := range []error{exports.ErrFailed, exports.ErrTimeout, exports.ErrForbidden} {
		sent = append(sent, failingOrigin(t, doc, err)...)
	}
	return sent
}

// newExports returns a service of no exports.
func newExports(t *testing.T, openers ...exports.Opener) *exports.Service {
	t.Helper()
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: openers})
	is.New(t).NoErr(err)
	return service
}

// failingOrigin requests files of an origin server that fails, at last once a link is made.
func failingOrigin(t *testing.T, doc *document, failure error) []exchange {
	opener := &failingOpener{failure}
	service := newExports(t, opener)
	f := newFixture(t, doc, func(o *httpapi.Options) { o.Exports = service })
	f.call("registerExport", `{"sourceFileUrl":"https://viewer.example/documents/17","exportedUrl":"https://files.example/out/plan.pdf"}`)
	f.call("downloadExport", plan)
	f.call("createDownloadLink", plan)
	f.call("createDownloadLink", `{"items":[`+plan+`]}`)
	f.call("downloadExportBatch", `{"items":[`+plan+`]}`)
	f.call("downloadExportBatch", `{"items":[`+plan+`,`+unregistered+`]}`)
	for _, body := range []string{plan, `{"items":[` + plan + `]}`} {
		opener.err = nil
		f.call("downloadLink", "", func(r *request) {
			f.useLink(r, body)
			opener.err = failure
		})
	}
	return f.exchanges
}

// call calls an operation with a JSON body, if body is not empty.
func (f *fixture) call(id, body string, alter ...func(*request)) exchange {
	f.t.Helper()
	contentType := ""
	if body != "" {
		contentType = "application/json"
	}
	r := f.prepare(f.doc.operation(f.t, id), body, contentType)
	for _, change := range alter {
		change(&r)
	}
	return f.send(r)
}

func withQuery(text string) func(*request) { return func(r *request) { r.query = text } }

func withHeader(name, value string) func(*request) {
	return func(r *request) { r.header.Set(name, value) }
}

func withID(id string) func(*request) {
	return func(r *request) {
		for name := range r.values {
			r.values[name] = id
		}
	}
}

// scenarios are sequences of requests, each with its own fixture.
var scenarios = map[string]func(*fixture){
	"changes are followed": func(f *fixture) {
		f.call("streamChanges", "", withHeader("Last-Event-ID", "1.1"))
		f.call("streamChanges", "", withQuery("?lastEventId=1.1"))
	},
	"a key is created, used, updated and rotated": func(f *fixture) {
		var issued struct{ APIKey string }
		created := f.call("createKey", `{"name":"Viewer","expiresAt":"2099-12-31"}`)
		is.New(f.t).NoErr(json.Unmarshal(created.GotBody, &issued))
		f.call("listFolders", "", withHeader("x-api-key", issued.APIKey))
		f.call("listFolders", "")
		f.call("getKey", "", withID("2"))
		f.call("getKey", "")
		f.call("listKeys", "")
		f.call("rotateKey", "", withID("2"))
		f.call("rotateKey", `{"overlapSeconds":60}`, withID("2"))
		f.call("updateKey", `{"owner":"tenant 7","scopes":["symbols:read"]}`, withID("2"))
		f.call("listKeys", "", withQuery("?limit=1&after=0"))
		f.call("listKeys", "", withQuery("?owner=tenant+7&limit=1"))
		f.call("listKeys", "", withQuery("?limit=0"))
		f.call("updateKey", `{"isActive":false}`, withID("2"))
		f.call("updateKey", `{"expiresAt":"2099-12-31T23:59:59+01:00"}`)
		f.call("updateKey", "")
		const imported = `{"keys":[{"sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}]}`
		f.call("importKeys", imported)
		f.call("importKeys", imported)
		f.call("getKeyUsage", "", withQuery("?days=2"))
		f.call("getUsage", "", withQuery("?days=2&owner=tenant+7"))
		f.call("getUsage", "", withQuery("?ids=1,2"))
		f.call("getUsage", "", withQuery("?ids=9"))
		f.call("getUsage", "", withQuery("?days=0"))
		f.call("updateKeys", `{"ids":[1,9]}`)
		f.call("deleteKeys", `{"ids":[9]}`)
		for _, id := range []string{"updateKey", "rotateKey", "deleteKey"} {
			f.call(id, "", withHeader("If-Match", `"other"`))
			f.call(id, "", withHeader("If-Match", "*"))
		}
		f.call("createKey", "")
	},
	"lists are empty": func(f *fixture) {
		f.call("deleteFolder", "")
		f.call("deleteFolder", "", withID("2"))
		f.call("listFolders", "")
		f.call("deleteKey", "")
		f.call("listKeys", "")
	},
	"URLs are requested": func(f *fixture) {
		for _, value := range []string{"?responseType=urls", "?responseType=", ""} {
			f.call("downloadExport", plan, withQuery(value))
			f.call("downloadExportBatch", `{"items":[`+plan+`]}`, withQuery(value))
			f.call("downloadExportBatch", `{"items":[`+plan+`,`+unregistered+`]}`, withQuery(value))
			f.call("downloadExportBatch", `{"items":[`+unregistered+`]}`, withQuery(value))
		}
		f.call("downloadExport", plan, withQuery("?responseType=zip"))
	},
	"a change has several errors": func(f *fixture) {
		update := func(id, body string) int {
			return f.call("updateFolder", body, withID(id), withHeader("If-Match", `"other"`)).Status
		}
		is := is.New(f.t)
		is.Equal(update("9", `{"name":""}`), 400)
		is.Equal(update("9", `{"name":"Pumps"}`), 404)
		is.Equal(update("1", `{"name":"Pumps"}`), 412)
	},
	"an export is replaced": func(f *fixture) {
		const source = `{"sourceFileUrl":"https://viewer.example/documents/20",`
		f.call("registerExport", source+`"exportedUrl":"https://files.example/out/plan.pdf"}`)
		f.call("registerExport", source+`"exportedUrl":"https://files.example/out/plan.pdf","fileName":"Résumé.pdf"}`)
		f.call("downloadExport", `{"sourceFileUrl":"https://viewer.example/documents/20"}`)
	},
	"a link is downloaded": func(f *fixture) {
		for _, body := range []string{plan, `{"items":[` + plan + `,` + unregistered + `]}`} {
			var used request
			tag := f.call("downloadLink", "", func(r *request) { f.useLink(r, body); used = *r }).GotHeader.Get("ETag")
			use := func(r *request) { r.values = used.values }
			for name, values := range map[string][]string{
				"If-None-Match": {tag, `"other"`},
				"If-Match":      {tag, `"other"`},
				"Range":         {"bytes=0-4", "bytes=0-4,-2", "bytes=1000000-", "lines=1-2"},
			} {
				for _, value := range values {
					f.call("downloadLink", "", use, withHeader(name, value))
					f.call("downloadLink", "", use, withHeader("Range", "bytes=1-3"), withHeader("If-Range", value))
				}
			}
		}
	},
	"a link ends": func(f *fixture) {
		var used request
		for range 100 { // 64 or a few more, because usage is counted behind the responses
			e := f.call("downloadLink", "", func(r *request) {
				if used.values == nil {
					used = *r
				}
				r.values = used.values
			})
			f.exchanges = slices.Delete(f.exchanges, max(0, len(f.exchanges)-3), len(f.exchanges)-1)
			if e.Status == 429 {
				break
			}
		}
		f.call("downloadLink", "", func(r *request) { r.values["token"] = "unknown" })
		f.call("downloadLink", "", func(r *request) { f.call("updateKey", `{"isActive":false}`) })
	},
	"tags that no symbol can have are removed": func(f *fixture) {
		f.call("updateSymbols", `{"ids":[1],"removeTags":["","`+strings.Repeat("x", 65)+`"]}`)
	},
	"the trash is listed": func(f *fixture) {
		f.call("listTrash", "", withQuery("?limit=1&after=0"))
		f.call("listTrash", "", withQuery("?limit=0"))
	},
	"a folder is exported and imported": func(f *fixture) {
		zipped := withHeader("Content-Type", "application/zip")
		body := string(f.call("exportFolder", "", withQuery("?format=")).GotBody)
		f.call("importSymbols", body, zipped, withID("2"), withQuery("?dryRun=true"))
		f.call("importSymbols", body, zipped, withID("2"), withQuery("?dryRun=false"))
		f.call("importSymbols", body, zipped, withQuery("?dryRun=perhaps"))
		f.call("importSymbols", "no archive", zipped)
		f.call("importSymbols", archive(f.t, map[string]string{"Empty.svg": ""}), zipped)
		good := archive(f.t, map[string]string{"Good.svg": svg, "__MACOSX/._Good.svg": "x"})
		f.call("importSymbols", good, zipped)
		f.call("importSymbols", good, zipped, withQuery("?dryRun=true"))
	},
}
