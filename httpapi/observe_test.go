package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
)

// observer collects observations.
type observer struct {
	mu   sync.Mutex
	list []httpapi.Observation
}

func (o *observer) observe(_ context.Context, seen httpapi.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, seen)
}

// last waits for count observations and returns the last one.
func (o *observer) last(t *testing.T, count int) httpapi.Observation {
	t.Helper()
	eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.list) == count
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list[count-1]
}

func TestObserve_CalledOncePerRequest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h := serve(t, func(options *httpapi.Options) {
		options.Prefix = "/api"
		options.AllowedOrigins = []string{"*"}
		options.Observe = seen.observe
	})
	for i, c := range []struct {
		method, path, body string
		headers            []string
		want               httpapi.Observation
	}{
		{"GET", "/api/symbol/folders", "", []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders", Status: 200, KeyID: 1, Bytes: 2}},
		{"POST", "/api/symbol/folders", `{"name":"A"}`, []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders", Status: 201, KeyID: 1, Resources: []httpapi.Resource{{Kind: "folder", ID: 1}}}},
		{"GET", "/api/symbol/folders/1", "", []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders/{id}", Status: 200, KeyID: 1, Resources: []httpapi.Resource{{Kind: "folder", ID: 1}}}},
		{"GET", "/api/symbol/folders/77", "", []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders/{id}", Status: 404, KeyID: 1, Code: "not_found", Resources: []httpapi.Resource{{Kind: "folder", ID: 77}}}},
		{"GET", "/api/symbol/folders/1", "", nil, httpapi.Observation{Route: "/symbol/folders/{id}", Status: 401, Code: "unauthorized", Resources: []httpapi.Resource{{Kind: "folder", ID: 1}}}},
		{"GET", "/api/admin/api-keys", "", []string{"x-admin-key", adminKey}, httpapi.Observation{Route: "/admin/api-keys", Status: 200, Actor: "admin 1"}},
		{"PUT", "/api/symbol/folders/1", "", nil, httpapi.Observation{Route: "/symbol/folders/{id}", Status: 405, Code: "method_not_allowed"}},
		{"BREW", "/api/symbol/folders", "", nil, httpapi.Observation{Method: "OTHER", Route: "/symbol/folders", Status: 405, Code: "method_not_allowed"}},
		{"GET", "/api/nope/77", "", nil, httpapi.Observation{Status: 404, Code: "not_found"}},
		{"GET", "/other", "", nil, httpapi.Observation{Status: 404, Code: "not_found"}},
		{"OPTIONS", "/api/symbol/folders/1", "", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "PATCH"},
			httpapi.Observation{Route: "/symbol/folders/{id}", Status: 204}},
		{"OPTIONS", "/api/symbol/folders/1", "", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "PUT"},
			httpapi.Observation{Route: "/symbol/folders/{id}", Status: 204}},
		{"OPTIONS", "/api/nope", "", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET"}, httpapi.Observation{Status: 204}},
		{"OPTIONS", "/other", "", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET"}, httpapi.Observation{Status: 204}},
		{"OPTIONS", "/api/symbol/folders", "", nil, httpapi.Observation{Route: "/symbol/folders", Status: 405, Code: "method_not_allowed"}},
		{"HEAD", "/api/symbol/folders", "", []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders", Status: 200, KeyID: 1}},
	} {
		t.Log(c.method, c.path, c.want)
		before := time.Now()
		response := h.send(c.method, c.path, c.body, c.headers...)
		got := seen.last(t, i+1)
		is.True(got.Duration > 0 && got.Duration < time.Minute)
		is.True(got.Start.After(before.Add(-time.Second)) && !got.Start.After(time.Now()))
		is.Equal(got.Bytes, int64(len(response.body)))
		if c.want.Method == "" {
			c.want.Method = c.method
		}
		c.want.Bytes, c.want.Start, c.want.Duration, c.want.RequestID = got.Bytes, got.Start, got.Duration, response.header.Get("X-Request-Id")
		if c.want.KeyID != 0 {
			c.want.Actor = fmt.Sprint("key ", c.want.KeyID)
		}
		c.want.ClientIP = "127.0.0.1"
		is.True(reflect.DeepEqual(got, c.want))
	}
}

func TestObserve_PanicsAndAbortedResponses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h, store, otherProcess := serveSymbols(t, 0, smallCache, func(options *httpapi.Options) { options.Observe = seen.observe })
	createFolder(t, otherProcess, "A", 30, 200_000)
	store.onRead(func(int64) error { panic("a bug in a driver") })
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(500, "internal")
	got := seen.last(t, 1)
	is.Equal(got.Status, 500)
	is.True(strings.HasPrefix(got.Error, "panic: a bug in a driver"))
	is.Equal(got.Aborted, false)

	store.failAfter(25)
	h.client("GET", "/symbol/folders/1", "").want(200)
	h.trySend("GET", "/symbol/folders/1/symbols", "")
	got = seen.last(t, 3)
	is.Equal(got.Status, 200)
	is.True(got.Aborted)
	is.True(got.Bytes > 1<<20)

	short := serveExport(t, openerFunc(func(context.Context, *url.URL) (*exports.File, error) {
		return &exports.File{Body: io.NopCloser(strings.NewReader(largeContent)), Size: 1 << 30}, nil
	}), func(o *httpapi.Options) { o.Observe = seen.observe })
	short.wantTruncated("POST", "/viewer/exports/download", exportBody("s"))
	is.True(seen.last(t, 5).Aborted)
}

// TestObserve_AbortedBehindMiddleware has clients that do not read a symbol, whose size is known,
// and an export, whose abort the middleware recovers.
func TestObserve_AbortedBehindMiddleware(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	seen := make(chan httpapi.Observation, 1)
	h := newHarness(t, func(o *httpapi.Options) {
		o.Limits.IdleTimeout = 300 * time.Millisecond
		o.Observe = func(_ context.Context, o httpapi.Observation) { seen <- o }
	})
	createFolder(t, h.options.Symbols, "A", 1, 20<<20)
	api := must(httpapi.New(&h.options))(t)
	h.listen(api.RequireClientKey(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { recover() }()
		api.ServeHTTP(w, r)
	})))
	for _, path := range []string{"/symbol/symbols/1", "/symbol/folders/1/export"} {
		h.open("GET", path, "")
		got := <-seen
		is.Equal(got.Status, 200)
		is.True(got.Aborted)
	}
}

// TestObserve_HandlerOutlastsMiddleware needs the race detector.
func TestObserve_HandlerOutlastsMiddleware(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	seen := make(chan httpapi.Observation, 1)
	h := newHarness(t, func(o *httpapi.Options) {
		o.Observe = func(_ context.Context, o httpapi.Observation) { seen <- o }
	})
	api := must(httpapi.New(&h.options))(t)
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	h.listen(api.RequireClientKey(http.TimeoutHandler(api.RequireScope("own")(slow), time.Millisecond, "")))
	for range 20 {
		h.client("GET", "/", "").want(503)
		is.Equal((<-seen).Status, 503)
	}
}

func TestObserve_PanicPropagates(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(options *httpapi.Options) {
		options.Observe = func(context.Context, httpapi.Observation) { panic("a bug in Observe") }
	})
	defer func() { is.New(t).Equal(recover(), "a bug in Observe") }()
	httpapi.Handler(&h.options).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/nope", nil))
}

