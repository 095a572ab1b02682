package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/httpapi/console"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// keyName is the name of the client key that apitest creates.
const keyName = "apitest"

// site is one server with the console at / and the API at /api/. The embedded
// Server provides the services behind it.
type site struct {
	*apitest.Server
	t      *testing.T
	is     *is.I
	url    string // of the console, with a trailing slash
	server *httptest.Server

	failure atomic.Pointer[failure] // of the requests that it matches, nil for none
}

// newSite returns a site that does not listen yet, and lets the test run in parallel
// with others. The opts modify the options of its API.
func newSite(t *testing.T, opts ...func(*httpapi.Options)) *site {
	t.Helper()
	t.Parallel()
	return anotherSite(t, opts...)
}

// anotherSite is newSite for another site of the same test.
func anotherSite(t *testing.T, opts ...func(*httpapi.Options)) *site {
	t.Helper()
	s := &site{Server: apitest.New(t, slices.Insert(opts, 0, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithClientKey })...), t: t, is: is.New(t)}
	s.Clock.Set(time.Now()) // as in the browser
	return s
}

// startSite returns a site that listens.
func startSite(t *testing.T, opts ...func(*httpapi.Options)) *site {
	t.Helper()
	s := newSite(t, opts...)
	s.listen(s.handler())
	return s
}

// startSiteBehind returns a site that listens. A request for which first returns true has
// its response from first.
func startSiteBehind(
	t *testing.T, first func(http.ResponseWriter, *http.Request) (done bool), opts ...func(*httpapi.Options),
) *site {
	t.Helper()
	s := newSite(t, opts...)
	handler := s.handler()
	s.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	return s
}

// RegisterExport registers a file that was modified a minute ago. The entity tags of
// newer files are weak.
func (s *site) RegisterExport(t testing.TB, sourceURL, fileName, content string) {
	t.Helper()
	s.Clock.Add(-time.Minute)
	s.Server.RegisterExport(t, sourceURL, fileName, content)
	s.Clock.Add(time.Minute)
}

// handler returns the console, the API and its readiness check.
func (s *site) handler() http.Handler {
	api, err := httpapi.New(&s.Options)
	s.is.NoErr(err)
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", api))
	mux.Handle("/readyz", api.Ready(func() string { return "fence: partial" }))
	mux.Handle("/", s.console("api/"))
	return s.failing(mux)
}

// failure is a response that some requests have instead of that of the API.
type failure struct {
	part   string // of the paths of the requests
	status int    // 0 for no response
	body   string
	retry  string // Retry-After
	once   bool
}

// failing returns a handler that has the failure of the site.
func (s *site) failing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := s.failure.Load()
		if f == nil || !strings.Contains(r.URL.Path, f.part) || f.once && !s.failure.CompareAndSwap(f, nil) {
			next.ServeHTTP(w, r)
			return
		}
		if f.status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "id-of-the-header")
		if f.retry != "" {
			w.Header().Set("Retry-After", f.retry)
		}
		w.WriteHeader(f.status)
		io.WriteString(w, f.body)
	})
}

// failOnce lets the next request whose path contains part fail.
func (s *site) failOnce(part string) {
	s.failure.Store(&failure{part: part, status: 503, once: true})
}

// hasFailed reports whether that request has failed.
func (s *site) hasFailed() bool { return s.failure.Load() == nil }

// console returns a console for the API at a URL.
func (s *site) console(api string) http.Handler {
	s.t.Helper()
	handler, err := console.New(&console.Options{API: api, Ready: "readyz"})
	s.is.NoErr(err)
	return handler
}

// api returns the API.
func (s *site) api() http.Handler { return httpapi.Handler(&s.Options) }

func (s *site) listen(handler http.Handler) {
	s.server = httptest.NewServer(handler)
	s.t.Cleanup(s.close)
	s.url = s.server.URL + "/"
}

// close stops the server, which would otherwise wait for pages that follow changes.
func (s *site) close() {
	s.server.Listener.Close()
	s.server.CloseClientConnections()
	s.server.Close()
}

// createKey creates a client key.
func (s *site) createKey(name string, fields keys.Fields) keys.Issued {
	s.t.Helper()
	fields.Name = &name
	issued, err := s.Keys.Create(s.t.Context(), fields)
	s.is.NoErr(err)
	return issued
}

// updateKey updates the client key that apitest creates.
func (s *site) updateKey(fields keys.Fields) keys.Key {
	s.t.Helper()
	key, err := s.Keys.Update(s.t.Context(), s.keyNamed(keyName).ID, fields)
	s.is.NoErr(err)
	return key
}

// countUses counts the uses of keys by a function, and writes them.
func (s *site) countUses(use func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Keys.Run(ctx) })
	use()
	cancel()
	running.Wait()
}

