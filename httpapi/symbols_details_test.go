package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// TestSymbols_HaveDetails creates, updates, lists, finds, exports and imports a symbol with
// details.
func TestSymbols_HaveDetails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)
	h := serve(t, func(o *httpapi.Options) {
		o.Symbols = must(symbols.NewService(memory.New().Symbols(), &symbols.Options{Now: func() time.Time { return now }}))(t)
	})
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	created := h.client("POST", "/symbol/folders/1/symbols",
		`{"name":"Gate valve","type":"a/b","data":"x","tags":["brass"," ä\n"],"meta":{ "b" : 1.0, "a": [ "\u00e4" ] }}`).want(201)
	is.Equal(string(created.body), `{"id":1,"name":"Gate valve","type":"a/b","data":"x","folderId":1}`)
	const path, details = "/symbol/symbols/1", "?fields=updatedBy,createdAt,id,tags,meta,updatedAt,size"
	want := func(tags, meta, updated string) {
		t.Helper()
		record := fmt.Sprintf(`{"id":1,"size":1,"tags":%s,"meta":%s,"createdAt":"2026-03-30T10:00:00.000Z","updatedAt":"%s","updatedBy":1}`, tags, meta, updated)
		is.Equal(string(h.client("GET", path+details, "").want(200).body), record)
		is.Equal(string(h.client("GET", "/symbol/folders/1/symbols"+details, "").want(200).body), "["+record+"]")
		is.Equal(string(h.client("GET", "/symbol/search"+details+"&q=valve", "").want(200).body), "["+record+"]")
	}
	want(`["brass"," ä\n"]`, `{"b":1.0,"a":["\u00e4"]}`, "2026-03-30T10:00:00.000Z")
	is.Equal(string(h.client("GET", "/symbol/search?q=BRA+gate&fields=tags", "").want(200).body), `[{"tags":["brass"," ä\n"]}]`)

	now = now.Add(time.Hour)
	tags := h.tags(path, path+details, "/symbol/folders/1/symbols")
	h.client("PATCH", path, `{"tags":["brass"," ä\n"],"meta":{"b":1.0,"a":["\u00e4"]},"name":"Gate valve"}`).want(200)
	is.Equal(h.tags(path, path+details, "/symbol/folders/1/symbols"), tags) // nothing has changed
	want(`["brass"," ä\n"]`, `{"b":1.0,"a":["\u00e4"]}`, "2026-03-30T10:00:00.000Z")
	archive := h.client("GET", "/symbol/folders/1/export", "").want(200).body
	h.client("PATCH", path, `{"tags":null,"meta":null}`).want(200)
	for i, tag := range h.tags(path, path+details, "/symbol/folders/1/symbols") {
		is.True(tag != tags[i])
	}
	want(`[]`, `null`, "2026-03-30T11:00:00.000Z")
	h.send("POST", "/symbol/folders/1/import", string(archive), "x-api-key", h.rawKey, "Content-Type", "application/zip").want(201)
	is.Equal(string(h.client("GET", "/symbol/symbols/2?fields=tags,meta,updatedBy", "").want(200).body),
		`{"tags":["brass"," ä\n"],"meta":{"b":1.0,"a":["\u00e4"]},"updatedBy":1}`)

	for _, body := range []string{
		`{"tags":["a","a"]}`, `{"tags":"a"}`, `{"tags":[1]}`, `{"tags":[""]}`, `{"tags":["\u0000"]}`, `{"tags":["` + strings.Repeat("a", 65) + `"]}`,
		`{"meta":[]}`, `{"meta":"a"}`, `{"meta":{"a":1,"a":2}}`, `{"meta":{"a":"\u0000"}}`, `{"meta":{"a":"` + strings.Repeat("a", 16<<10) + `"}}`,
	} {
		field := body[2:6]
		is.True(strings.HasPrefix(h.client("PATCH", path, body).wantError(400, "invalid_request").message(), field))
	}
	h.client("GET", path+"?fields=x", "").wantError(400, "invalid_request")
}

// tags returns the ETags of paths.
func (h *harness) tags(paths ...string) []string {
	h.t.Helper()
	var list []string
	for _, path := range paths {
		list = append(list, h.client("GET", path, "").header.Get("ETag"))
	}
	return list
}