func TestObserve_ReportsWhoDidWhat(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h := serve(t, func(options *httpapi.Options) {
		options.Observe = seen.observe
		options.ClientIP = func(r *http.Request) string { return r.Header.Get("X-Real-IP") }
	})
	const source = "https://cad.example/a.dwg"
	h.files["a.pdf"] = &fstest.MapFile{}
	export := httpapi.Resource{Kind: "export", ID: 1, URL: source}
	key := httpapi.Resource{Kind: "key", ID: 1}
	client := []string{"x-api-key", h.rawKey, "X-Real-IP", "192.0.2.1"}
	admin := []string{"x-admin-key", adminKey, "X-Real-IP", "192.0.2.2"}
	for i, c := range []struct {
		method, path, body string
		headers            []string
		actor, code        string
		resources          []httpapi.Resource
	}{
		{"POST", "/viewer/exports/register", `{"sourceFileUrl":"` + source + `?token=secret","exportedUrl":"` + filesURL + `a.pdf"}`, client, "key 1", "", []httpapi.Resource{export}},
		{"POST", "/viewer/exports/download?responseType=urls", `{"sourceFileUrl":"` + source + `?token=secret"}`, client, "key 1", "", []httpapi.Resource{export}},
		{"POST", "/viewer/exports/download-batch?responseType=urls", `{"items":[{"sourceFileUrl":"` + source + `?token=secret"},{"sourceFileUrl":"none"}]}`, client, "key 1", "", []httpapi.Resource{export, {Kind: "export", URL: "none"}}},
		{"POST", "/viewer/exports/download-batch", `{"items":[{"sourceFileUrl":"` + source + `","path":"\u0000"}]}`, client, "key 1", "invalid_request", []httpapi.Resource{{Kind: "export", URL: source}}},
		{"POST", "/viewer/exports/download", `{"sourceFileUrl":"https://u:p@cad.example/b#x"}`, client, "key 1", "not_found", []httpapi.Resource{{Kind: "export", URL: "https://cad.example/b"}}},
		{"POST", "/admin/api-keys", `{}`, admin, "admin 1", "", []httpapi.Resource{{Kind: "key", ID: 2}}},
		{"PATCH", "/admin/api-keys/1", `{"isActive":false}`, admin, "admin 1", "", []httpapi.Resource{key}},
		{"GET", "/symbol/folders", "", client, "key 1", "forbidden", nil}, // the key is known although it is rejected
		{"DELETE", "/admin/api-keys/1", "", []string{"x-admin-key", "wrong", "X-Real-IP", "192.0.2.2"}, "", "unauthorized", []httpapi.Resource{key}},
		{"DELETE", "/admin/exports/1", "", admin, "admin 1", "", []httpapi.Resource{export}},
		{"DELETE", "/admin/exports/1", "", admin, "admin 1", "not_found", []httpapi.Resource{{Kind: "export", ID: 1}}},
		{"DELETE", "/admin/api-keys/1", "", admin, "admin 1", "", []httpapi.Resource{key}},
		{"GET", "/symbol/folders/x", "", client, "", "unauthorized", nil},
	} {
		h.send(c.method, c.path, c.body, c.headers...)
		got := seen.last(t, i+1)
		is.Equal(got.Actor, c.actor)
		is.Equal(got.Code, c.code)
		is.Equal(got.ClientIP, c.headers[3])
		is.Equal(got.Resources, c.resources)
	}
	is.Equal(export.String(), "export 1 https://cad.example/a.dwg")
	is.Equal(key.String(), "key 1")
}

