// Package apitest runs the API for the tests of a host: on a real server, over
// storage in memory, with a clock that the test sets, and with a client key
// that is ready for use.
package apitest

import (
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

// AdminKey is the admin key of every [Server].
const AdminKey = "an admin key for tests"

// filesURL is where the files of [Server.Export] lie. Nobody is asked for them.
const filesURL = "https://files.example/"

// Server is the API on a loopback address. It is safe for concurrent use.
type Server struct {
	// URL is the base address of the routes, without a slash at its end.
	URL string

	// RawKey is a client key that works.
	RawKey keys.RawKey

	// Clock is what the services take the time from.
	Clock *Clock

	// Keys, Symbols and Exports are the services behind the routes, for what
	// a test wants to put in or look up without HTTP.
	Keys    *keys.Service
	Symbols *symbols.Service
	Exports *exports.Service

	files *fileSystem
}

// New starts a Server that ends with the test. Each change may alter the
// options of its handler.
func New(t testing.TB, change ...func(*httpapi.Options)) *Server {
	t.Helper()
	s := &Server{
		Clock: &Clock{now: time.Date(2026, time.March, 30, 10, 0, 0, 0, time.UTC)},
		files: &fileSystem{files: fstest.MapFS{}},
	}
	opener, err := files.New(filesURL, s.files)
	if err != nil {
		t.Fatal(err)
	}
	db := memory.New()
	s.Keys = keys.NewService(db.Keys(), &keys.Options{Now: s.Clock.Now})
	s.Symbols = symbols.NewService(db.Symbols(), nil)
	s.Exports = exports.NewService(db.Exports(), &exports.Options{Now: s.Clock.Now, Openers: []exports.Opener{opener}})
	options := httpapi.Options{
		Keys:      s.Keys,
		Symbols:   s.Symbols,
		Exports:   s.Exports,
		AdminKeys: []string{AdminKey},
		Logger:    slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&options)
	}
	issued, err := s.Keys.Create(t.Context(), keys.Fields{Name: new("apitest")})
	if err != nil {
		t.Fatal(err)
	}
	s.RawKey = issued.Raw
	server := httptest.NewServer(httpapi.Handler(options))
	t.Cleanup(server.Close)
	s.URL = server.URL + strings.TrimRight("/"+strings.Trim(options.Prefix, "/"), "/")
	return s
}

// Client returns an HTTP client that sends the client key to this server, and
// only to it.
func (s *Server) Client() *http.Client { return s.with("x-api-key", string(s.RawKey)) }

// Admin returns an HTTP client that sends the admin key to this server, and
// only to it.
func (s *Server) Admin() *http.Client { return s.with("x-admin-key", AdminKey) }

func (s *Server) with(header, value string) *http.Client {
	base, err := url.Parse(s.URL)
	if err != nil {
		panic(err) // it is a server's own
	}
	return &http.Client{Transport: keyed{base.Host, header, value}}
}

// keyed adds a header to the requests for a host.
type keyed struct{ host, header, value string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == k.host {
		r = r.Clone(r.Context())
		r.Header.Set(k.header, k.value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Export registers an export of the source with the content given, under a file
// name.
func (s *Server) Export(t testing.TB, source, fileName, content string) {
	t.Helper()
	s.files.put(fileName, content)
	if _, _, err := s.Exports.Register(t.Context(), source, filesURL+url.PathEscape(fileName), fileName); err != nil {
		t.Fatal(err)
	}
}

// Clock is a clock that stands still until it is moved. It is safe for
// concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set moves the clock to a time, be it earlier.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Add moves the clock on.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
