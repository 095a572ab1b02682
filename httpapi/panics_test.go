package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// zeroFile is the content of the files of a panickingOpener.
var zeroFile = make([]byte, 4<<20)

// panickingOpener opens files and panics in the method that where names.
type panickingOpener struct {
	where *atomic.Value
	open  *atomic.Int64 // files without a call of Close
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
	body := &panickingBody{panickingOpener: o, Reader: bytes.NewReader(zeroFile)}
	body.closing = sync.OnceFunc(func() { o.open.Add(-1) })
	return &exports.File{Body: body, Size: int64(len(zeroFile))}, nil
}

// panickingRangeOpener is a panickingOpener that can describe files. All have the
// same content.
type panickingRangeOpener struct{ panickingOpener }

func (o panickingRangeOpener) Stat(context.Context, *url.URL) (*exports.File, error) {
	o.at("Stat")
	return &exports.File{Size: int64(len(zeroFile)), Validator: "zeros"}, nil
}

func (o panickingRangeOpener) OpenRange(ctx context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	o.at("OpenRange")
	file, err := o.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(file.Body, r.Length), file.Body}, nil
}

func TestPanic_InRangeOpener(t *testing.T) {
	t.Parallel()
	for _, body := range []string{exportBody("s"), batchBody("s", "s")} {
		where, open := new(atomic.Value), new(atomic.Int64)
		h := serveExport(t, panickingRangeOpener{panickingOpener{where, open}})
		where.Store("Stat")
		h.client("POST", linksPath, body).wantError(502, "export_failed")
		where.Store("")
		_, path := (&linkHarness{harness: h}).create(body)
		for _, place := range []string{"OpenRange", "Open", "Read"} {
			where.Store(place)
			h.send("GET", path, "").wantError(502, "export_failed")
		}
		where.Store("later Read")
		h.wantTruncated("GET", path, "")
		h.wantLog("a bug in Stat", "a bug in OpenRange", "a bug in Open", "a bug in Read", "a bug in later Read")
		where.Store("")
		h.send("GET", path, "").want(200)
		eventually(t, func() bool { return open.Load() == 0 }) // files are closed
	}
}

type panickingBody struct {
	panickingOpener
	*bytes.Reader
	closing func()
}

