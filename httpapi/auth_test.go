package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// TestAdminKey has two keys, and keys that are nearly right. TestAuth_AllRoutesAndCredentials
// has other credentials.
func TestAdminKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { o.AdminKeys = []string{"", "first", "second"} })
	for _, valid := range []string{"first", "second"} {
		h.send("GET", "/admin/api-keys", "", "x-admin-key", valid).want(200)
		h.send("GET", "/admin/api-keys", "", "X-ADMIN-KEY", valid).want(200)
	}
	for _, headers := range [][]string{
		nil,
		{"x-admin-key", "firs"},
		{"x-admin-key", "firstt"},
		{"x-admin-key", "First"},
		{"x-admin-key", "first", "x-admin-key", "second"},
		{"x-admin-key2", "first"},
		{"Authorization", "first"},
	} {
		response := h.send("GET", "/admin/api-keys", "", headers...).wantError(401, "unauthorized")
		response.wantHeaders("WWW-Authenticate", `ApiKey header="x-admin-key"`)
	}
	is.True(!strings.Contains(h.log.String(), "firstt")) // keys are not logged
	is.Equal(h.send("GET", "/admin/api-keys", "", "x-api-key", "first").message(), "x-admin-key is missing or sent more than once")
	is.Equal(h.send("GET", "/admin/api-keys", "", "x-admin-key", h.rawKey).message(), "x-admin-key is not a valid key")

	h = serve(t, func(o *httpapi.Options) { o.AdminKeys = []string{""} })
	response := h.send("GET", "/admin/api-keys", "", "x-admin-key", "").wantError(403, "forbidden")
	is.True(strings.Contains(response.message(), "no admin key is configured"))
}

// foreignKey returns a well-formed raw key of another installation.
func foreignKey(t *testing.T) string {
	t.Helper()
	service := must(keys.NewService(memory.New().Keys(), nil))(t)
	return string(must(service.Create(t.Context(), keys.Fields{}))(t).Raw)
}

// findHook is a store that calls a function before it reads a key.
type findHook struct {
	keys.Store
	before func(ctx context.Context) error
}

func (s findHook) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	if err := s.before(ctx); err != nil {
		return keys.Key{}, err
	}
	return s.Store.Find(ctx, digest)
}

// failingKeys is a store whose reads fail.
var failingKeys = findHook{memory.New().Keys(), func(context.Context) error {
	return errors.New("dial tcp 10.0.0.1:5432: secret detail")
}}

func TestRateLimit_LimitsWrongKeysOnly(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) {
		o.Limits.WrongKeys = httpapi.RateLimit{Burst: 3, Interval: time.Minute}
		o.ClientIP = func(r *http.Request) string { return r.Header.Get("X-Real-IP") }
	})
	send := func(ip, header, key string) response {
		return h.send("GET", map[string]string{"x-api-key": "/symbol/folders", "x-admin-key": "/admin/api-keys"}[header], "", header, key, "X-Real-IP", ip)
	}
	send("a", "x-api-key", "junk").wantError(401, "unauthorized")
	send("a", "x-api-key", foreignKey(t)).wantError(401, "unauthorized")
	send("a", "x-api-key", "wrong").wantError(401, "unauthorized")
	send("a", "x-api-key", "wrong").wantError(429, "too_many_requests")
	for range 3 { // counted apart
		send("a", "x-admin-key", "wrong").wantError(401, "unauthorized")
	}
	for _, header := range []string{"x-api-key", "x-admin-key"} {
		send("a", header, "wrong").wantError(429, "too_many_requests").wantRetryAfter(time.Minute)
	}
	send("a", "x-api-key", h.rawKey).want(200) // valid keys pass
	useUp := func(ip string) {                 // responses after three rejections are delayed
		for range 3 {
			send(ip, "x-api-key", "wrong").wantError(401, "unauthorized")
			send(ip, "x-admin-key", "wrong").wantError(401, "unauthorized")
		}
	}
	useUp("d")
	send("d", "x-admin-key", adminKey).wantError(429, "too_many_requests") // a response does not reveal whether a key is one
	send("b", "x-admin-key", adminKey).want(200)
	send("d", "x-admin-key", h.rawKey).wantError(429, "too_many_requests") // but not in the other header
	send("d", "x-api-key", adminKey).wantError(429, "too_many_requests")
	send("b", "x-admin-key", "wrong").wantError(401, "unauthorized")                      // other clients
	h.send("GET", "/symbol/folders", "", "X-Real-IP", "a").wantError(401, "unauthorized") // a missing key does not count

	send("c", "x-admin-key", adminKey).want(200)
	useUp("c")
	send("c", "x-admin-key", adminKey).want(200) // was used rightly by this IP before
	send("c", "x-admin-key", "wrong").wantError(429, "too_many_requests")
}

