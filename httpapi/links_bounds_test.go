package httpapi_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

func TestLinks_AreBoundedForEachClient(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	fsys := fstest.MapFS{"a": {Data: []byte("content"), ModTime: time.Unix(1e9, 0)}}
	h := serve(t, func(o *httpapi.Options) {
		o.Exports = must(exports.NewService(memory.New().Exports(), &exports.Options{
			LinksPerKey: 20,
			Openers:     []exports.Opener{must(files.New(filesURL, fsys))},
		}))
	})
	h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"`+filesURL+`a"}`).want(201)
	create := func(headers ...string) response {
		return h.send("POST", "/viewer/exports/links", exportBody("s"), headers...)
	}
	token := func() string {
		return h.client("POST", "/viewer/tokens", "{}").want(201).object()["token"].(string)
	}
	first := create("x-api-key", h.rawKey).want(201).object()["url"].(string)
	create("x-api-key", h.rawKey).want(201)
	rejected := create("x-api-key", h.rawKey).wantError(429, "too_many_requests")
	is.True(rejected.header.Get("Retry-After") != "")
	create("x-api-key", token()).want(201) // a visitor of a page has links of its own
	h.send("GET", "/viewer/exports/"+first, "").want(200)
}