// keyNamed returns the client key with a name.
func (s *site) keyNamed(name string) keys.Key {
	s.t.Helper()
	page, err := s.Keys.List(s.t.Context(), keys.Filter{}, keys.Range{})
	s.is.NoErr(err)
	for _, key := range page.Keys {
		if key.Name == name {
			return key
		}
	}
	s.t.Fatalf("there is no key %q", name)
	return keys.Key{}
}

// folder creates a folder with symbols.
func (s *site) folder(name string, symbolNames ...string) symbols.Folder {
	s.t.Helper()
	folder, err := s.Symbols.CreateFolder(s.t.Context(), name)
	s.is.NoErr(err)
	for _, symbol := range symbolNames {
		s.symbol(folder.ID, symbol, "image/svg+xml", imageData(symbol, "image/svg+xml", svgImage))
	}
	return folder
}

func (s *site) symbol(folderID int64, name, mediaType, data string) symbols.Symbol {
	s.t.Helper()
	symbol, err := s.Symbols.CreateSymbol(s.t.Context(), folderID, symbols.NewSymbol{Name: name, Type: mediaType, Data: data})
	s.is.NoErr(err)
	return symbol
}

// updateSymbol updates a symbol, as someone else does.
func (s *site) updateSymbol(id int64, fields symbols.SymbolFields) {
	s.t.Helper()
	_, err := s.Symbols.UpdateSymbol(s.t.Context(), id, fields, symbols.Any)
	s.is.NoErr(err)
}

func (s *site) renameSymbol(id int64, name string) {
	s.t.Helper()
	s.updateSymbol(id, symbols.SymbolFields{Name: &name})
}

// tags returns what is a valid list of tags.
func (s *site) tags(list ...string) symbols.Tags {
	s.t.Helper()
	tags, err := symbols.NewTags(list...)
	s.is.NoErr(err)
	return tags
}

// scopes returns what is a valid list of scopes.
func (s *site) scopes(list ...string) keys.Scopes {
	s.t.Helper()
	scopes, err := keys.NewScopes(list...)
	s.is.NoErr(err)
	return scopes
}

// symbolsIn returns the symbols of a folder.
func (s *site) symbolsIn(folderID int64) []symbols.Symbol {
	s.t.Helper()
	var list []symbols.Symbol
	for after := int64(0); ; {
		page, err := s.Symbols.ListSymbols(s.t.Context(), folderID, symbols.Range{After: after})
		s.is.NoErr(err)
		list = append(list, page.Symbols...)
		if !page.More {
			return list
		}
		after = list[len(list)-1].ID
	}
}

// picture is what the data of a symbol contains.
type picture struct {
	Name, Type    string
	Content       []byte
	Width, Height int
}

// pictureIn returns a symbol of a folder and its picture.
func (s *site) pictureIn(folderID int64, i int) (symbol symbols.Symbol, data picture) {
	s.t.Helper()
	symbol = s.symbolsIn(folderID)[i]
	s.is.NoErr(json.Unmarshal([]byte(symbol.Data), &data))
	return symbol, data
}

// register registers the export of a source without a file name.
func (s *site) register(source, exportedURL string) {
	s.t.Helper()
	_, _, err := s.Exports.Register(s.t.Context(), exports.Registration{SourceURL: source, ExportedURL: exportedURL})
	s.is.NoErr(err)
}

// export returns the export of a source.
func (s *site) export(source string) exports.Export {
	s.t.Helper()
	export, err := s.Exports.Find(s.t.Context(), source)
	s.is.NoErr(err)
	return export
}

const svgImage = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" viewBox="0 0 40 20"><path d="M2 2L38 18V2L2 18Z" fill="none" stroke="#1f2937" stroke-width="2"/></svg>`

// imageData returns the symbol data that front ends store for a file.
func imageData(name, mediaType, content string) string {
	data, err := json.Marshal(map[string]any{"name": name, "type": mediaType, "content": []byte(content), "width": 40, "height": 20})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// sendToken responds with a page token, as the back end of a page does.
func (s *site) sendToken(w http.ResponseWriter, r *http.Request, scope string) {
	is := is.New(s.t)
	request, err := http.NewRequestWithContext(r.Context(), "POST", s.url+"api/viewer/tokens", strings.NewReader(`{"scopes":["`+scope+`"]}`))
	is.NoErr(err)
	request.Header.Set("X-Api-Key", string(s.RawKey))
	response, err := http.DefaultTransport.RoundTrip(request)
	is.NoErr(err)
	defer response.Body.Close()
	w.WriteHeader(response.StatusCode)
	io.Copy(w, response.Body)
}