// wantScope returns the scope that a route requires of the client key.
func wantScope(key, method, path string) string {
	switch {
	case key != "x-api-key", path == "/viewer/tokens", path == "/viewer/key":
		return ""
	case strings.HasSuffix(path, "/register"):
		return "exports:register"
	case strings.HasPrefix(path, "/viewer/"):
		return "exports:read"
	case (method == "GET" || method == "HEAD") && path != "/symbol/trash":
		return "symbols:read"
	}
	return "symbols:write"
}

// scopes returns the scopes of a valid list; nil permits everything.
func scopes(list ...string) *keys.Scopes {
	if list == nil {
		return new(keys.Scopes)
	}
	return new(valid(keys.NewScopes(list...)))
}

// TestScopes_AllRoutes sends every method to every route with a key of every set of
// scopes, and compares the statuses with a model. Bodies and ids are malformed, and
// there is no admin key and no link. Methods without a route get every eighth key.
func TestScopes_AllRoutes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	all := []string{"exports:read", "exports:register", "symbols:read", "symbols:write", "symbols", "app:own"}
	var sets [][]string
	for bits := range 1 << len(all) {
		set := []string{}
		for i, scope := range all {
			if bits>>i&1 == 1 {
				set = append(set, scope)
			}
		}
		sets = append(sets, set)
	}
	sets = append(sets, nil)
	routes := httpapi.Routes(&h.options)
	for i, set := range sets {
		key := must(h.options.Keys.Create(t.Context(), keys.Fields{Scopes: scopes(set...)}))(t)
		uses := int64(0)
		for _, route := range routes {
			is.Equal(route.Scope, wantScope(route.Key, route.Method, route.Path))
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				allowed := slices.ContainsFunc(routes, func(r httpapi.Route) bool {
					return r.Path == route.Path && (r.Method == method || r.Method == "GET" && method == "HEAD")
				})
				target := strings.ReplaceAll(route.Path, "{id}", "x")
				scope := wantScope(route.Key, method, route.Path)
				permitted := set == nil || slices.Contains(set, scope)
				want := 400
				switch {
				case !allowed && i%8 != 0:
					continue
				case !allowed:
					want = 405
				case route.Key == "x-admin-key":
					want = 401
				case strings.Contains(route.Path, "{token}"):
					want = 404
				case route.Path == "/viewer/tokens", route.Path == "/viewer/key/revoke":
					want = 400
				case scope == "":
					want = 200
				case !permitted:
					want = 403
				case target == route.Path && target != "/symbol/search" && (method == "GET" || method == "HEAD"): // a search needs q
					want = 200
				}
				if allowed && permitted && scope != "" {
					uses++
				}
				got := h.send(method, target, "[", "x-api-key", string(key.Raw), "Content-Type", "application/json")
				if got.status != want {
					t.Errorf("%s %s with scopes %v: %d, want %d", method, target, set, got.status, want)
				}
				if got.status == 403 && method != "HEAD" && !strings.Contains(got.wantError(403, "forbidden").message(), scope) {
					t.Errorf("%s %s: message %q does not name %s", method, target, got.message(), scope)
				}
			}
		}
		record := must(h.options.Keys.Get(t.Context(), key.Key.ID))(t)
		is.Equal(record.UseCount, uses) // a 403 is no use
	}
}

func TestScopes_OpenRoutesNeedNone(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) { o.DangerouslySkipClientKeys = true })
	raw, _ := h.admin("POST", "/admin/api-keys", `{"scopes":[]}`).want(201).object()["apiKey"].(string)
	h.send("GET", "/symbol/folders", "", "x-api-key", raw).want(200)
}

