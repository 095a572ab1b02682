// Package apitest runs the API of package httpapi in the tests of an
// application.
//
// [New] starts a server on a loopback address, over memory storage, with a
// clock that the test controls and a valid client key:
//
//	func TestDownload(t *testing.T) {
//		s := apitest.New(t)
//		s.RegisterExport(t, "https://viewer.example/drawings/17", "plan.pdf", "%PDF-1.7")
//		content, err := myapp.Download(s.URL, s.RawKey, "https://viewer.example/drawings/17")
//		...
//	}
//
// An application that serves the API itself passes [Server.Options] to its own
// constructor and starts its own server.
package apitest

import (
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// AdminKey is the admin key of every [Server] without an AuthenticateAdmin.
const AdminKey = "an admin key for tests"

// FilesURL is the prefix of the URLs of [Server.AddFile]. The files are read from
// memory; no request is sent to this host.
const FilesURL = "https://files.example/out/"

// Server is the API on a loopback address. It is safe for concurrent use.
type Server struct {
	// URL is the base URL of the routes, without a trailing slash.
	URL string

	// RawKey is a valid client key.
	RawKey keys.RawKey

	// Clock is the time source of Keys and Exports. It starts at
	// 2026-03-30 10:00 UTC.
	Clock *Clock

	// Keys, Symbols and Exports are the services behind the routes.
	Keys    *keys.Service
	Symbols *symbols.Service
	Exports *exports.Service

	// Options are the options of the server's handler.
	Options httpapi.Options

	host  string
	files *fileSystem
}

// New starts a Server that is closed when the test ends. The opts modify the
// options of its handler in order; the client key exists by then.
func New(t testing.TB, opts ...func(*httpapi.Options)) *Server {
	t.Helper()
	s := &Server{
		Clock: &Clock{now: time.Date(2026, time.March, 30, 10, 0, 0, 0, time.UTC)},
		files: &fileSystem{files: fstest.MapFS{}},
	}
	opener, err := files.New(FilesURL, s.files)
	check(t, err)
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), &keys.Options{Now: s.Clock.Now, ForeignKeys: true})
	check(t, err)
	library, err := symbols.NewService(db.Symbols(), nil)
	check(t, err)
	files, err := exports.NewService(db.Exports(), &exports.Options{Now: s.Clock.Now, Openers: []exports.Opener{opener}})
	check(t, err)
	s.Options = httpapi.Options{
		Keys:      clientKeys,
		Symbols:   library,
		Exports:   files,
		AdminKeys: []string{AdminKey},
		Logger:    slog.New(slog.DiscardHandler),
	}
	issued, err := s.Options.Keys.Create(t.Context(), keys.Fields{Name: new("apitest")})
	check(t, err)
	s.RawKey = issued.Raw
	for _, opt := range opts {
		opt(&s.Options)
	}
	if s.Options.AuthenticateAdmin != nil {
		s.Options.AdminKeys = nil
	}
	s.Keys, s.Symbols, s.Exports = s.Options.Keys, s.Options.Symbols, s.Options.Exports

	api, err := httpapi.New(&s.Options)
	check(t, err)
	server := httptest.NewServer(api)
	t.Cleanup(func() {
		server.CloseClientConnections() // Close waits for streams that are still open
		server.Close()
	})
	s.host = server.Listener.Addr().String()
	s.URL = server.URL + strings.TrimRight("/"+strings.Trim(s.Options.Prefix, "/"), "/")
	return s
}

// Token returns a page token of RawKey.
func (s *Server) Token(t testing.TB, fields keys.TokenFields) keys.RawKey {
	t.Helper()
	issued, err := s.Keys.IssueToken(t.Context(), string(s.RawKey), fields)
	check(t, err)
	return issued.Raw
}

// Client returns an HTTP client that adds the client key to requests to this
// server, and to no others.
func (s *Server) Client() *http.Client { return s.withHeader("x-api-key", string(s.RawKey)) }

// Admin returns an HTTP client that adds the admin key to requests to this
// server, and to no others.
func (s *Server) Admin() *http.Client { return s.withHeader("x-admin-key", AdminKey) }

func (s *Server) withHeader(name, value string) *http.Client {
	return &http.Client{Transport: headerTransport{s.host, name, value}}
}

// headerTransport adds a header to the requests to one host.
type headerTransport struct{ host, name, value string }

func (t headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == t.host {
		r = r.Clone(r.Context())
		r.Header.Set(t.name, t.value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// AddFile adds a file below [FilesURL], or replaces it, and returns its URL. The name may
// have slashes. The modification time is the time of the Clock.
func (s *Server) AddFile(name, content string) string {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	s.files.files[name] = &fstest.MapFile{Data: []byte(content), ModTime: s.Clock.Now()}
	return FilesURL + (&url.URL{Path: name}).EscapedPath()
}

// RegisterExport adds a file and registers it as the export of the source.
func (s *Server) RegisterExport(t testing.TB, sourceURL, fileName, content string) {
	t.Helper()
	_, _, err := s.Exports.Register(t.Context(), exports.Registration{
		SourceURL: sourceURL, ExportedURL: s.AddFile(fileName, content), FileName: &fileName,
	})
	check(t, err)
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fileSystem is an in-memory file system whose files may be added while others are read.
type fileSystem struct {
	mu    sync.Mutex
	files fstest.MapFS
}

// Open implements [fs.FS].
func (f *fileSystem) Open(name string) (fs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files.Open(name)
}

// Clock is a manual clock: only Set and Add change its time. The zero value
// starts at the zero time. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock, forward or back.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Add advances the clock by d.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