func (b *panickingBody) Read(p []byte) (int, error) {
	b.at("Read")
	if b.Len() < 3<<20 { // read by the prefetch
		b.at("Read in prefetch")
	}
	if b.Len() < 2<<20 {
		b.at("later Read")
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
	is := is.New(t)
	where, open := new(atomic.Value), new(atomic.Int64)
	h := serveExport(t, panickingOpener{where, open})
	const (
		register = `{"sourceFileUrl":"s","exportedUrl":"https://x.example/"}`
		aborted  = 0  // within the response
		either   = -1 // aborted or 200
	)
	for _, c := range []struct {
		place, path, body string
		status            int
	}{
		{"Serves", "register", register, 500},
		{"Serves", "download", exportBody("s"), 500},
		{"Serves", "download-batch", batchBody("s"), 502}, // the file is skipped
		{"Check", "register", register, 500},
		{"Open", "download", exportBody("s"), 500},
		{"Open", "download-batch", batchBody("s", "s"), 502},
		{"Read", "download", exportBody("s"), 500},
		{"Read", "download-batch", batchBody("s", "s"), 502},
		{"Read in prefetch", "download-batch", batchBody("s", "s"), 500},
		{"later Read", "download", exportBody("s"), aborted},
		{"later Read", "download-batch", batchBody("s", "s"), aborted},
		{"Close", "download", exportBody("s"), either},
		{"Close", "download-batch", batchBody("s", "s"), either},
	} {
		where.Store(c.place)
		got := aborted
		if content, status, err := h.trySend("POST", "/viewer/exports/"+c.path, c.body); err == nil {
			got = status
			if status >= 500 && !bytes.Contains(content, []byte(`"requestId"`)) {
				t.Errorf("panic in %s, %s: body is %.200s", c.place, c.path, content)
			}
		}
		if got != c.status && (c.status != either || got != aborted && got != 200) {
			t.Errorf("panic in %s, %s: status is %d, want %d", c.place, c.path, got, c.status)
		}
		// The client may have the complete response before Close panics.
		eventually(t, func() bool { return strings.Contains(h.log.String(), "a bug in "+c.place) })
		where.Store("")
		for _, path := range []string{"/viewer/exports/download", "/viewer/exports/download-batch"} {
			t.Log(c.place, c.path)
			body := exportBody("s")
			if strings.HasSuffix(path, "batch") {
				body = batchBody("s", "s")
			}
			for attempt := 0; ; attempt++ { // the client may still use the reset connection
				_, status, err := h.trySend("POST", path, body)
				if err != nil && attempt < 3 {
					continue
				}
				is.NoErr(err)
				is.Equal(status, 200)
				break
			}
		}
		eventually(t, func() bool { return open.Load() == 0 }) // files are closed
	}
}

// TestPanic_InStore calls every route with stores whose methods all panic. A key cannot be
// checked then.
func TestPanic_InStore(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"/viewer/key/revoke":             `{"apiKeys":["` + strings.Repeat("k", 20) + `"]}`,
		"/viewer/exports/links":          exportBody("s"),
		"/admin/api-keys/import":         `{"keys":[{"sha256":"` + strings.Repeat("1", 64) + `"}]}`,
		"/viewer/exports/download":       exportBody("s"),
		"/viewer/exports/download-batch": batchBody("s"),
		"/viewer/exports/register":       `{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/a"}`,
		"/symbol/symbols":                `{"ids":[1]}`,
		"/symbol/symbols/delete":         `{"ids":[1]}`,
		"/symbol/folders/1/symbols":      `{"name":"x","type":"a/b","data":"y"}`,
		"/symbol/folders/1/import":       string(zipOf(t, "valve.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")),
	}
	for _, open := range []bool{false, true} {
		h := serve(t, func(o *httpapi.Options) {
			o.DangerouslySkipClientKeys = open
			o.Keys = must(keys.NewService(struct{ keys.Store }{}, &keys.Options{ForeignKeys: true}))(t)
			o.Symbols = must(symbols.NewService(panickingStore{}, nil))(t)
			o.Exports = must(exports.NewService(struct {
				exports.Store
				exports.LinkStore
			}{}, &exports.Options{Openers: []exports.Opener{panickingOpener{new(atomic.Value), new(atomic.Int64)}}}))(t)
		})
		for _, route := range httpapi.Routes(&h.options) {
			path := strings.NewReplacer("{id}", "1", "{token}", strings.Repeat("A", 43)).Replace(route.Path)
			body := bodies[path]
			if body == "" && route.Method != "GET" && route.Method != "DELETE" {
				body = `{"name":"x","ids":[1]}`
			}
			switch path {
			case "/openapi.json", "/client.js", "/client.d.ts", "/symbol/changes":
				continue
			case "/symbol/search":
				path += "?q=x"
			}
			status, code := 500, "internal"
			if route.Key == "x-api-key" && (route.Own || !open) || path == "/viewer/key/revoke" {
				status, code = 503, "unavailable"
			}
			h.send(route.Method, path, body, "Content-Type", "application/json", "x-admin-key", adminKey, "x-api-key", h.rawKey).wantError(status, code)
		}
		h.client("GET", "/nope", "").wantError(404, "not_found")
	}
}

// TestPanic_InStoreOfKeys has a link that nobody reads, or a stream of changes, whose goroutines
// check the key. Without a lease each check reads the store.
func TestPanic_InStoreOfKeys(t *testing.T) {
	t.Parallel()
	var bug atomic.Bool
	h := newHarness(t, withKeys(findHook{memory.New().Keys(), func(context.Context) error {
		if bug.Load() {
			panic("a bug in Find")
		}
		return nil
	}}))
	h.rawKey = h.keyOf("")
	h.listen(httpapi.Handler(&h.options))
	h.files["s"] = &fstest.MapFile{Data: make([]byte, 100<<20), ModTime: time.Unix(1e9, 0)}
	h.export("s", filesURL+"s")
	_, path := (&linkHarness{harness: h}).create(exportBody("s"))
	for _, path := range []string{path, "/symbol/changes"} {
		h.open("GET", path, "")
		time.Sleep(100 * time.Millisecond)
		bug.Store(true)
		time.Sleep(500 * time.Millisecond)
		bug.Store(false)
	}
	is.New(t).Equal(h.client("GET", "/symbol/folders", "").status, 200)
}

