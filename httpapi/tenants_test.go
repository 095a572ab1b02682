package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
)

// withTenants makes the owner of a key its tenant.
func withTenants(o *httpapi.Options) { o.Tenant = httpapi.TenantOfOwner }

// tenantRecords are the ids of records of a tenant, and a source.
type tenantRecords struct {
	folder, symbol, trash int64
	source                string
}

// fill makes records of a tenant, whose texts have its name.
func (h *harness) fill(tenant, key string) (r tenantRecords) {
	h.t.Helper()
	id := func(got response) int64 { return int64(got.object()["id"].(float64)) }
	post := func(path, body string) response { return h.send("POST", path, body, "x-api-key", key).want(201) }
	r.folder = id(post("/symbol/folders", `{"name":"folder of `+tenant+`"}`))
	path := fmt.Sprintf("/symbol/folders/%d/symbols", r.folder)
	body := `{"name":"symbol of ` + tenant + `","type":"image/svg+xml","data":"<svg xmlns=\"http://www.w3.org/2000/svg\"/>"}`
	r.symbol = id(post(path, body))
	deleted := id(post(path, body))
	h.send("DELETE", fmt.Sprintf("/symbol/symbols/%d", deleted), "", "x-api-key", key).want(200)
	trash := h.send("GET", "/symbol/trash", "", "x-api-key", key).want(200).array()
	r.trash = int64(trash[0].(map[string]any)["id"].(float64))
	r.source = "https://viewer.example/" + tenant
	h.files[tenant+".dwg"] = &fstest.MapFile{Data: []byte("drawing of " + tenant)}
	_, _, err := h.options.Exports.Tenant(tenant).Register(h.t.Context(), exports.Registration{
		SourceURL: r.source, ExportedURL: filesURL + tenant + ".dwg",
	})
	is.New(h.t).NoErr(err)
	return r
}

