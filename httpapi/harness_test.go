package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		flag.Set("test.parallel", "6") // most tests wait for timeouts
	}
	goleak.VerifyTestMain(m)
}

const adminKey = "an admin key for tests"

// transport is that of the tests. A parallel test that closes an
// [httptest.Server] closes the idle connections of [http.DefaultTransport], and
// requests that are about to use one fail. It accepts gzip only if a test does.
var transport = &http.Transport{DisableCompression: true}

// harness is the API with memory storage, a clock, and a server on a loopback
// address.
type harness struct {
	t       *testing.T
	url     string
	options httpapi.Options
	clock   *apitest.Clock
	log     *syncBuffer
	files   fstest.MapFS // below filesURL
	rawKey  string       // a valid client key
}

// listPath is the list of the symbols of the folder of serveFolder.
const listPath = "/symbol/folders/1/symbols"

const filesURL = "https://files.example/out/"

// serve starts a server. Each change may modify the options of the API first.
func serve(t *testing.T, change ...func(*httpapi.Options)) *harness {
	t.Helper()
	h := newHarness(t, change...)
	h.listen(httpapi.Handler(&h.options))
	return h
}

// serveFolder is serve with the folder A, whose id is 1.
func serveFolder(t *testing.T, change ...func(*httpapi.Options)) *harness {
	t.Helper()
	h := serve(t, change...)
	h.folder("A")
	return h
}

// folder creates a folder as a client.
func (h *harness) folder(name string) {
	h.t.Helper()
	h.client("POST", "/symbol/folders", `{"name":`+quote(name)+`}`).want(201)
}

// keyOf returns a new raw key, which has no owner if owner is empty.
func (h *harness) keyOf(owner string) string {
	h.t.Helper()
	return string(must(h.options.Keys.Create(h.t.Context(), keys.Fields{Owner: &owner}))(h.t).Raw)
}

// listen starts a server with a handler. Each change may modify it first.
func (h *harness) listen(handler http.Handler, change ...func(*httptest.Server)) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	for _, f := range change {
		f(server)
	}
	server.Start()
	h.t.Cleanup(server.Close)
	h.url = server.URL
	return server
}

// configured is a change of a server: that of an application.
func configured(server *httptest.Server) { httpapi.ConfigureServer(server.Config) }

// newHarness returns a harness without a server, for tests that start their own.
func newHarness(t *testing.T, change ...func(*httpapi.Options)) *harness {
	t.Helper()
	h := &harness{
		t:     t,
		clock: new(apitest.Clock),
		log:   new(syncBuffer),
		files: fstest.MapFS{},
	}
	h.clock.Set(time.Date(2026, 3, 30, 10, 0, 0, 123456789, time.UTC))
	opener := must(files.New(filesURL, h.files))(t)
	db := memory.New()
	h.options = httpapi.Options{
		Keys:      must(keys.NewService(db.Keys(), &keys.Options{Now: h.clock.Now, CacheSize: 256, ForeignKeys: true}))(t),
		Symbols:   must(symbols.NewService(db.Symbols(), &symbols.Options{PageSize: 1000}))(t),
		Exports:   must(exports.NewService(db.Exports(), &exports.Options{Now: h.clock.Now, Openers: []exports.Opener{opener}}))(t),
		AdminKeys: []string{adminKey},

		RegisterWith: httpapi.RegisterWithClientKey,
		RevokeRoute:  true,
		Logger:       slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&h.options)
	}
	service := must(keys.NewService(db.Keys(), &keys.Options{Now: h.clock.Now, CacheSize: 256}))(t)
	h.rawKey = string(must(service.Create(t.Context(), keys.Fields{}))(t).Raw)
	return h
}

// withSymbols, withKeys and withExports are changes of options: services of stores.
func withSymbols(store symbols.Store) func(*httpapi.Options) {
	return func(o *httpapi.Options) { o.Symbols = valid(symbols.NewService(store, nil)) }
}

func withKeys(store keys.Store) func(*httpapi.Options) {
	return func(o *httpapi.Options) { o.Keys = valid(keys.NewService(store, nil)) }
}

func withExports(options exports.Options) func(*httpapi.Options) {
	return func(o *httpapi.Options) { o.Exports = valid(exports.NewService(memory.New().Exports(), &options)) }
}