func TestObserve_NamesEachRecordOfABulkRequest(t *testing.T) {
	t.Parallel()
	var seen observer
	h := serve(t, func(options *httpapi.Options) { options.Observe = seen.observe })
	client, admin := []string{"x-api-key", h.rawKey}, []string{"x-admin-key", adminKey}
	zipped := []string{"x-api-key", h.rawKey, "Content-Type", "application/zip"}
	records := func(kind string, ids ...int64) (list []httpapi.Resource) {
		for _, id := range ids {
			list = append(list, httpapi.Resource{Kind: kind, ID: id})
		}
		return list
	}
	for i, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		resources          []httpapi.Resource
	}{
		{"POST", "/symbol/folders", `{"name":"A"}`, client, 201, records("folder", 1)},
		{"POST", "/symbol/folders/1/import", string(zipOf(t, "a.svg", "<svg/>", "b.svg", "<svg/>")), zipped, 201, append(records("folder", 1), records("symbol", 1, 2)...)},
		{"PATCH", "/symbol/symbols", `{"ids":[1,2],"addTags":["x"]}`, client, 200, records("symbol", 1, 2)},
		{"PATCH", "/symbol/symbols", `{"ids":[1],"folderId":77}`, client, 404, append(records("symbol", 1), records("folder", 77)...)},
		{"PATCH", "/symbol/symbols/1", `{"folderId":1}`, client, 200, append(records("symbol", 1), records("folder", 1)...)},
		{"POST", "/symbol/symbols/delete", `{"ids":[2,77]}`, client, 404, records("symbol", 2, 77)},
		{"POST", "/symbol/symbols/delete", `{"ids":[1]}`, client, 200, records("symbol", 1)},
		{"POST", "/admin/api-keys", `{}`, admin, 201, records("key", 2)},
		{"PATCH", "/admin/api-keys", `{"ids":[1,2],"isActive":false}`, admin, 200, records("key", 1, 2)},
		{"POST", "/admin/api-keys/delete", `{"ids":[2]}`, admin, 200, records("key", 2)},
		{"POST", "/admin/api-keys/import", `{"keys":[{"sha256":"` + strings.Repeat("ab", 32) + `"}]}`, admin, 201, records("key", 3)},
	} {
		h.send(c.method, c.path, c.body, c.headers...).want(c.status)
		is.New(t).Equal(seen.last(t, i+1).Resources, c.resources)
	}
}

