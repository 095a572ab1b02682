package httpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
)

// token creates a page token.
func (h *harness) token(body string) string {
	h.t.Helper()
	token, _ := h.client("POST", "/viewer/tokens", body).want(201).object()["token"].(string)
	return token
}

func TestTokens_Create(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	got := h.client("POST", "/viewer/tokens", "").want(201)
	got.wantHeaders("Cache-Control", "no-store")
	out := got.object()
	is.True(strings.HasPrefix(out["token"].(string), "cbt_"))
	delete(out, "token")
	is.Equal(out, map[string]any{"expiresAt": "2026-03-30T11:00:01.000Z", "scopes": nil, "sources": nil})

	body := `{"expiresInSeconds":60,"scopes":["symbols:read"],"sources":["https://viewer.example/1"]}`
	out = h.client("POST", "/viewer/tokens", body).want(201).object()
	token := out["token"].(string)
	delete(out, "token")
	is.Equal(out, map[string]any{"expiresAt": "2026-03-30T10:01:01.000Z", "scopes": []any{"symbols:read"}, "sources": []any{"https://viewer.example/1"}})
	h.send("POST", "/viewer/tokens", "{}", "x-api-key", token).wantError(403, "forbidden")
	h.send("POST", "/viewer/tokens", "[", "x-api-key", token).wantError(403, "forbidden") // before the body
	h.send("POST", "/viewer/tokens", "{}").wantError(401, "unauthorized")

	for name, values := range map[string][]string{
		"expiresInSeconds": {"0", "-1", "86401", "1e30", "1.0", "null", "9223372036854"},
		"scopes":           {`["A"]`},
		"sources":          {`[]`, `[""]`, `[1]`, `"x"`, `["` + strings.Repeat("x", 4000) + `"]`},
	} {
		for _, value := range values {
			h.client("POST", "/viewer/tokens", `{"`+name+`":`+value+`}`).wantInvalid(name)
		}
	}
	must(h.options.Keys.Update(t.Context(), 1, keys.Fields{Scopes: scopes("symbols:read")}))(t)
	h.client("POST", "/viewer/tokens", `{"scopes":["symbols:read","symbols:write"]}`).wantError(403, "forbidden")
	is.Equal(h.client("POST", "/viewer/tokens", `{"scopes":null}`).want(201).object()["scopes"], []any{"symbols:read"})
	h.send("GET", "/symbol/folders", "", "x-api-key", token).want(200)
	h.client("POST", "/viewer/tokens", `{"scopes":[]}`).want(201)
}

func TestTokens_EndWithTheirTime(t *testing.T) {
	t.Parallel()
	h := serve(t)
	token := h.token(`{"expiresInSeconds":60}`)
	h.send("GET", "/symbol/folders", "", "x-api-key", token).want(200)
	h.clock.Add(61 * time.Second)
	for range 3 { // no wrong guess
		h.send("GET", "/symbol/folders", "", "x-api-key", token).wantError(403, "forbidden")
	}
	signed, signature, _ := strings.Cut(token, ".")
	h.send("GET", "/symbol/folders", "", "x-api-key", signed+"."+strings.Repeat("A", len(signature))).wantError(401, "unauthorized")
}

func TestOwnKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, open := range []bool{false, true} {
		h := serve(t, func(o *httpapi.Options) { o.DangerouslySkipClientKeys = open })
		own := func(key string) map[string]any {
			got := h.send("GET", "/viewer/key", "", "x-api-key", key).want(200)
			got.wantHeaders("Cache-Control", "no-store")
			return got.object()
		}
		null := map[string]any{
			"id": 1.0, "name": "API key", "owner": nil, "scopes": nil, "sources": nil, "expiresAt": nil, "isToken": false,
		}
		is.Equal(own(h.rawKey), null)
		must(h.options.Keys.Update(t.Context(), 1, keys.Fields{Owner: new("tenant 7"), Scopes: scopes("a", "b"), ExpiresAt: new(h.clock.Now().Add(time.Hour))}))(t)
		rotated := must(h.options.Keys.Rotate(t.Context(), 1, time.Minute))(t)
		is.Equal(own(h.rawKey)["expiresAt"], "2026-03-30T10:01:00.123Z") // the end of the overlap
		is.Equal(own(string(rotated.Raw))["expiresAt"], "2026-03-30T11:00:00.123Z")
		h.rawKey = string(rotated.Raw)
		is.Equal(own(h.token(`{"expiresInSeconds":5,"scopes":["b"],"sources":["x"]}`)), map[string]any{
			"id": 1.0, "name": "API key", "owner": "tenant 7", "scopes": []any{"b"}, "sources": []any{"x"},
			"expiresAt": "2026-03-30T10:00:06.000Z", "isToken": true,
		})
		key := must(h.options.Keys.Get(t.Context(), 1))(t)
		is.Equal(key.UseCount, int64(1)) // to make the token
		for _, wrong := range []string{"", "x", h.rawKey[:20]} {
			h.send("GET", "/viewer/key", "", "x-api-key", wrong).wantError(401, "unauthorized")
		}
	}
	h := serve(t, withKeys(failingKeys))
	unavailable := h.client("GET", "/viewer/key", "").wantError(503, "unavailable")
	is.True(unavailable.header.Get("Retry-After") != "")
	is.True(!strings.Contains(string(unavailable.body), "secret detail"))
	h.client("GET", "/symbol/folders", "").wantError(503, "unavailable")
	h.client("POST", "/viewer/tokens", "").wantError(503, "unavailable")
}

func TestTokens_Sources(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, source := range []string{"a", "b"} {
		h.register(source, source, "content of "+source)
	}
	token := h.token(`{"sources":[" a ","c"]}`)
	post := func(path, body string) response { return h.send("POST", path, body, "x-api-key", token) }
	const items = `{"items":[{"sourceFileUrl":"a"},{"sourceFileUrl":" %s "},{"sourceFileUrl":"b2"}]}`
	for path, bodies := range map[string][]string{
		"/viewer/exports/download":                         {`{"sourceFileUrl":"%s"}`},
		"/viewer/exports/download?responseType=urls":       {`{"sourceFileUrl":" %s"}`},
		"/viewer/exports/download-batch":                   {items},
		"/viewer/exports/download-batch?responseType=urls": {items},
		"/viewer/exports/links":                            {items, `{"sourceFileUrl":"%s"}`},
		"/viewer/exports/register":                         {`{"sourceFileUrl":"%s","exportedUrl":"` + filesURL + `b"}`},
	} {
		for _, body := range bodies {
			got := post(path, fmt.Sprintf(body, "b")).wantError(403, "forbidden")
			is.New(t).True(strings.HasSuffix(got.message(), "source b")) // names the first one
		}
	}
	post("/viewer/exports/download", `{"sourceFileUrl":"a"}`).want(200)
	post("/viewer/exports/download", `{"sourceFileUrl":"c"}`).want(404)
	post("/viewer/exports/download", `{"sourceFileUrl":" "}`).want(400) // unusable
	post("/viewer/exports/register", `{"sourceFileUrl":"c","exportedUrl":"`+filesURL+`b"}`).want(201)
	var link struct{ URL string }
	post("/viewer/exports/links", `{"items":[{"sourceFileUrl":"a"},{"sourceFileUrl":"c"}]}`).want(201).into(&link)
	h.clock.Add(2 * time.Hour)
	post("/viewer/exports/download", `{"sourceFileUrl":"a"}`).want(403) // the token has expired
	h.send("GET", "/viewer/exports/"+link.URL, "").want(200)            // outlives it
	must(h.options.Keys.Rotate(t.Context(), 1, 0))(t)
	h.send("GET", "/viewer/exports/"+link.URL, "").want(403) // ends with the raw key
}

