package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
)

func TestRequestResources(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var got httpapi.Resources
	h := serve(t, func(o *httpapi.Options) {
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) (err error) {
			got, err = httpapi.RequestResources(r)
			return err
		}
	})
	h.register("s", "a", "content")
	want := func(method, path, body string, status int, want httpapi.Resources) response {
		t.Helper()
		got = httpapi.Resources{}
		out := h.client(method, path, body).want(status)
		is.Helper()
		is.Equal(got, want)
		return out
	}
	one := []int64{1}
	want("POST", "/symbol/folders", `{"name":"a","items":5}`, 201, httpapi.Resources{})
	want("POST", "/symbol/folders/1/symbols", `{"name":"a","type":"a/b","data":"x"}`, 201, httpapi.Resources{FolderIDs: one})
	want("GET", "/symbol/folders/1/symbols", "", 200, httpapi.Resources{FolderIDs: one})
	want("PATCH", "/symbol/symbols/1", `{"folderId":1,"name":"b"}`, 200, httpapi.Resources{FolderIDs: one, SymbolIDs: one})
	want("PATCH", "/symbol/symbols/1", `{"folderId":"1"}`, 400, httpapi.Resources{SymbolIDs: one})
	want("PATCH", "/symbol/symbols", `{"ids":[1],"folderId":1}`, 200, httpapi.Resources{FolderIDs: one, SymbolIDs: one})
	want("POST", "/symbol/symbols/delete", `{"ids":[7,8]}`, 404, httpapi.Resources{SymbolIDs: []int64{7, 8}})
	want("POST", "/symbol/folders/1/import", "no archive", 400, httpapi.Resources{FolderIDs: one})
	want("POST", "/viewer/exports/download", `{"sourceFileUrl":" s "}`, 200, httpapi.Resources{Sources: []string{"s"}})
	want("POST", "/viewer/exports/download-batch", `{"items":[{"sourceFileUrl":"s"},{"sourceFileUrl":""},{},5,{"sourceFileUrl":"t"}]}`, 200,
		httpapi.Resources{Sources: []string{"s", "t"}})
	want("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":" `+filesURL+`a\n"}`, 200,
		httpapi.Resources{Sources: []string{"s"}, ExportedURL: filesURL + "a"})
	link := want("POST", "/viewer/exports/links", `{"items":[{"sourceFileUrl":"s "},{"sourceFileUrl":""}]}`, 201, httpapi.Resources{Sources: []string{"s"}}).object()["url"].(string)
	got = httpapi.Resources{}
	h.send("GET", "/viewer/exports/"+link, "").want(200)
	is.Equal(got, httpapi.Resources{Sources: []string{"s"}})
	for _, body := range []string{"[", `{"ids":[1],"ids":[2]}`, `{"items":[{"sourceFileUrl":"s","sourceFileUrl":"t"}]}`} {
		want("POST", "/symbol/symbols/delete", body, 400, httpapi.Resources{})
	}
	for _, body := range []string{`{"items":[{"sourceFileUrl":"s"}`, `{"ids":[1`} { // short elements take many times the memory of a body
		element := body[strings.IndexByte(body, '[')+1:]
		h.client("POST", "/viewer/exports/download-batch", body+strings.Repeat(","+element, 20_000)+"]}").want(400)
		is.True(len(got.Sources)+len(got.SymbolIDs) <= 1001)
	}
	_, err := httpapi.RequestResources(new(http.Request))
	is.True(err != nil)
}

// TestRequestResources_AreCopies changes the sources of a link, as an application may.
func TestRequestResources_AreCopies(t *testing.T) {
	t.Parallel()
	var got []string
	h := serve(t, func(o *httpapi.Options) {
		o.RegisterWith = httpapi.RegisterWithScope
		o.Authorize = func(r *http.Request, _ keys.Key, _ string) error {
			resources, err := httpapi.RequestResources(r)
			got = slices.Clone(resources.Sources)
			clear(resources.Sources)
			return err
		}
	})
	h.files["a.dwg"] = &fstest.MapFile{Data: []byte("content")}
	h.admin("POST", "/viewer/exports/register", `{"sourceFileUrl":"a","exportedUrl":"`+filesURL+`a.dwg"}`).want(201)
	link := h.client("POST", "/viewer/exports/links", `{"sourceFileUrl":"a"}`).want(201).object()["url"].(string)
	for range 2 {
		h.send("GET", "/viewer/exports/"+link, "").want(200)
		is.New(t).Equal(got, []string{"a"})
	}
}