func storeTimeout(d time.Duration) func(*httpapi.Options) {
	return func(o *httpapi.Options) { o.Limits.StoreTimeout = d }
}

// valid returns a value without an error.
func valid[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// wantLog fails the test unless the log has the texts.
func (h *harness) wantLog(texts ...string) {
	h.t.Helper()
	for _, text := range texts {
		if log := h.log.String(); !strings.Contains(log, text) {
			h.t.Fatalf("the log lacks %q: %.2000s", text, log)
		}
	}
}

// openSQLite opens and migrates the SQLite database of a file.
func openSQLite(tb testing.TB, path string) (*sql.DB, *sqlite.DB) {
	tb.Helper()
	pool := must(sql.Open("sqlite", "file:"+path+
		"?_pragma=busy_timeout(60000)&_pragma=foreign_keys(ON)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"))(tb)
	tb.Cleanup(func() { pool.Close() })
	db := must(sqlite.New(pool))(tb)
	is.New(tb).NoErr(db.Migrate(tb.Context()))
	return pool, db
}

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// response is a received response.
type response struct {
	t       *testing.T
	request string // for messages
	status  int
	header  http.Header
	body    []byte
}

// try sends a request with headers given as pairs, and returns the response with its
// body unread. The Content-Type of a body is JSON unless given; an empty body has none.
func (h *harness) try(method, path, body string, headers ...string) (*http.Response, error) {
	h.t.Helper()
	request := must(http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body)))(h.t)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Content-Type" {
			request.Header.Del("Content-Type")
		}
		request.Header.Add(headers[i], headers[i+1])
	}
	return transport.RoundTrip(request) // http.Client would follow redirects
}

// open is try with the client key, unless the headers have a key. It closes the body after
// the test.
func (h *harness) open(method, path, body string, headers ...string) *http.Response {
	h.t.Helper()
	if len(headers) == 0 {
		headers = []string{"x-api-key", h.rawKey}
	}
	response := must(h.try(method, path, body, headers...))(h.t)
	h.t.Cleanup(func() { response.Body.Close() })
	return response
}

// wantTruncated is trySend for a response that does not end like a complete one.
func (h *harness) wantTruncated(method, path, body string) {
	h.t.Helper()
	_, status, err := h.trySend(method, path, body)
	if status != 200 || err == nil {
		h.t.Fatalf("%s %s: status is %d with error %v, want 200 with an error", method, path, status, err)
	}
}

// trySend is client for a response that may be aborted.
func (h *harness) trySend(method, path, body string) (content []byte, status int, err error) {
	h.t.Helper()
	response, err := h.try(method, path, body, "x-api-key", h.rawKey, "x-admin-key", adminKey)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	content, err = io.ReadAll(response.Body)
	return content, response.StatusCode, err
}

// send is try that reads the body, and decompresses it.
func (h *harness) send(method, path, body string, headers ...string) response {
	h.t.Helper()
	received := must(h.try(method, path, body, headers...))(h.t)
	defer received.Body.Close()
	var content []byte
	if received.Header.Get("Content-Type") != "text/event-stream" { // which does not end
		content = must(io.ReadAll(received.Body))(h.t)
	}
	if received.Header.Get("Content-Encoding") == "gzip" && len(content) > 0 {
		content = must(gunzip(content))(h.t)
	}
	request := fmt.Sprintf("%s %.200s %.200s", method, path, body)
	got := response{h.t, request, received.StatusCode, received.Header, content}
	h.record(path, received.Request, body, got)
	return got
}

func gunzip(content []byte) ([]byte, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zipped)
}

// admin sends a request with the admin key, and client one with the client key.
func (h *harness) admin(method, path, body string) response {
	h.t.Helper()
	return h.send(method, path, body, "x-admin-key", adminKey)
}

func (h *harness) client(method, path, body string) response {
	h.t.Helper()
	return h.send(method, path, body, "x-api-key", h.rawKey)
}

// want fails the test unless the response has the status.
func (r response) want(status int) response {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: status is %d, want %d: %.300s", r.request, r.status, status, r.body)
	}
	return r
}

// wantBody is want that also compares the body.
func (r response) wantBody(status int, body string) response {
	r.t.Helper()
	if string(r.want(status).body) != body {
		r.t.Fatalf("%s: body is %.2000s, want %.2000s", r.request, r.body, body)
	}
	return r
}