// TestTenants_AllRoutes sends each request once for a record of another tenant and once
// for one that never existed, and compares the responses.
func TestTenants_AllRoutes(t *testing.T) {
	t.Parallel()
	content := fstest.MapFS{}
	openers := []exports.Opener{must(files.New(filesURL, content))(t), must(fetch.New(nil))(t)}
	h := serve(t, withTenants, withExports(exports.Options{Openers: openers}))
	h.files = content
	ownerKey, otherKey := h.keyOf("owner"), h.keyOf("other")
	a, b := h.fill("owner", ownerKey), h.fill("other", otherKey)
	missing := tenantRecords{1 << 40, 1 << 40, 1 << 40, "https://viewer.example/nothing"}
	token := h.send("POST", "/viewer/tokens", "", "x-api-key", otherKey).want(201).object()["token"].(string)

	// A request is a path and a body for records of the owner, or missing ones.
	type request struct{ path, body string }
	one := func(path, body string) func(tenantRecords) []request {
		return func(r tenantRecords) []request {
			ids := strings.NewReplacer("{folder}", fmt.Sprint(r.folder), "{symbol}", fmt.Sprint(r.symbol),
				"{trash}", fmt.Sprint(r.trash), "{source}", r.source,
				"{own symbol}", fmt.Sprint(b.symbol), "{own trash}", fmt.Sprint(b.trash))
			return []request{{ids.Replace(path), ids.Replace(body)}}
		}
	}
	both := func(first, second func(tenantRecords) []request) func(tenantRecords) []request {
		return func(r tenantRecords) []request { return append(first(r), second(r)...) }
	}
	const symbol = `{"name":"x","type":"t","data":"d"}`
	requests := map[string]func(tenantRecords) []request{
		"GET /symbol/folders":               one("/symbol/folders", ""),
		"POST /symbol/folders":              nil, // names are checked below
		"GET /symbol/folders/{id}":          one("/symbol/folders/{folder}", ""),
		"PATCH /symbol/folders/{id}":        one("/symbol/folders/{folder}", `{"name":"x"}`),
		"DELETE /symbol/folders/{id}":       one("/symbol/folders/{folder}", ""),
		"GET /symbol/folders/{id}/symbols":  one("/symbol/folders/{folder}/symbols", ""),
		"POST /symbol/folders/{id}/symbols": one("/symbol/folders/{folder}/symbols", symbol),
		"GET /symbol/folders/{id}/export":   one("/symbol/folders/{folder}/export", ""),
		"POST /symbol/folders/{id}/import":  one("/symbol/folders/{folder}/import", `<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"GET /symbol/symbols/{id}":          one("/symbol/symbols/{symbol}", ""),
		"GET /symbol/symbols/{id}/image":    one("/symbol/symbols/{symbol}/image", ""),
		"GET /symbol/search":                one("/symbol/search?q=owner", ""),
		"GET /symbol/changes":               nil, // TestChanges_OfTenants
		"PATCH /symbol/symbols/{id}": both(
			one("/symbol/symbols/{symbol}", `{"name":"x"}`),
			one("/symbol/symbols/{own symbol}", `{"folderId":{folder}}`),
		),
		"DELETE /symbol/symbols/{id}": one("/symbol/symbols/{symbol}", ""),
		"PATCH /symbol/symbols": both(
			one("/symbol/symbols", `{"ids":[{symbol}],"addTags":["x"]}`),
			one("/symbol/symbols", `{"ids":[{own symbol}],"folderId":{folder}}`),
		),
		"POST /symbol/symbols/delete": one("/symbol/symbols/delete", `{"ids":[{own symbol},{symbol}]}`),
		"GET /symbol/trash":           one("/symbol/trash", ""),
		"POST /symbol/trash/{id}/restore": both(
			one("/symbol/trash/{trash}/restore", ""),
			one("/symbol/trash/{own trash}/restore", `{"folderId":{folder}}`),
		),
		"DELETE /symbol/trash/{id}":                    one("/symbol/trash/{trash}", ""),
		"POST /viewer/exports/download":                one("/viewer/exports/download", `{"sourceFileUrl":"{source}"}`),
		"POST /viewer/exports/download-batch":          one("/viewer/exports/download-batch", `{"items":[{"sourceFileUrl":"{source}"}]}`),
		"POST /viewer/exports/links":                   one("/viewer/exports/links", `{"sourceFileUrl":"{source}"}`),
		"POST /viewer/exports/register":                one("/viewer/exports/register", `{"sourceFileUrl":"{source}","exportedUrl":"https://cad.example/x"}`),
		"GET /viewer/exports/links/{token}/{fileName}": nil, // TestTenants_Links
	}
	for _, none := range []string{ // they have no records of a tenant
		"POST /viewer/tokens", "GET /viewer/key", "POST /viewer/key/revoke",
		"GET /openapi.json", "GET /client.js", "GET /client.d.ts",
	} {
		requests[none] = nil
	}
	before := h.snapshot(ownerKey, a)
	for _, route := range httpapi.Routes(&h.options) {
		name := route.Method + " " + route.Path
		make, known := requests[name]
		if !known && route.Key != "x-admin-key" {
			t.Errorf("no request for the route %s", name)
		}
		if make == nil {
			continue
		}
		theirs, nobodys := make(a), make(missing)
		for _, key := range []string{otherKey, token} {
			for i := range theirs {
				got := h.send(route.Method, theirs[i].path, theirs[i].body, "x-api-key", key)
				want := h.send(route.Method, nobodys[i].path, nobodys[i].body, "x-api-key", key)
				if g, w := normal(got, a), normal(want, missing); g != w {
					t.Errorf("%s %s:\n%s\nwant\n%s", name, theirs[i].body, g, w)
				}
				if strings.Contains(string(got.body), "of owner") {
					t.Errorf("%s shows %s", name, got.body)
				}
			}
		}
	}
	is.New(t).Equal(h.snapshot(ownerKey, a), before)
	h.send("POST", "/symbol/folders", `{"name":"folder of owner"}`, "x-api-key", otherKey).want(201)
}

// snapshot returns all that a key reads.
func (h *harness) snapshot(key string, r tenantRecords) (all string) {
	for _, path := range []string{
		"/symbol/folders", fmt.Sprintf("/symbol/folders/%d/symbols?fields=id,name,tags,meta,updatedAt", r.folder), "/symbol/trash", "/symbol/search?q=symbol",
	} {
		got := h.send("GET", path, "", "x-api-key", key).want(200)
		all += got.header.Get("ETag") + string(got.body) + "\n"
	}
	body := h.send("POST", "/viewer/exports/download", `{"sourceFileUrl":"`+r.source+`"}`, "x-api-key", key).want(200).body
	return all + string(body)
}

var volatile = regexp.MustCompile(`"(requestId|id|createdAt|updatedAt)":("[^"]*"|\d+)|not found: \d+`)

// normal returns a response without what differs from one request to the next.
func normal(r response, records tenantRecords) string {
	for _, name := range []string{"Date", "X-Request-Id", "Content-Length", "Etag"} {
		r.header.Del(name)
	}
	body := strings.ReplaceAll(string(r.body), records.source, "SOURCE")
	return fmt.Sprint(r.status, r.header, volatile.ReplaceAllString(body, ""))
}

func TestTenants_KeysWithoutOwner(t *testing.T) {
	t.Parallel()
	h := serve(t, withTenants)
	for _, route := range httpapi.Routes(&h.options) {
		target := strings.NewReplacer("{id}", "1", "{token}", "x", "{fileName}", "x").Replace(route.Path)
		want := route.Key == "x-api-key" && !route.Own || route.Key == "register"
		got := h.client(route.Method, target, "")
		if denied := got.status == http.StatusForbidden; denied != want {
			t.Errorf("%s %s: %d, denied should be %t", route.Method, route.Path, got.status, want)
		}
	}
	record := must(h.options.Keys.Get(t.Context(), 1))(t)
	is.New(t).Equal(record.UseCount, int64(1)) // POST /viewer/tokens
}

func TestTenants_Links(t *testing.T) {
	t.Parallel()
	h := serve(t, withTenants)
	key := h.keyOf("owner")
	source := h.fill("owner", key).source
	link := "/viewer/exports/" + h.send("POST", "/viewer/exports/links", `{"sourceFileUrl":"`+source+`"}`, "x-api-key", key).want(201).object()["url"].(string)
	h.send("GET", link, "").wantBody(200, "drawing of owner")
	for _, owner := range []string{"other", ""} {
		must(h.options.Keys.Update(t.Context(), 2, keys.Fields{Owner: &owner}))(t)
		h.send("GET", link, "").wantError(404, "not_found")
	}
	must(h.options.Keys.Update(t.Context(), 2, keys.Fields{Owner: new("owner")}))(t)
	h.send("GET", link, "").want(200)
	is.New(t).NoErr(h.options.Exports.Tenant("owner").AssignTenant(t.Context(), "other"))
	h.send("GET", link, "").wantError(404, "not_found")
}

// TestTenants_ChangeEndsARunningLink has a client that stops reading. Package linkserve tests the
// interruption of a blocked write.
func TestTenants_ChangeEndsARunningLink(t *testing.T) {
	t.Parallel()
	aborted := make(chan struct{}, 1)
	h := serve(t, withTenants, func(o *httpapi.Options) {
		o.Limits.StoreTimeout, o.Limits.IdleTimeout = time.Hour, time.Hour
		o.Observe = func(_ context.Context, seen httpapi.Observation) {
			if seen.Aborted {
				aborted <- struct{}{}
			}
		}
	})
	key := h.keyOf("owner")
	source := h.fill("owner", key).source
	h.files["owner.dwg"] = &fstest.MapFile{Data: make([]byte, 100<<20)}
	link := h.send("POST", "/viewer/exports/links", exportBody(source), "x-api-key", key).want(201).object()["url"].(string)
	response := h.open("GET", "/viewer/exports/"+link, "")
	must(io.ReadFull(response.Body, make([]byte, 100)))(t)
	must(h.options.Keys.Update(t.Context(), 2, keys.Fields{Owner: new("other")}))(t)
	select {
	case <-aborted:
	case <-time.After(testTimeout):
		t.Fatal("the response goes on")
	}
	_, err := io.Copy(io.Discard, response.Body)
	is.New(t).True(err != nil)
}

func TestTenants_Registration(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, withTenants, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithScope })
	h.files["a.dwg"] = &fstest.MapFile{Data: []byte("content")}
	scopes := scopes(httpapi.ScopeExportsRegister, httpapi.ScopeExportsRead)
	issued := must(h.options.Keys.Create(t.Context(), keys.Fields{Owner: new("owner"), Scopes: scopes}))(t)
	body := `{"sourceFileUrl":"a","exportedUrl":"` + filesURL + `a.dwg"`
	h.send("POST", "/viewer/exports/register", body+`}`, "x-api-key", string(issued.Raw)).wantError(403, "forbidden")
	for _, tenant := range []string{`1`, `"\u0000"`, `" "`, `"` + strings.Repeat("x", 256) + `"`} {
		h.admin("POST", "/viewer/exports/register", body+`,"tenant":`+tenant+`}`).wantError(400, "invalid_request")
	}
	h.admin("POST", "/viewer/exports/register", body+`,"tenant":"owner"}`).want(201)
	h.admin("POST", "/viewer/exports/register", body+`}`).want(201)
	h.send("POST", "/viewer/exports/download", `{"sourceFileUrl":"a"}`, "x-api-key", string(issued.Raw)).wantBody(200, "content")

	tenantsOf := func(query string) (list []any) {
		for _, record := range h.admin("GET", "/admin/exports"+query, "").want(200).array() {
			list = append(list, record.(map[string]any)["tenant"])
		}
		return list
	}
	is.Equal(tenantsOf(""), []any{"owner", ""})
	is.Equal(tenantsOf("?tenant="), []any{""})
	is.Equal(tenantsOf("?tenant=owner"), []any{"owner"})
	is.Equal(tenantsOf("?tenant=Owner"), nil)
	for _, query := range []string{"?tenant=a&tenant=a", "?tenant=%00", "?tenant=%ff"} {
		h.admin("GET", "/admin/exports"+query, "").wantError(400, "invalid_request")
	}
	is.True(strings.HasSuffix(string(h.admin("GET", "/admin/exports/1", "").want(200).body), `"tenant":"owner"}`))
}

// TestTenants_Off checks that the records of tenants wait, hidden.
func TestTenants_Off(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, withTenants)
	key := h.keyOf("owner")
	a := h.fill("owner", key)
	link := "/viewer/exports/" + h.send("POST", "/viewer/exports/links", `{"sourceFileUrl":"`+a.source+`"}`, "x-api-key", key).want(201).object()["url"].(string)
	h.options.Tenant = nil
	h.listen(httpapi.Handler(&h.options))
	h.client("GET", "/symbol/folders", "").wantBody(200, "[]")
	h.client("GET", fmt.Sprintf("/symbol/symbols/%d", a.symbol), "").wantError(404, "not_found")
	h.client("POST", "/viewer/exports/download", `{"sourceFileUrl":"`+a.source+`"}`).wantError(404, "not_found")
	h.send("GET", link, "").wantError(404, "not_found")
	is.True(!strings.Contains(string(h.admin("GET", "/admin/exports?tenant=x", "").want(200).body), "tenant"))

	is.NoErr(h.options.Symbols.Tenant("owner").AssignTenant(t.Context(), ""))
	is.NoErr(h.options.Exports.Tenant("owner").AssignTenant(t.Context(), ""))
	h.client("GET", fmt.Sprintf("/symbol/symbols/%d", a.symbol), "").want(200)
	h.send("GET", link, "").want(200)
	h.options.Tenant = func(keys.Key) (string, error) { return "", &httpapi.DeniedError{} }
	h.listen(httpapi.Handler(&h.options))
	h.send("GET", link, "").wantError(404, "not_found")
}

func TestTenants_InvalidOptions(t *testing.T) {
	t.Parallel()
	_, err := httpapi.New(&httpapi.Options{Tenant: httpapi.TenantOfOwner, DangerouslySkipClientKeys: true})
	is.New(t).True(err != nil)
	h := serve(t, func(o *httpapi.Options) { o.Tenant = func(keys.Key) (string, error) { return "\x00", nil } })
	h.client("GET", "/symbol/folders", "").wantError(403, "forbidden")
}