// TestTokens_InURL checks the parameter token, which an img element needs.
func TestTokens_InURL(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	var requests []string
	show := func(r *http.Request) {
		requests = append(requests, r.URL.String(), r.RequestURI, fmt.Sprint(r.Form), fmt.Sprint(r.Header))
	}
	h := newHarness(t, func(o *httpapi.Options) {
		o.Observe = seen.observe
		o.AllowedOrigins = []string{"https://viewer.example"}
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) error { show(r); return nil }
		o.RequestID = func(r *http.Request) string { show(r); return "" }
		o.ClientIP = func(r *http.Request) string { show(r); return "192.0.2.1" }
	})
	api := must(httpapi.New(&h.options))(t)
	h.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { r.ParseForm(); api.ServeHTTP(w, r) }))
	h.folder("Valves")
	h.client("POST", "/symbol/folders/1/symbols", `{"name":"Gate","type":"image/svg+xml","data":"<svg xmlns='http://www.w3.org/2000/svg'/>"}`).want(201)
	const path = "/symbol/symbols/1/image"
	token := h.token(`{"scopes":["symbols:read"]}`)
	inURL := path + "?token=" + token
	wantPolicy := func(got response) response {
		t.Helper()
		got.wantHeaders("Referrer-Policy", "no-referrer")
		return got
	}
	requests = nil
	for _, target := range []string{inURL, path + "?x=1&%74oken=" + url.QueryEscape(token) + "&y"} {
		got := wantPolicy(h.send("GET", target, "").want(200))
		got.wantHeaders("Cross-Origin-Resource-Policy", "cross-origin")
		etag := got.header.Get("ETag")
		got = wantPolicy(h.send("GET", target, "", "If-None-Match", etag).want(304))
		got.wantHeaders("Cross-Origin-Resource-Policy", "cross-origin")
		wantPolicy(h.send("HEAD", target, "").want(200))
	}
	h.send("OPTIONS", inURL, "", "Origin", "https://viewer.example", "Access-Control-Request-Method", "GET").want(204)
	h.send("POST", inURL, "").wantError(405, "method_not_allowed")
	is.True(len(requests) > 0)
	is.True(!strings.Contains(strings.Join(requests, "\n"), token))
	is.True(slices.Contains(requests, path+"?x=1&y"))
	h.client("GET", path, "").want(200).wantHeaders("Referrer-Policy", "")

	for _, query := range []string{"token=", "token", "token=" + token + "&token=" + token, "token=x", "token=" + h.rawKey, "token=%zz", "token=" + token + "x"} {
		wantPolicy(h.send("GET", path+"?"+query, "").wantError(401, "unauthorized"))
	}
	must(h.options.Keys.Update(t.Context(), 1, keys.Fields{Active: new(false)}))(t)
	const foreign = "SG.sixteen.characters"
	must(h.options.Keys.Import(t.Context(), []keys.ImportedKey{{Digest: sha256.Sum256([]byte(foreign)), Fields: keys.Fields{Active: new(false)}}}))(t)
	for _, raw := range []string{h.rawKey, foreign} {
		wantPolicy(h.send("GET", path+"?token="+raw, "").wantError(401, "unauthorized")) // says nothing of the key
	}
	wantPolicy(h.send("GET", inURL, "").wantError(403, "forbidden"))
	must(h.options.Keys.Update(t.Context(), 1, keys.Fields{Active: new(true)}))(t)

	h.send("GET", inURL, "", "x-api-key", "wrong").wantError(401, "unauthorized") // the header counts
	h.send("GET", path+"?token=wrong", "", "x-api-key", h.rawKey).want(200)
	h.send("GET", "/symbol/folders?token="+token, "").wantError(401, "unauthorized")
	h.client("GET", "/symbol/folders?limit=1&token=kept", "").want(200).wantHeaders("Referrer-Policy", "")
	h.send("GET", path+"x?token="+token, "").wantError(404, "not_found")
	wantPolicy(h.send("GET", "/symbol/symbols/9/image?token="+token, "").wantError(404, "not_found"))
	is.True(!strings.Contains(h.log.String(), token))
	for _, o := range seen.list {
		is.True(!strings.Contains(fmt.Sprint(o), token))
	}
}