// wantHeaders compares headers, given as pairs. One that is absent is empty.
func (r response) wantHeaders(pairs ...string) response {
	r.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := r.header.Get(pairs[i]); got != pairs[i+1] {
			r.t.Fatalf("%s: %s is %q, want %q", r.request, pairs[i], got, pairs[i+1])
		}
	}
	return r
}

// wantError is want for an error response. It also checks the body.
func (r response) wantError(status int, code string) response {
	r.t.Helper()
	r.want(status)
	body := r.object()
	if body["code"] != code || body["message"] == "" || body["requestId"] != r.header.Get("X-Request-Id") {
		r.t.Fatalf("%s: body is %s, want code %q and id %q", r.request, r.body, code, r.header.Get("X-Request-Id"))
	}
	return r.wantHeaders("Content-Type", "application/json")
}

// wantInvalid is wantError for an invalid request, whose message begins with what is invalid.
func (r response) wantInvalid(begin string) {
	r.t.Helper()
	if got := r.wantError(400, "invalid_request").message(); !strings.HasPrefix(got, begin) {
		r.t.Fatalf("%s: message is %q, want %q at its beginning", r.request, got, begin)
	}
}

// wantRetryAfter fails the test unless Retry-After is interval, minus the seconds that
// the test has taken so far, which are at most half of it.
func (r response) wantRetryAfter(interval time.Duration) {
	r.t.Helper()
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if wait := time.Duration(seconds) * time.Second; err != nil || wait > interval || wait < interval/2 {
		r.t.Fatalf("Retry-After is %q, want %d or a little less", r.header.Get("Retry-After"), int(interval.Seconds()))
	}
}

// message returns the message of an error body.
func (r response) message() string {
	r.t.Helper()
	text, _ := r.object()["message"].(string)
	return text
}

func (r response) object() map[string]any {
	r.t.Helper()
	var out map[string]any
	r.into(&out)
	return out
}

func (r response) array() []any {
	r.t.Helper()
	var out []any
	r.into(&out)
	if out == nil {
		r.t.Fatalf("body is %s, want an array", r.body)
	}
	return out
}

func (r response) into(out any) {
	r.t.Helper()
	if err := json.Unmarshal(r.body, out); err != nil {
		r.t.Fatalf("body %.300s: %v", r.body, err)
	}
}

// export registers an export of the application, for no key.
func (h *harness) export(source, url string) exports.Export {
	h.t.Helper()
	export, _, err := h.options.Exports.Register(h.t.Context(), exports.Registration{SourceURL: source, ExportedURL: url})
	is.New(h.t).NoErr(err)
	return export
}

// serveOnce serves a request without a connection, with headers given as pairs. A body
// is JSON.
func serveOnce(handler http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// quote returns text as a JSON string.
func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// exchange is a line of the recording that the tests of internal/contract read.
type exchange struct {
	Test      string // name of the test
	Method    string
	Target    string // path without prefix, and query
	Header    http.Header
	Body      []byte
	Status    int
	GotHeader http.Header
	GotBody   []byte
}

// recording is the file for exchanges, nil unless CANVASBACK_TEST_EXCHANGES names a
// directory.
var recording = sync.OnceValues(func() (*os.File, error) {
	dir := os.Getenv("CANVASBACK_TEST_EXCHANGES")
	if dir == "" {
		return nil, nil
	}
	return os.Create(filepath.Join(dir, "exchanges.jsonl"))
})

// maxRecorded is the maximum size of both bodies of a recorded exchange. Longer ones
// are slow to check.
const maxRecorded = 256 << 10

// record writes an exchange to the recording, if there is one.
func (h *harness) record(target string, request *http.Request, body string, got response) {
	h.t.Helper()
	is := is.New(h.t)
	file, err := recording()
	if file == nil {
		is.NoErr(err)
		return
	}
	if len(body)+len(got.body) > maxRecorded {
		return
	}
	line, err := json.Marshal(exchange{
		Test: h.t.Name(), Method: request.Method, Target: strings.TrimPrefix(target, h.options.Prefix),
		Header: request.Header, Body: []byte(body),
		Status: got.status, GotHeader: got.header, GotBody: got.body,
	})
	is.NoErr(err)
	_, err = file.Write(append(line, '\n')) // one write per line
	is.NoErr(err)
}
