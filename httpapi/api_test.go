package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
)

func TestNew_ValidatesOptions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, origin := range []string{
		"*", "null", "https://viewer.example", "https://viewer.example/", "HTTP://Viewer.Example:8080", "http://127.0.0.1", "http://[::1]:81", "capacitor://localhost",
	} {
		t.Log(origin)
		must(httpapi.New(&httpapi.Options{AllowedOrigins: []string{origin}}))(t)
	}
	for _, origin := range []string{
		"", "viewer.example", "https://", "https://*.viewer.example", "https://viewer.example/path", "https://viewer.example?", "https://viewer.example#",
		"https://user@viewer.example", "https://viewer.example:", "//viewer.example", "https://viewer.example, https://other.example", "NULL", "mailto:x", "https://a b",
		"https://viewer.example:443", "http://[::1]:80/", "https://bücher.example",
	} {
		t.Log(origin)
		_, err := httpapi.New(&httpapi.Options{AllowedOrigins: []string{"https://viewer.example", origin}})
		is.True(err != nil && strings.Contains(err.Error(), fmt.Sprintf("%q", origin)))
	}
	for _, url := range []string{
		"canvas.example", "ftp://canvas.example", "https://", "https://u@canvas.example",
		"https://canvas.example?x", "https://canvas.example/#", ":",
	} {
		_, err := httpapi.New(&httpapi.Options{PublicURL: url})
		is.True(err != nil && strings.Contains(err.Error(), "PublicURL"))
	}
	for _, who := range []httpapi.RegisterWith{-1, httpapi.RegisterOff + 1} {
		_, err := httpapi.New(&httpapi.Options{RegisterWith: who})
		is.True(err != nil)
	}
	for key, valid := range map[string]bool{"key": false, "": true} {
		t.Log(key)
		_, err := httpapi.New(&httpapi.Options{
			AdminKeys:         []string{key},
			AuthenticateAdmin: func(*http.Request) (string, error) { return "", nil },
		})
		is.Equal(err == nil, valid)
	}
}

func TestHandler_PanicsOnInvalidOptions(t *testing.T) {
	t.Parallel()
	defer func() { is.New(t).True(recover() != nil) }()
	httpapi.Handler(&httpapi.Options{AllowedOrigins: []string{"viewer.example"}})
}

func TestAPI_DoesNotPrintAdminKeys(t *testing.T) {
	t.Parallel()
	api := must(httpapi.New(&httpapi.Options{AdminKeys: []string{"secret"}}))(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		out := fmt.Sprintf(verb, api) + fmt.Sprintf(verb, *api)
		t.Log(verb, out)
		is.New(t).True(!strings.Contains(out, "secret") && !strings.Contains(out, fmt.Sprintf("%x", "secret")))
	}
}

func TestConfigureServer_FillsUnsetFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var server http.Server
	httpapi.ConfigureServer(&server)
	is.Equal(server.ReadHeaderTimeout, 10*time.Second)
	is.Equal(server.ReadTimeout, 5*time.Minute)
	is.Equal(server.WriteTimeout, 6*time.Minute)
	is.Equal(server.IdleTimeout, 2*time.Minute)
	is.Equal(server.MaxHeaderBytes, 64<<10)
	is.Equal(server.HTTP2.WriteByteTimeout, time.Minute)
	is.Equal(server.HTTP2.SendPingTimeout, time.Minute)
	is.Equal(server.HTTP2.MaxConcurrentStreams, 100)

	client, conn := net.Pipe()
	defer client.Close()
	defer conn.Close()
	fromConnContext := server.ConnContext(t.Context(), conn)
	is.True(fromConnContext != t.Context())

	type key struct{}
	server = http.Server{
		ReadHeaderTimeout: 1, ReadTimeout: 2, WriteTimeout: 3, IdleTimeout: 4, MaxHeaderBytes: 5,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) },
	}
	httpapi.ConfigureServer(&server)
	is.Equal([]any{server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout, server.MaxHeaderBytes},
		[]any{time.Duration(1), time.Duration(2), time.Duration(3), time.Duration(4), 5})
	ctx := server.ConnContext(t.Context(), conn)
	is.Equal(ctx.Value(key{}), conn) // it is still called
	is.Equal(fmt.Sprintf("%T", ctx), fmt.Sprintf("%T", fromConnContext))
}