func TestPanic_InClientIPIs500(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) { o.ClientIP = func(*http.Request) string { panic("a bug") } })
	for _, route := range []string{"GET /symbol/folders", "GET /viewer/key", "POST /viewer/tokens"} {
		method, path, _ := strings.Cut(route, " ")
		h.send(method, path, "", "x-api-key", "wrong").wantError(500, "internal")
	}
	h.client("GET", "/symbol/folders", "").want(200)
}

func TestPanic_InRequestIDIs500(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) { o.RequestID = func(*http.Request) string { panic("a bug") } })
	h.send("POST", "/viewer/key/revoke", `{"apiKeys":["wrong"]}`).wantError(500, "internal")
	got := h.client("GET", "/symbol/folders", "").wantError(500, "internal")
	is.New(t).True(got.header.Get("X-Request-Id") != "")
}

// TestPanic_InTenant has a link and a stream of changes, whose goroutines check the tenant.
func TestPanic_InTenant(t *testing.T) {
	t.Parallel()
	var bug atomic.Bool
	h := serve(t, func(o *httpapi.Options) {
		o.Tenant = func(keys.Key) (string, error) {
			if bug.Load() {
				panic("a bug in Tenant")
			}
			return "", nil
		}
		o.Limits.StoreTimeout = 500 * time.Millisecond
	})
	h.files["s"] = &fstest.MapFile{Data: make([]byte, 100<<20), ModTime: time.Unix(1e9, 0)}
	h.export("s", filesURL+"s")
	_, path := (&linkHarness{harness: h}).create(exportBody("s"))
	link := h.open("GET", path, "")
	changes := h.follow("")
	changes.next()
	bug.Store(true)
	for !changes.next().end {
	}
	_, err := io.Copy(io.Discard, link.Body)
	is.New(t).True(err != nil) // aborted
	h.wantLog("a bug in Tenant")
	h.client("GET", "/symbol/folders", "").wantError(500, "internal")
	h.send("GET", path, "").wantError(500, "internal")
}

// panickingStore panics in every method but Shared.
type panickingStore struct{ symbols.Store }

func (panickingStore) Shared() bool { return true }

// TestPanic_ReleasesMemory has memory for a few of the requests that fail.
func TestPanic_ReleasesMemory(t *testing.T) {
	t.Parallel()
	var panics atomic.Int32 // that are left
	store := symbolHook{memory.New().Symbols(), func(int64) error {
		if panics.Add(-1) >= 0 {
			panic("a bug")
		}
		return nil
	}}
	h := serve(t, withSymbols(store), storeTimeout(time.Second), func(o *httpapi.Options) { o.Limits.Memory = 16 << 20 })
	createFolder(t, h.options.Symbols, "A", 1, 1<<20)
	panics.Store(10)
	for range 10 {
		h.client("GET", "/symbol/symbols/1", "").wantError(500, "internal")
	}
	h.client("GET", "/symbol/symbols/1", "").want(200)

	// A single request of the client may have more than half of the memory.
	createFolder(t, h.options.Symbols, "B", 1, 5<<20)
	h.client("GET", "/symbol/symbols/2", "").want(200)
	panics.Store(1)
	body := `{"name":"a","type":"text/plain","data":"` + strings.Repeat("a", 8<<10) + `"}`
	h.client("POST", "/symbol/folders/1/symbols", body).wantError(500, "internal")
	createFolder(t, h.options.Symbols, "C", 1, 5<<20)
	h.client("GET", "/symbol/symbols/3", "").want(200)
}