func TestLogRequests(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log := httpapi.LogRequests(slog.New(handler))
	log(t.Context(), httpapi.Observation{Method: "GET", Route: "/x", Status: 200, Bytes: 5, Duration: time.Second, ClientIP: "192.0.2.1", RequestID: "r"})
	log(t.Context(), httpapi.Observation{Method: "DELETE", Status: 404, Code: "not_found", Actor: "admin 2", Aborted: true, Resources: []httpapi.Resource{{Kind: "key", ID: 5}, {Kind: "export", URL: "u"}}})
	log(t.Context(), httpapi.Observation{Method: "OPTIONS", Route: "/x", Status: 204})
	is.New(t).Equal(out.String(), `level=INFO msg=request method=GET route=/x status=200 bytes=5 duration=1s clientIP=192.0.2.1 requestId=r
level=INFO msg=request method=DELETE route="" status=404 bytes=0 duration=0s clientIP="" requestId="" actor="admin 2" code=not_found aborted=true resources="[key 5 export u]"
level=DEBUG msg=request method=OPTIONS route=/x status=204 bytes=0 duration=0s clientIP="" requestId=""
`)
}

func TestLogRequests_LimitsResources(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var out bytes.Buffer
	log := httpapi.LogRequests(slog.New(slog.NewJSONHandler(&out, nil)))
	for count, attrs := range map[int]string{100: `"symbol 1"]}`, 101: `"symbol 1"],"resourceCount":101}`} {
		out.Reset()
		log(t.Context(), httpapi.Observation{Resources: slices.Repeat([]httpapi.Resource{{Kind: "symbol", ID: 1}}, count)})
		is.Equal(strings.Count(out.String(), "symbol 1"), 100)
		is.True(strings.HasSuffix(out.String(), attrs+"\n"))
	}
}

func TestOptions_RequestID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) {
		o.RequestID = func(r *http.Request) string { return r.Header.Get("X-Trace") }
	})
	is.Equal(h.send("GET", "/nope", "", "X-Trace", "app").header.Get("X-Request-Id"), "app")
	is.Equal(h.send("GET", "/nope", "", "X-Trace", "app", "X-Request-Id", "client").header.Get("X-Request-Id"), "app")
	is.Equal(h.send("GET", "/nope", "", "X-Trace", "not valid", "X-Request-Id", "client").header.Get("X-Request-Id"), "client")
}