// appServer mounts the API below /api/ beside routes of an application.
func appServer(t *testing.T, h *harness) {
	t.Helper()
	h.options.Prefix = "/api"
	api := must(httpapi.New(&h.options))(t)
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, ok := httpapi.KeyFromContext(r.Context())
		fmt.Fprint(w, "hello ", key.Name, " ", ok, " ", key.LastUsedAt.UnixMilli())
	})
	mux := http.NewServeMux()
	mux.Handle("/api/", api)
	mux.Handle("/protected/", http.StripPrefix("/protected", api.RequireClientKey(api)))
	mux.Handle("/things/{id}", api.RequireClientKey(hello))
	mux.Handle("GET /abort", api.RequireClientKey(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "incompl")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})))
	mux.Handle("GET /hijack", api.RequireClientKey(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		conn.Close()
	})))
	mux.HandleFunc("GET /own/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r, ok := api.Authenticate(w, r); ok {
			hello(w, r)
		}
	})
	h.listen(mux)
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	h.options.AllowedOrigins = []string{"https://viewer.example"}
	appServer(t, h)
	for _, path := range []string{"/own/7", "/things/7"} {
		hello := fmt.Sprint("hello API key true ", h.clock.Now().UnixMilli())
		accepted := h.client("GET", path, "").wantBody(200, hello)
		accepted.wantHeaders("Cache-Control", "private, no-cache")
		is.Equal(accepted.header.Values("Vary"), []string{"Origin", "X-Api-Key"})
		rejected := h.send("GET", path, "", "Origin", "https://viewer.example", "x-api-key", "wrong").wantError(401, "unauthorized")
		is.Equal(rejected.message(), "x-api-key is not a valid key")
		rejected.wantHeaders("WWW-Authenticate", `ApiKey header="x-api-key"`,
			"Access-Control-Allow-Origin", "https://viewer.example",
			"Cache-Control", "no-store")
	}
	h.send("OPTIONS", "/things/7", "", "Origin", "https://viewer.example", "Access-Control-Request-Method", "GET").want(204)
	h.admin("PATCH", "/api/admin/api-keys/1", `{"isActive":false}`).want(200)
	h.client("GET", "/own/7", "").wantError(403, "forbidden")
}

func TestAuthenticate_WithoutProtection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t, func(o *httpapi.Options) { o.DangerouslySkipClientKeys = true })
	appServer(t, h)
	for _, path := range []string{"/own/7", "/things/7"} {
		open := h.send("GET", path, "").want(200)
		is.True(strings.HasPrefix(string(open.body), "hello  false "))
		open.wantHeaders("Cache-Control", "")
	}
	h.send("POST", "/things/7", "").want(200)
	h.send("POST", "/things/7", "", "Origin", "https://evil.example").wantError(403, "forbidden")
	_, ok := httpapi.KeyFromContext(t.Context()) // of a request that no API has seen
	is.True(!ok)
}

func TestAuthenticate_SharesTheRateLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(o *httpapi.Options) { o.Limits.WrongKeys = httpapi.RateLimit{Burst: 3, Interval: time.Hour} })
	appServer(t, h)
	paths := []string{"/own/7", "/things/7", "/api/symbol/folders"}
	for _, path := range paths {
		h.send("GET", path, "", "x-api-key", "wrong").wantError(401, "unauthorized")
	}
	for _, path := range paths {
		h.send("GET", path, "", "x-api-key", "wrong").wantError(429, "too_many_requests")
		h.client("GET", path, "").want(200)
	}
}

