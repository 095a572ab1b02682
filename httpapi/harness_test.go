package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const adminKey = "an admin key for tests"

// harness is a handler on a real server over memory storage.
type harness struct {
	t       *testing.T
	url     string
	options httpapi.Options
	clock   *apitest.Clock
	log     *syncBuffer
	files   fstest.MapFS // what lies under filesURL
	rawKey  string       // a valid client key
}

const filesURL = "https://files.example/out/"

// serve serves the API with all services; change may alter the options first.
func serve(t *testing.T, change ...func(*httpapi.Options)) *harness {
	t.Helper()
	h := newHarness(t, change...)
	server := httptest.NewServer(httpapi.Handler(h.options))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// newHarness makes what start serves, for tests that mount it themselves.
func newHarness(t *testing.T, change ...func(*httpapi.Options)) *harness {
	t.Helper()
	h := &harness{
		t:     t,
		clock: new(apitest.Clock),
		log:   new(syncBuffer),
		files: fstest.MapFS{},
	}
	h.clock.Set(time.Date(2026, 3, 30, 10, 0, 0, 123456789, time.UTC))
	opener, err := files.New(filesURL, h.files)
	if err != nil {
		t.Fatal(err)
	}
	db := memory.New()
	h.options = httpapi.Options{
		Keys:      newKeyService(t, db.Keys(), &keys.Options{Now: h.clock.Now}),
		Symbols:   symbols.NewService(db.Symbols(), &symbols.Options{PageSize: 1000}),
		Exports:   exports.NewService(db.Exports(), &exports.Options{Now: h.clock.Now, Openers: []exports.Opener{opener}}),
		AdminKeys: []string{adminKey},
		Logger:    slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&h.options)
	}
	issued, err := newKeyService(t, db.Keys(), &keys.Options{Now: h.clock.Now}).Create(t.Context(), keys.Fields{})
	if err != nil {
		t.Fatal(err)
	}
	h.rawKey = string(issued.Raw)
	return h
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

// newAPI returns the API of options that must be valid.
func newAPI(t testing.TB, options httpapi.Options) *httpapi.API {
	t.Helper()
	api, err := httpapi.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// syncBuffer is a buffer for a log that several goroutines write.
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

// response is a response that has been read.
type response struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// send makes a request with the headers given as pairs. The body is sent as
// JSON unless a Content-Type is given; an empty one is not sent at all.
func (h *harness) send(method, path, body string, headers ...string) response {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Content-Type" {
			request.Header.Del("Content-Type")
		}
		request.Header.Add(headers[i], headers[i+1])
	}
	// A client that follows redirects would hide one.
	received, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer received.Body.Close()
	content, err := io.ReadAll(received.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	got := response{t: h.t, status: received.StatusCode, header: received.Header, body: content}
	h.record(path, request, body, got)
	return got
}

// admin sends a request with the admin key, client one with the client key.
func (h *harness) admin(method, path, body string) response {
	h.t.Helper()
	return h.send(method, path, body, "x-admin-key", adminKey)
}

func (h *harness) client(method, path, body string) response {
	h.t.Helper()
	return h.send(method, path, body, "x-api-key", h.rawKey)
}

// want fails the test unless the status is the one given.
func (a response) want(status int) response {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status is %d, want %d: %.300s", a.status, status, a.body)
	}
	return a
}

// wantError is want for an response to an error, whose body it checks.
func (a response) wantError(status int, code string) response {
	a.t.Helper()
	a.want(status)
	body := a.object()
	if body["code"] != code || body["message"] == "" || body["requestId"] != a.header.Get("X-Request-Id") {
		a.t.Fatalf("error body is %s, want code %q and request id %q", a.body, code, a.header.Get("X-Request-Id"))
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		a.t.Fatalf("Content-Type of an error is %q", got)
	}
	return a
}

// message returns the message of an error body.
func (a response) message() string {
	a.t.Helper()
	text, _ := a.object()["message"].(string)
	return text
}

func (a response) object() map[string]any {
	a.t.Helper()
	var out map[string]any
	a.into(&out)
	return out
}

func (a response) array() []any {
	a.t.Helper()
	var out []any
	a.into(&out)
	if out == nil {
		a.t.Fatalf("body is %s, want an array", a.body)
	}
	return out
}

func (a response) into(out any) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, out); err != nil {
		a.t.Fatalf("body %.300s: %v", a.body, err)
	}
}

// quote is text as a JSON string.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}