func TestRequireScope(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t, func(o *httpapi.Options) { o.AllowedOrigins = []string{"*"} })
	api := must(httpapi.New(&h.options))(t)
	mux := http.NewServeMux()
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("own")) })
	mux.Handle("GET /own", api.RequireScope("app:own")(own))
	mux.Handle("GET /nested", api.RequireClientKey(api.RequireScope("app:own")(own)))
	mux.HandleFunc("GET /gin", func(w http.ResponseWriter, r *http.Request) {
		if r, ok := api.Authenticate(w, r, "app:other", "app:own"); ok {
			own(w, r)
		}
	})
	mux.Handle("/", api.RequireScope("app:own")(api))
	h.listen(mux)
	for _, path := range []string{"/own", "/nested", "/gin", "/symbol/folders"} {
		h.client("GET", path, "").want(200) // permits everything
	}
	must(h.options.Keys.Update(t.Context(), 1, keys.Fields{Scopes: scopes("symbols:read")}))(t)
	for _, path := range []string{"/own", "/nested", "/gin", "/symbol/folders"} {
		response := h.client("GET", path, "").wantError(403, "forbidden")
		is.True(strings.Contains(response.message(), "app:o"))
	}
	must(h.options.Keys.Update(t.Context(), 1, keys.Fields{Scopes: scopes("app:own")}))(t)
	h.client("GET", "/own", "").want(200)
	h.client("GET", "/nested", "").want(200)
	h.client("GET", "/gin", "").want(403)
	is.True(strings.Contains(h.client("GET", "/symbol/folders", "").wantError(403, "forbidden").message(), "symbols:read"))
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var calls []string
	var deny error
	h := serve(t, func(o *httpapi.Options) {
		o.Authorize = func(r *http.Request, key keys.Key, route string) error {
			calls = append(calls, fmt.Sprint(r.Method, " ", route, " ", key.ID, " ", r.PathValue("id")))
			return deny
		}
	})
	h.client("GET", "/symbol/folders", "").want(200)
	h.client("GET", "/symbol/folders/7", "").want(404)
	h.send("GET", "/symbol/folders", "", "x-api-key", "wrong").want(401)
	h.admin("GET", "/admin/api-keys", "").want(200)
	is.Equal(calls, []string{"GET /symbol/folders 1 ", "GET /symbol/folders/{id} 1 7"})

	deny = fmt.Errorf("a secret of the application: %w", keys.ErrUnknown) // does not select the response
	response := h.client("GET", "/symbol/folders", "").wantError(403, "forbidden")
	is.True(!strings.Contains(string(response.body), "secret"))
	h.wantLog("a secret of the application")
	is.Equal(strings.Count(h.log.String(), "level=WARN"), 1) // a failure or a rejection
	for _, unavailable := range []error{keys.ErrUnavailable, symbols.ErrUnavailable, exports.ErrUnavailable} {
		deny = fmt.Errorf("%w: %w", unavailable, keys.ErrUnknown)
		h.client("GET", "/symbol/folders", "").wantError(503, "unavailable")
	}
	deny = fmt.Errorf("tenant: %w", &httpapi.DeniedError{Message: "not your folder"})
	is.Equal(h.client("GET", "/symbol/folders/x", "").wantError(403, "forbidden").message(), "not your folder")
	deny = &httpapi.DeniedError{Message: "quota exceeded", RetryAfter: 1500 * time.Millisecond}
	response = h.client("POST", "/symbol/folders", "[").wantError(429, "too_many_requests")
	is.Equal(response.message(), "quota exceeded")
	response.wantHeaders("Retry-After", "2")
	deny = &httpapi.DeniedError{}
	is.True(h.client("GET", "/symbol/folders", "").wantError(403, "forbidden").message() != "")
	is.Equal(h.admin("GET", "/admin/api-keys/1", "").object()["useCount"], 2.0) // denied requests are no uses
}

func TestAuthorize_CannotReadBody(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) {
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) error {
			body, err := io.ReadAll(r.Body)
			is.Equal(string(body), "")
			is.True(err != nil)
			r.Body = io.NopCloser(strings.NewReader(`{"name":"other"}`))
			return nil
		}
	})
	is.Equal(h.client("POST", "/symbol/folders", `{"name":"a"}`).want(201).object()["name"], "a")
	h.client("POST", "/symbol/folders", `{"name":"`+strings.Repeat("x", 2<<20)+`"}`).want(413)
}

func TestAuthenticateAdmin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h := serve(t, func(o *httpapi.Options) {
		o.AdminKeys = nil
		o.Observe = seen.observe
		o.AllowedOrigins = []string{"https://viewer.example"}
		o.AuthenticateAdmin = func(r *http.Request) (string, error) {
			switch user := r.Header.Get("X-User"); user {
			case "":
				return "", errors.New("no session")
			case "unknown":
				return "", fmt.Errorf("find session: %w", keys.ErrUnavailable)
			case "eve":
				return "", &httpapi.DeniedError{Message: "eve is no administrator"}
			default:
				return user, nil
			}
		}
	})
	denied := h.send("GET", "/admin/api-keys", "").wantError(401, "unauthorized")
	is.True(denied.header.Get("WWW-Authenticate") != "")
	is.True(!strings.Contains(string(denied.body), "session"))
	h.admin("GET", "/admin/api-keys", "").want(401) // no admin key is accepted
	is.Equal(h.send("GET", "/admin/api-keys", "", "X-User", "eve").wantError(403, "forbidden").message(), "eve is no administrator")
	h.send("GET", "/admin/api-keys", "", "X-User", "ann").want(200)
	is.Equal(seen.last(t, 4).Actor, "ann")

	post := func(headers ...string) response {
		return h.send("POST", "/admin/api-keys", "", append(headers, "X-User", "ann")...)
	}
	post().want(201)
	post("Sec-Fetch-Site", "same-origin").want(201)
	post("Sec-Fetch-Site", "none").want(201)
	for _, site := range []string{"cross-site", "same-site"} {
		post("Sec-Fetch-Site", site).wantError(403, "forbidden")
		post("Sec-Fetch-Site", site, "Origin", "https://viewer.example").wantError(403, "forbidden") // CORS is for client routes
		h.send("GET", "/admin/api-keys", "", "Sec-Fetch-Site", site, "X-User", "ann").want(200)
	}
	post("Origin", "https://evil.example").wantError(403, "forbidden")
	h.send("GET", "/admin/api-keys", "", "X-User", "unknown").wantError(503, "unavailable")
}
