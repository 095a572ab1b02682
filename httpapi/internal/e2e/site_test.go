package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/console"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

const (
	adminKey = "an admin key for tests"
	filesURL = "https://files.example/out/"
)

// site is the API at /api/ and the console at / of one server, over memory
// storage.
type site struct {
	t       *testing.T
	url     string // of the console
	keys    *keys.Service
	symbols *symbols.Service
	exports *exports.Service
	files   fstest.MapFS // what lies under filesURL
	raw     string       // a good client key

	exportStore exports.Store
	opener      exports.Opener
	server      *httptest.Server
}

// serve starts a site; change may alter its options first.
func serve(t *testing.T, change ...func(*httpapi.Options)) *site {
	t.Helper()
	s := newSite(t)
	s.listen(s.handler(change...))
	return s
}

// newSite is a site that does not serve yet.
func newSite(t *testing.T) *site {
	t.Helper()
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t:       t,
		keys:    clientKeys,
		symbols: symbols.NewService(db.Symbols(), nil),
		files:   fstest.MapFS{},
	}
	opener, err := files.New(filesURL, s.files)
	if err != nil {
		t.Fatal(err)
	}
	s.exportStore, s.opener = db.Exports(), opener
	s.exports = exports.NewService(s.exportStore, &exports.Options{Openers: []exports.Opener{opener}})
	s.raw = s.issue("Test key")
	return s
}

func (s *site) handler(change ...func(*httpapi.Options)) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", s.api(change...)))
	mux.Handle("/", s.console("api/"))
	return mux
}

// console is the handler of the console of an API.
func (s *site) console(api string) http.Handler {
	s.t.Helper()
	handler, err := console.New(console.Options{API: api})
	if err != nil {
		s.t.Fatal(err)
	}
	return handler
}

// api is the handler of the API.
func (s *site) api(change ...func(*httpapi.Options)) http.Handler {
	options := httpapi.Options{
		Keys:      s.keys,
		Symbols:   s.symbols,
		Exports:   s.exports,
		AdminKeys: []string{adminKey},
		Logger:    slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&options)
	}
	return httpapi.Handler(options)
}

func (s *site) listen(handler http.Handler) {
	s.server = httptest.NewServer(handler)
	s.t.Cleanup(s.server.Close)
	s.url = s.server.URL + "/"
}

// issue makes a client key and returns the raw key.
func (s *site) issue(name string) string {
	s.t.Helper()
	issued, err := s.keys.Create(s.t.Context(), keys.Fields{Name: &name})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(issued.Raw)
}

// folder makes a folder with symbols of these names.
func (s *site) folder(name string, symbolNames ...string) symbols.Folder {
	s.t.Helper()
	folder, err := s.symbols.CreateFolder(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, symbol := range symbolNames {
		s.symbol(folder.ID, symbol, "image/svg+xml", picture(symbol, "image/svg+xml", drawing))
	}
	return folder
}

func (s *site) symbol(folderID int64, name, mediaType, data string) symbols.Symbol {
	s.t.Helper()
	symbol, err := s.symbols.CreateSymbol(s.t.Context(), folderID, name, mediaType, data)
	if err != nil {
		s.t.Fatal(err)
	}
	return symbol
}

// in lists the symbols of a folder.
func (s *site) in(folderID int64) []symbols.Symbol {
	s.t.Helper()
	var list []symbols.Symbol
	for after := int64(0); ; {
		page, err := s.symbols.ListSymbols(s.t.Context(), folderID, after)
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, page.Symbols...)
		if !page.More {
			return list
		}
		after = list[len(list)-1].ID
	}
}

// export registers a file with a content.
func (s *site) export(source, file string, content []byte) {
	s.t.Helper()
	s.files[file] = &fstest.MapFile{Data: content, ModTime: time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)}
	if _, _, err := s.exports.Register(s.t.Context(), source, filesURL+file, ""); err != nil {
		s.t.Fatal(err)
	}
}

const drawing = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" viewBox="0 0 40 20"><path d="M2 2L38 18V2L2 18Z" fill="none" stroke="#1f2937" stroke-width="2"/></svg>`

// picture is the data that front ends write for a file.
func picture(name, mediaType, content string) string {
	data, err := json.Marshal(map[string]any{"name": name, "type": mediaType, "content": base64.StdEncoding.EncodeToString([]byte(content)), "width": 40, "height": 20})
	if err != nil {
		panic(err)
	}
	return string(data)
}
