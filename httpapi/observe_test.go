package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
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
	for range 1000 {
		o.mu.Lock()
		if len(o.list) == count {
			defer o.mu.Unlock()
			return o.list[count-1]
		}
		o.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%d observations, want %d", len(o.list), count)
	return httpapi.Observation{}
}

func TestObserve_CalledOncePerRequest(t *testing.T) {
	t.Parallel()
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
		{"POST", "/api/symbol/folders", `{"name":"A"}`, []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders", Status: 201, KeyID: 1}},
		{"GET", "/api/symbol/folders/1", "", []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders/{id}", Status: 200, KeyID: 1}},
		{"GET", "/api/symbol/folders/77", "", []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders/{id}", Status: 404, KeyID: 1}},
		{"GET", "/api/symbol/folders/1", "", nil, httpapi.Observation{Route: "/symbol/folders/{id}", Status: 401}},
		{"GET", "/api/admin/api-keys", "", []string{"x-admin-key", adminKey}, httpapi.Observation{Route: "/admin/api-keys", Status: 200}},
		{"PUT", "/api/symbol/folders/1", "", nil, httpapi.Observation{Route: "/symbol/folders/{id}", Status: 405}},
		{"BREW", "/api/symbol/folders", "", nil, httpapi.Observation{Method: "OTHER", Route: "/symbol/folders", Status: 405}},
		{"GET", "/api/nope/77", "", nil, httpapi.Observation{Status: 404}},
		{"GET", "/other", "", nil, httpapi.Observation{Status: 404}},
		{"OPTIONS", "/api/symbol/folders", "", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET"}, httpapi.Observation{Status: 204}},
		{"HEAD", "/api/symbol/folders", "", []string{"x-api-key", h.rawKey}, httpapi.Observation{Route: "/symbol/folders", Status: 200, KeyID: 1}},
	} {
		before := time.Now()
		response := h.send(c.method, c.path, c.body, c.headers...)
		got := seen.last(t, i+1)
		if got.Duration <= 0 || got.Duration > time.Minute || got.Start.Before(before.Add(-time.Second)) || got.Start.After(time.Now()) {
			t.Errorf("%s %s: started %v, took %v", c.method, c.path, got.Start, got.Duration)
		}
		if got.Bytes != int64(len(response.body)) && c.method != "HEAD" {
			t.Errorf("%s %s: %d bytes observed, %d received", c.method, c.path, got.Bytes, len(response.body))
		}
		if c.want.Method == "" {
			c.want.Method = c.method
		}
		c.want.Bytes, c.want.Start, c.want.Duration, c.want.RequestID = got.Bytes, got.Start, got.Duration, response.header.Get("X-Request-Id")
		if got != c.want {
			t.Errorf("%s %s: observed %+v, want %+v", c.method, c.path, got, c.want)
		}
	}
}

func TestObserve_PanicsAndAbortedResponses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h, store, otherProcess := serveSymbols(t, 0, func(options *httpapi.Options) { options.Observe = seen.observe })
	createFolder(t, otherProcess, "A", 30, 200_000)
	store.onRead(func(int64) error { panic("a bug in a driver") })
	h.client("GET", "/symbol/folders/1/symbols", "").wantError(500, "internal")
	got := seen.last(t, 1)
	is.Equal(got.Status, 500)
	is.Equal(got.Aborted, false)

	store.onRead(func(after int64) error {
		if after > 25 {
			return errors.New("no connection")
		}
		return nil
	})
	h.client("GET", "/symbol/folders/1", "").want(200)
	request, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/symbol/folders/1/symbols", nil)
	is.NoErr(err)
	request.Header.Set("x-api-key", h.rawKey)
	if response, err := transport.RoundTrip(request); err == nil {
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	got = seen.last(t, 3)
	is.Equal(got.Status, 200)
	is.True(got.Aborted)
	is.True(got.Bytes > 1<<20)
}

func TestObserve_PanicPropagates(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(options *httpapi.Options) {
		options.Observe = func(context.Context, httpapi.Observation) { panic("a bug in Observe") }
	})
	defer func() { is.New(t).Equal(recover(), "a bug in Observe") }()
	httpapi.Handler(h.options).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/nope", nil))
}
