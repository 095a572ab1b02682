package httpapi_test

import (
	"io/fs"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/client"
)

func TestClient_FilesNeedNoKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, func(o *httpapi.Options) { *o = httpapi.Options{AllowedOrigins: []string{"*"}} })
	for name, mediaType := range map[string]string{"client.js": "text/javascript", "client.d.ts": "text/plain"} {
		content, err := fs.ReadFile(client.Files, name)
		is.NoErr(err)
		plain := h.send("GET", "/"+name, "", "Origin", "https://viewer.example", "If-None-Match", `"other"`).want(200)
		is.Equal(string(plain.body), string(content))
		is.Equal(plain.header.Get("Content-Type"), mediaType)
		is.Equal(plain.header.Get("Cache-Control"), "no-cache")
		is.Equal(plain.header.Get("Access-Control-Allow-Origin"), "*")

		compressed := h.send("GET", "/"+name, "", "Accept-Encoding", "gzip").want(200)
		is.Equal(compressed.header.Get("Content-Encoding"), "gzip")
		is.Equal(string(compressed.body), string(content))

		tags := []string{plain.header.Get("ETag"), compressed.header.Get("ETag")}
		is.True(tags[0] != tags[1])
		h.send("GET", "/"+name, "", "If-None-Match", tags[0]).want(304)
		h.send("GET", "/"+name, "", "If-None-Match", tags[1], "Accept-Encoding", "gzip").want(304)
		h.send("GET", "/"+name, "", "If-None-Match", tags[1]).want(200)
		is.Equal(len(h.send("HEAD", "/"+name, "").want(200).body), 0)
		h.send("POST", "/"+name, "").wantError(405, "method_not_allowed")
	}
}