// TestDenied_ReleasesMemory has long messages for more requests than fit into memory.
func TestDenied_ReleasesMemory(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *httpapi.Options) {
		o.Limits.Memory, o.Limits.StoreTimeout, o.Limits.IdleTimeout = 1<<20, 100*time.Millisecond, time.Second
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) error {
			if r.URL.Path == "/own" {
				return &httpapi.DeniedError{Message: strings.Repeat("a", 32<<10)}
			}
			return nil
		}
	})
	api := must(httpapi.New(&h.options))(t)
	mux := http.NewServeMux()
	mux.Handle("/own", api.RequireClientKey(http.NotFoundHandler()))
	mux.Handle("/", api)
	h.listen(mux)
	for range 40 {
		h.client("GET", "/own", "").wantError(403, "forbidden")
	}
	h.client("POST", "/symbol/folders", `{"name":"`+strings.Repeat("a", 200)+`"`+strings.Repeat(" ", 64<<10)+`}`).want(201)
}

func TestPanic_InMiddlewareIs500(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h := newHarness(t, func(o *httpapi.Options) {
		o.Authorize = func(*http.Request, keys.Key, string) error { panic("a bug") }
		o.Observe = seen.observe
	})
	api := must(httpapi.New(&h.options))(t)
	mux := http.NewServeMux()
	mux.Handle("/middleware", api.RequireClientKey(http.NotFoundHandler()))
	mux.HandleFunc("/function", func(w http.ResponseWriter, r *http.Request) {
		_, ok := api.Authenticate(w, r)
		is.True(!ok)
	})
	h.listen(mux)
	for i, path := range []string{"/middleware", "/function"} {
		h.client("GET", path, "").wantError(500, "internal")
		o := seen.last(t, i+1)
		is.Equal(o.Error, "panic: a bug")
		is.True(!o.Aborted)
	}
}

// TestHandler_WithoutBody has a request as clients make it, whose body may be nil.
func TestHandler_WithoutBody(t *testing.T) {
	t.Parallel()
	h := serve(t)
	r := must(http.NewRequest("POST", "/symbol/folders", nil))(t)
	r.Header.Set("x-api-key", h.rawKey)
	w := httptest.NewRecorder()
	must(httpapi.New(&h.options))(t).ServeHTTP(w, r)
	is.New(t).Equal(w.Code, 400)
}

func TestLimits_LargeValuesAreNoLimits(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) {
		o.Keys = must(keys.NewService(memory.New().Keys(), &keys.Options{ForeignKeys: true}))(t)
		o.Limits.Body, o.Limits.Downloads = math.MaxInt64, math.MaxInt
		o.Limits.StoreTimeout, o.Limits.WrongKeys.Interval = math.MaxInt64, math.MaxInt64
		o.RegisterWith = httpapi.RegisterWithScope
	})
	raw := h.keyOf("owner")
	h.admin("POST", "/admin/api-keys/import", `{"keys":[{"sha256":"`+strings.Repeat("ab", 32)+`","prefix":"x"}]}`).want(201)
	h.files["a.dwg"] = &fstest.MapFile{Data: []byte("content")}
	h.admin("POST", "/viewer/exports/register", `{"sourceFileUrl":"a","exportedUrl":"`+filesURL+`a.dwg"}`).want(201)
	token := h.send("POST", "/viewer/tokens", "", "x-api-key", raw).want(201).object()["token"].(string)
	h.send("POST", "/viewer/exports/download", exportBody("a"), "x-api-key", token).want(200)
	h.send("POST", "/symbol/folders", `{"name":"a"}`, "x-api-key", raw).want(201)
	h.send("DELETE", "/symbol/folders/1", "", "x-api-key", raw).want(200)
}

// goneStore is a store with an error of its own for symbols that do not exist.
type goneStore struct{ symbols.Store }

func (goneStore) DeleteSymbols(context.Context, []int64, symbols.Deletion) error {
	return &symbols.MissingError{Err: errors.New("gone"), ID: 1}
}

func TestMissingError_OfAnotherStore(t *testing.T) {
	t.Parallel()
	h := serve(t, withSymbols(goneStore{memory.New().Symbols()}))
	h.client("DELETE", "/symbol/symbols/1", "").wantError(503, "unavailable")
}