func TestHideKeys_TokenInURL(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	api := must(httpapi.New(&h.options))(t)
	var shown string
	h.listen(httpapi.HideKeys(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = r.URL.String() + r.RequestURI
		api.ServeHTTP(w, r)
	})))
	got := h.send("GET", "/symbol/symbols/9/image?token="+h.token(""), "").wantError(404, "not_found")
	got.wantHeaders("Referrer-Policy", "no-referrer")
	is.New(t).Equal(shown, "/symbol/symbols/9/image/symbol/symbols/9/image")

	target := "/symbol/symbols/9/image?token=" + h.token("")
	h.listen(httpapi.HideKeys(api.RequireClientKey(api)))
	must(h.options.Keys.Update(t.Context(), 1, keys.Fields{Active: new(false)}))(t)
	h.send("GET", target, "").wantError(403, "forbidden").wantHeaders("Referrer-Policy", "no-referrer")
}

func TestTokens_Observed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	h := serve(t, func(o *httpapi.Options) {
		log := httpapi.LogRequests(o.Logger)
		o.Observe = func(ctx context.Context, o httpapi.Observation) { seen.observe(ctx, o); log(ctx, o) }
	})
	issued := must(h.options.Keys.IssueToken(t.Context(), h.rawKey, keys.TokenFields{Scopes: *scopes("symbols:read")}))(t)
	h.send("GET", "/symbol/folders", "", "x-api-key", string(issued.Raw)).want(200)
	o := seen.last(t, 1)
	is.Equal(o.KeyID, int64(1))
	is.Equal(o.Actor, "key 1")
	is.Equal(o.TokenID, issued.Key.Token.ID)
	is.Equal(len(o.TokenID), 8)
	h.wantLog("token=" + o.TokenID)
	h.send("POST", "/symbol/folders", "{}", "x-api-key", string(issued.Raw)).want(403)
	is.Equal(seen.last(t, 2).TokenID, o.TokenID) // of a rejected one, too
	h.clock.Add(2 * time.Hour)
	h.send("GET", "/symbol/folders", "", "x-api-key", string(issued.Raw)).want(403)
	is.Equal(seen.last(t, 3).TokenID, o.TokenID)
	h.client("GET", "/symbol/folders", "")
	is.Equal(seen.last(t, 4).TokenID, "")

	token := h.token(`{"sources":["a"]}`)
	h.send("POST", "/viewer/exports/download-batch", `{"items":[{"sourceFileUrl":"a"},{"sourceFileUrl":"b"}]}`, "x-api-key", token).want(403)
	is.Equal(seen.last(t, 6).Resources, []httpapi.Resource{{Kind: "export", URL: "a"}, {Kind: "export", URL: "b"}}) // all that were requested
}

func TestTokens_OwnRoutes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := newHarness(t)
	api := must(httpapi.New(&h.options))(t)
	mux := http.NewServeMux()
	mux.Handle("/own", api.RequireScope("app:own")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := httpapi.KeyFromContext(r.Context())
		json.NewEncoder(w).Encode(map[string]any{"scopes": key.Scopes.List(), "sources": key.Token.Sources})
	})))
	mux.Handle("/own/image", api.RequireClientKey(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `"`+r.URL.Query().Get("token")+`"`)
	})))
	mux.Handle("/", api.RequireClientKey(api))
	h.listen(mux)
	token := h.token(`{"scopes":["app:own"],"sources":["x"]}`)
	is.Equal(h.send("GET", "/own", "", "x-api-key", token).want(200).object(), map[string]any{"scopes": []any{"app:own"}, "sources": []any{"x"}})
	h.send("GET", "/symbol/folders", "", "x-api-key", token).want(403)
	denied := h.send("GET", "/own", "", "x-api-key", h.token(`{"scopes":["app:other"]}`)).wantError(403, "forbidden")
	is.Equal(denied.object()["message"], "this page token lacks the scope app:own")
	h.send("GET", "/own/image?token=mine", "", "x-api-key", token).wantBody(200, `"mine"`) // no parameter of ours
}

func TestHideKeys_LeavesParametersOfOthers(t *testing.T) {
	t.Parallel()
	var got string
	handler := httpapi.HideKeys(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.FormValue("token") }))
	serveOnce(handler, "GET", "/photos/7/image?token=mine", "")
	is.New(t).Equal(got, "mine")
}