// TestLog_RedactsSourceURLs: source URLs are often signed.
func TestLog_RedactsSourceURLs(t *testing.T) {
	t.Parallel()
	h := serve(t)
	sources := map[string]string{ // and their redacted form
		"https://user:secret@viewer.example/a.dwg?X-Signature=secret&id=7#secret": "https://viewer.example/a.dwg",
		"//viewer.example/b.dwg?token=secret":                                     "//viewer.example/b.dwg",
		"drawings/c.dwg?token=secret":                                             "drawings/c.dwg",
		"https://user:secret@viewer.example/%zz":                                  "[invalid URL]",
		"drawing 7":                                                               "drawing%207",
	}
	for source, shown := range sources {
		h.register(source, "gone.pdf", "")
		delete(h.files, "gone.pdf")
		h.client("POST", "/viewer/exports/download-batch", batchBody(source)).wantError(502, "export_failed")
		h.client("POST", "/viewer/exports/download", exportBody(source)).wantError(502, "export_failed")
		h.send("POST", "/viewer/exports/download", exportBody(source), "x-api-key", h.token(`{"sources":["other"]}`)).wantError(403, "forbidden")
		h.wantLog(shown)
	}
	before := len(h.log.String())
	h.client("POST", "/viewer/exports/download-batch", batchBody(slices.Repeat([]string{"drawing 7"}, 6)...)).wantError(502, "export_failed")
	is.New(t).Equal(strings.Count(h.log.String()[before:], "drawing%207"), 5) // the first ones
	is.New(t).True(!strings.Contains(h.log.String(), "secret"))
}

func TestLog_FailuresNameTheRequest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/unavailable":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/truncated":
			w.Header().Set("Content-Length", "10000000")
			w.Write(make([]byte, 5_000_000))
		}
	}))
	t.Cleanup(origin.Close)
	h := serve(t, func(o *httpapi.Options) {
		fetcher := must(fetch.New(&fetch.Options{
			AllowedHosts: []string{strings.TrimPrefix(origin.URL, "http://")}, MaxAttempts: 2,
			Logger: o.Logger, RequestID: httpapi.RequestIDFromContext,
		}))(t)
		withOpener(fetcher)(o)
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) error {
			if r.Header.Get("X-Panic") != "" {
				panic("a bug in Authorize")
			}
			return nil
		}
	})
	t.Cleanup(transport.CloseIdleConnections)
	for _, name := range []string{"unavailable", "truncated", "empty"} {
		h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"`+name+`","exportedUrl":"`+origin.URL+"/"+name+`"}`).want(201)
	}
	send := func(id, path, body string, headers ...string) {
		response, err := h.try("POST", path, body, append(headers, "X-Request-Id", id, "X-Api-Key", h.rawKey)...)
		if err == nil { // or it was aborted
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	send("failed", "/viewer/exports/download", exportBody("unavailable"))
	send("skipped", "/viewer/exports/download-batch", batchBody("empty", "unavailable"))
	send("aborted", "/viewer/exports/download", exportBody("truncated"))
	send("panic", "/viewer/exports/download", "", "X-Panic", "1")

	h.wantLog(
		`msg="request failed" method=POST route=/viewer/exports/download status=502 keyId=1 requestId=failed duration=`,
		`msg="files skipped" method=POST route=/viewer/exports/download-batch status=200 keyId=1 requestId=skipped duration=`,
		`msg="response aborted" method=POST route=/viewer/exports/download status=200 keyId=1 requestId=aborted duration=`,
		`msg="panic in handler" method=POST route=/viewer/exports/download status=500 keyId=1 requestId=panic duration=`,
	)
	retries := regexp.MustCompile(`msg="retrying fetch" .*requestId=(\w+)`).FindAllStringSubmatch(h.log.String(), -1)
	is.Equal(len(retries), 2)
	is.Equal(retries[0][1], "failed")
	is.Equal(retries[1][1], "skipped")
}
