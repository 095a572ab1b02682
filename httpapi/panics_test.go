package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// panickingOpener opens a file, and panics where it is told to.
type panickingOpener struct {
	where *atomic.Value
	open  *atomic.Int64 // files that nobody has tried to close
}

func (o panickingOpener) at(place string) {
	if o.where.Load() == place {
		panic("a bug in " + place)
	}
}

func (o panickingOpener) Serves(*url.URL) bool {
	o.at("Serves")
	return true
}

func (o panickingOpener) Check(*url.URL) error {
	o.at("Check")
	return nil
}

func (o panickingOpener) Open(context.Context, *url.URL) (*exports.File, error) {
	o.at("Open")
	o.open.Add(1)
	body := &panickingBody{panickingOpener: o, Reader: bytes.NewReader(make([]byte, 4<<20))}
	body.closing = sync.OnceFunc(func() { o.open.Add(-1) })
	return &exports.File{Body: body, Size: 4 << 20}, nil
}

type panickingBody struct {
	panickingOpener
	*bytes.Reader
	closing func()
}

func (b *panickingBody) Read(p []byte) (int, error) {
	b.at("Read")
	if b.Len() < 3<<20 { // more is read before the turn of a file
		b.at("a Read before its entry")
	}
	if b.Len() < 2<<20 {
		b.at("a later Read")
	}
	return b.Reader.Read(p)
}

func (b *panickingBody) Close() error {
	b.closing()
	b.at("Close")
	return nil
}

func TestPanic_InOpener(t *testing.T) {
	t.Parallel()
	where, open := new(atomic.Value), new(atomic.Int64)
	h := serveExport(t, panickingOpener{where, open})
	const (
		register = `{"sourceFileUrl":"s","exportedUrl":"https://x.example/"}`
		torn     = 0  // the response has begun
		either   = -1 // or has just ended
	)
	for _, c := range []struct {
		place, path, body string
		status            int
	}{
		{"Serves", "register", register, 500},
		{"Serves", "download", exportBody("s"), 500},
		{"Serves", "download-batch", batchBody("s"), 502}, // as if the file could not be had
		{"Check", "register", register, 500},
		{"Open", "download", exportBody("s"), 500},
		{"Open", "download-batch", batchBody("s", "s"), 502},
		{"Read", "download", exportBody("s"), 500},
		{"Read", "download-batch", batchBody("s", "s"), 502},
		{"a Read before its entry", "download-batch", batchBody("s", "s"), 500},
		{"a later Read", "download", exportBody("s"), torn},
		{"a later Read", "download-batch", batchBody("s", "s"), torn},
		{"Close", "download", exportBody("s"), either},
		{"Close", "download-batch", batchBody("s", "s"), either},
	} {
		where.Store(c.place)
		got := torn
		if content, status, err := h.trySend("POST", "/viewer/exports/"+c.path, c.body); err == nil {
			got = status
			if status >= 500 && !bytes.Contains(content, []byte(`"requestId"`)) {
				t.Errorf("panic in %s, %s: body is %.200s", c.place, c.path, content)
			}
		}
		if got != c.status && (c.status != either || got != torn && got != 200) {
			t.Errorf("panic in %s, %s: status is %d, want %d", c.place, c.path, got, c.status)
		}
		if !strings.Contains(h.log.String(), "a bug in "+c.place) {
			t.Errorf("panic in %s, %s: the log does not have it", c.place, c.path)
		}
		where.Store("")
		for _, path := range []string{"/viewer/exports/download", "/viewer/exports/download-batch"} {
			body := exportBody("s")
			if strings.HasSuffix(path, "batch") {
				body = batchBody("s", "s")
			}
			for try := 0; ; try++ { // the connection of the panic may be found broken only now
				_, status, err := h.trySend("POST", path, body)
				if err != nil && try < 3 {
					continue
				}
				if err != nil || status != 200 {
					t.Errorf("after a panic in %s, %s: %d %v; the server does not go on", c.place, c.path, status, err)
				}
				break
			}
		}
		for deadline := time.Now().Add(5 * time.Second); open.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("panic in %s, %s: %d files are still open", c.place, c.path, open.Load())
			}
		}
	}
}

// try is client for an response that may break off.
func (h *harness) trySend(method, path, body string) (content []byte, status int, err error) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	request.Header.Set("x-api-key", h.rawKey)
	request.Header.Set("x-admin-key", adminKey)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	content, err = io.ReadAll(response.Body)
	return content, response.StatusCode, err
}

// TestPanic_InStore calls every route that needs a store whose every method
// panics.
func TestPanic_InStore(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"/viewer/exports/download":       exportBody("s"),
		"/viewer/exports/download-batch": batchBody("s"),
		"/viewer/exports/register":       `{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/a"}`,
		"/symbol/folders/1/symbols":      `{"name":"x","type":"a/b","data":"y"}`,
		"/symbol/folders/1/import":       string(zipOf(t, "valve.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")),
	}
	for _, broken := range []func(*httpapi.Options){
		func(o *httpapi.Options) { o.Keys = newKeyService(t, struct{ keys.Store }{}, nil) },
		func(o *httpapi.Options) {
			o.DangerouslySkipClientKeys = true
			o.Keys = newKeyService(t, struct{ keys.Store }{}, nil)
			o.Symbols = symbols.NewService(panickingStore{}, nil)
			o.Exports = exports.NewService(struct{ exports.Store }{}, &exports.Options{Openers: []exports.Opener{panickingOpener{new(atomic.Value), new(atomic.Int64)}}})
		},
	} {
		h := serve(t, broken)
		for path, guards := range documentedRoutes {
			for method := range guards {
				body := bodies[path]
				if body == "" && method != "GET" && method != "DELETE" {
					body = `{"name":"x"}`
				}
				contentType := "application/json"
				if strings.HasSuffix(path, "/import") {
					contentType = "application/zip"
				}
				h.send(method, path, body, "Content-Type", contentType, "x-admin-key", adminKey, "x-api-key", h.rawKey).wantError(500, "internal")
			}
		}
		h.client("GET", "/nope", "").wantError(404, "not_found")
	}
}

func TestPanic_InClientIPIs500(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) {
		o.AuthRateLimit.ClientIP = func(*http.Request) string { panic("a bug") }
	})
	h.send("GET", "/symbol/folders", "", "x-api-key", "wrong").wantError(500, "internal")
	h.client("GET", "/symbol/folders", "").want(200)
}

// panickingStore panics in every method that handles a request.
type panickingStore struct{ symbols.Store }

func (panickingStore) Shared() bool { return true }