func TestObserve_ApplicationRoutes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h := newHarness(t, func(o *httpapi.Options) { o.Observe = seen.observe })
	appServer(t, h)
	count := 0
	for _, c := range []struct {
		path, key string
		want      *httpapi.Observation
	}{
		{"/things/7", h.rawKey, &httpapi.Observation{Route: "/things/{id}", Status: 200, KeyID: 1}},
		{"/things/7", "wrong", &httpapi.Observation{Route: "/things/{id}", Status: 401}},
		{"/own/7", h.rawKey, nil}, // only rejected requests are observed
		{"/own/7", "wrong", &httpapi.Observation{Route: "GET /own/{id}", Status: 401}},
		{"/protected/symbol/folders", h.rawKey, &httpapi.Observation{Route: "/protected/", Status: 404, KeyID: 1}}, // not below the prefix
		{"/protected/api/symbol/folders", h.rawKey, &httpapi.Observation{Route: "/symbol/folders", Status: 200, KeyID: 1}},
		{"/abort", h.rawKey, &httpapi.Observation{Route: "GET /abort", Status: 200, KeyID: 1, Aborted: true}},
		{"/hijack", h.rawKey, &httpapi.Observation{Route: "GET /hijack", KeyID: 1}},
	} {
		t.Log(c.path)
		response := h.open("GET", c.path, "", "x-api-key", c.key)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if c.want == nil {
			continue
		}
		count++
		got := seen.last(t, count)
		is.Equal(got.Bytes, int64(len(body)))
		is.Equal(err != nil, c.want.Aborted)
		c.want.Method, c.want.Bytes, c.want.Start, c.want.Duration, c.want.RequestID = "GET", got.Bytes, got.Start, got.Duration, got.RequestID
		c.want.ClientIP = "127.0.0.1"
		switch {
		case c.want.KeyID != 0:
			c.want.Actor = "key 1"
		case c.want.Status == 401:
			c.want.Code = "unauthorized"
		}
		if c.want.Status == 404 {
			c.want.Code = "not_found"
		}
		is.Equal(got, *c.want)
	}
}

func TestAuthenticate_HidesKeys(t *testing.T) {
	t.Parallel()
	var seen observer
	h := newHarness(t, func(o *httpapi.Options) { o.Observe = seen.observe })
	api := must(httpapi.New(&h.options))(t)
	inspect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			for _, v := range []any{r, *r, r.Header, r.Context(), w} {
				out := fmt.Sprintf(verb, v)
				for _, secret := range []string{h.rawKey, adminKey, fmt.Sprintf("%x", h.rawKey), fmt.Sprintf("%x", adminKey)} {
					if strings.Contains(out, secret) {
						t.Errorf("%s of %T has a key: %s", verb, v, out)
					}
				}
			}
		}
	})
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Api-Key", h.rawKey)
	r.Header.Set("X-Admin-Key", adminKey)
	api.RequireClientKey(inspect).ServeHTTP(httptest.NewRecorder(), r)
	httpapi.HideKeys(inspect).ServeHTTP(httptest.NewRecorder(), r)
	httpapi.HideKeys(api.RequireClientKey(inspect)).ServeHTTP(httptest.NewRecorder(), r)
	own, ok := api.Authenticate(httptest.NewRecorder(), r)
	is.New(t).True(ok)
	inspect(httptest.NewRecorder(), own)
}

// TestServeHTTP_ModifiesNoRequest: a caller may serve a request again.
func TestServeHTTP_ModifiesNoRequest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t, func(o *httpapi.Options) { o.Prefix = "/api" })
	api := must(httpapi.New(&h.options))(t)
	r := httptest.NewRequest("GET", "/api/symbol/folders", nil)
	r.Header.Set("X-Api-Key", h.rawKey)
	r.Header.Set("X-Admin-Key", adminKey)
	header, u, ctx := r.Header.Clone(), *r.URL, r.Context()
	for range 3 {
		for _, handler := range []http.Handler{api, api.RequireClientKey(api), httpapi.HideKeys(api)} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			is.Equal(w.Code, 200)
			is.Equal(r.Header, header)
			is.Equal(*r.URL, u)
			is.Equal(r.Context(), ctx)
			is.Equal(r.Pattern, "GET /api/symbol/folders") // as http.ServeMux sets it
		}
		_, ok := api.Authenticate(httptest.NewRecorder(), r)
		is.True(ok)
		is.Equal(r.Header, header)
	}
}

// TestAuthenticate_Nested: an application may check keys in front of the API, and
// replace them in between.
func TestAuthenticate_Nested(t *testing.T) {
	t.Parallel()
	h, other := newHarness(t), newHarness(t)
	first, second := must(httpapi.New(&h.options))(t), must(httpapi.New(&other.options))(t)
	replaceKeys := func(client, admin string, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if client != "" {
				r.Header.Set("X-Api-Key", client)
			}
			if admin != "" {
				r.Header.Set("X-Admin-Key", admin)
			}
			next.ServeHTTP(w, r)
		})
	}
	for name, c := range map[string]struct {
		handler http.Handler
		path    string
		status  int
	}{
		"same API":                    {first.RequireClientKey(first), "/symbol/folders", 200},
		"same API, admin route":       {first.RequireClientKey(first), "/admin/api-keys", 200},
		"twice":                       {first.RequireClientKey(first.RequireClientKey(first)), "/symbol/folders", 200},
		"another API":                 {first.RequireClientKey(second), "/symbol/folders", 401},
		"another API, its key":        {first.RequireClientKey(replaceKeys(other.rawKey, "", second)), "/symbol/folders", 200},
		"another API, its admin key":  {first.RequireClientKey(second), "/admin/api-keys", 200},
		"a wrong key replaces it":     {first.RequireClientKey(replaceKeys("wrong", "", first)), "/symbol/folders", 401},
		"client key replaced":         {first.RequireClientKey(replaceKeys(h.rawKey, "", first)), "/admin/api-keys", 200},
		"admin key replaced":          {first.RequireClientKey(replaceKeys("", "wrong", first)), "/admin/api-keys", 401},
		"admin key replaced, clients": {first.RequireClientKey(replaceKeys("", "wrong", first)), "/symbol/folders", 200},
	} {
		recorder := serveOnce(c.handler, "GET", c.path, "", "x-api-key", h.rawKey, "x-admin-key", adminKey)
		t.Log(name, recorder.Body)
		is.New(t).Equal(recorder.Code, c.status)
	}
}

func TestRequireClientKey_RevokedBeforeAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	api := must(httpapi.New(&h.options))(t)
	h.listen(api.RequireClientKey(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := httpapi.KeyFromContext(r.Context())
		is.New(t).NoErr(h.options.Keys.Delete(r.Context(), key.ID))
		api.ServeHTTP(w, r)
	})))
	h.client("GET", "/symbol/folders", "").wantError(401, "unauthorized")
}

// TestHideKeys_BehindRequireClientKey checks that it does not hide which key was verified.
func TestHideKeys_BehindRequireClientKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h := newHarness(t, func(o *httpapi.Options) { o.Observe = seen.observe })
	api := must(httpapi.New(&h.options))(t)
	h.listen(api.RequireClientKey(httpapi.HideKeys(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := httpapi.KeyFromContext(r.Context())
		is.Equal(key.ID, int64(1))
		api.ServeHTTP(w, r)
	}))))
	h.client("GET", "/symbol/folders", "").want(200)
	is.Equal(seen.last(t, 1).KeyID, int64(1))
	key := must(h.options.Keys.Get(t.Context(), 1))(t)
	is.Equal(key.UseCount, int64(1))
}

func TestObserve_KeyBehindOpenMiddleware(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h := newHarness(t, func(o *httpapi.Options) { o.DangerouslySkipClientKeys, o.Observe = true, seen.observe })
	api := must(httpapi.New(&h.options))(t)
	h.listen(api.RequireClientKey(api))
	token := h.token("")
	is.Equal(seen.last(t, 1).KeyID, int64(1))
	h.send("GET", "/viewer/key", "", "x-api-key", token).want(200)
	is.Equal(len(seen.last(t, 2).TokenID), 8)
}

func TestAPI_SetsPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prefix, path, want string }{
		{"", "/symbol/folders/3", "GET /symbol/folders/{id}"},
		{"/api/v1", "/api/v1/symbol/folders/3", "GET /api/v1/symbol/folders/{id}"},
		{"/api/v1", "/api/v1/nope", "/api/v1/"},
		{"/api/v1", "/nope", ""},
	} {
		t.Log(c.path, c.prefix)
		h := newHarness(t, func(options *httpapi.Options) { options.Prefix = c.prefix })
		request := httptest.NewRequest("GET", c.path, nil)
		httpapi.Handler(&h.options).ServeHTTP(httptest.NewRecorder(), request)
		is.New(t).Equal(request.Pattern, c.want)
	}
}

func TestOptions_FormatRedactsAdminKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	options := httpapi.Options{AdminKeys: []string{"first-secret", "second-secret"}, Prefix: "/shown"}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb, options)
		fmt.Fprintf(&out, verb, &options)
		fmt.Fprintf(&out, verb, struct{ Options httpapi.Options }{options})
		fmt.Fprintf(&out, verb, []httpapi.Options{options})
	}
	fmt.Fprintln(&out, options, &options)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "options", options, "pointer", &options)
	}
	for _, secret := range []string{"secret", fmt.Sprintf("%x", "secret"), fmt.Sprintf("%X", "secret")} {
		is.True(!strings.Contains(out.String(), secret))
	}
	is.True(strings.Contains(out.String(), `Prefix:/shown`))
	is.True(strings.Contains(out.String(), `AdminKeys:[[admin key] [admin key]]`))
}
