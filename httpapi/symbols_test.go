package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

func TestFolders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	is.Equal(string(h.client("GET", "/symbol/folders", "").want(200).body), "[]") // never null
	is.Equal(string(h.client("POST", "/symbol/folders", `{"name":"Valves"}`).want(201).body), `{"id":1,"name":"Valves"}`)
	is.Equal(string(h.client("POST", "/symbol/folders", `{"name":"valves"}`).want(201).body), `{"id":2,"name":"valves"}`)
	h.client("POST", "/symbol/folders", `{"name":"Valves"}`).wantError(409, "conflict")
	is.Equal(string(h.client("GET", "/symbol/folders/1", "").want(200).body), `{"id":1,"name":"Valves"}`)

	h.client("PATCH", "/symbol/folders/2", `{"name":"Valves"}`).wantError(409, "conflict")
	is.Equal(string(h.client("PATCH", "/symbol/folders/1", `{"name":"Valves"}`).want(200).body), `{"id":1,"name":"Valves"}`) // unchanged name
	is.Equal(string(h.client("PATCH", "/symbol/folders/1", `{}`).want(200).body), `{"id":1,"name":"Valves"}`)
	is.Equal(string(h.client("PATCH", "/symbol/folders/2", `{"name":"Pumps"}`).want(200).body), `{"id":2,"name":"Pumps"}`)
	is.Equal(string(h.client("GET", "/symbol/folders", "").want(200).body), `[{"id":1,"name":"Valves"},{"id":2,"name":"Pumps"}]`)

	is.True(h.client("DELETE", "/symbol/folders/2", "").want(200).message() != "")
	h.client("DELETE", "/symbol/folders/2", "").wantError(404, "not_found")
	h.client("GET", "/symbol/folders/2", "").wantError(404, "not_found")
	h.client("PATCH", "/symbol/folders/2", `{"name":"x"}`).wantError(404, "not_found")
	h.client("PATCH", "/symbol/folders/2", `{"name":1}`).wantError(400, "invalid_request")                              // before 404
	is.Equal(string(h.client("POST", "/symbol/folders", `{"name":"Pumps"}`).want(201).body), `{"id":3,"name":"Pumps"}`) // the name is reused, the id is not
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	h.client("POST", "/symbol/folders", `{"name":"B"}`).want(201)
	is.Equal(string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body), "[]")

	record := `{"id":1,"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":1}`
	is.Equal(string(h.client("POST", "/symbol/folders/1/symbols",
		`{"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":2,"id":9}`).want(201).body), record) // the folder is that of the path
	is.Equal(string(h.client("GET", "/symbol/symbols/1", "").want(200).body), record)
	is.Equal(string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body), "["+record+"]") // with data

	for _, body := range []string{`{}`, ``, `{"name":"Gate"}`, `{"folderId":1}`} {
		is.Equal(string(h.client("PATCH", "/symbol/symbols/1", body).want(200).body), record)
	}
	h.client("PATCH", "/symbol/symbols/1", `{"name":"x","folderId":99}`).wantError(404, "not_found")
	for _, bad := range []string{
		`{"name":"x","type":"nonsense"}`, `{"name":"x","data":""}`, `{"name":"x","data":null}`, `{"name":"x","folderId":null}`,
		`{"name":"x","folderId":"2"}`, `{"name":"x","folderId":1.5}`, `{"name":"x","folderId":0}`, `{"name":"x","folderId":-2}`,
		`{"name":"x","folderId":9223372036854775808}`, `{"name":"x","folderId":1e400}`, `{"name":"x","folderId":1e0}`,
		`{"name":"x","folderId":[1]}`, `{"name":"x","folderId":` + strings.Repeat("9", 100_000) + `}`,
		`{"name":"x","data":"\u0000"}`, `{"name":"x","type":"a/b\u0000"}`,
	} {
		h.client("PATCH", "/symbol/symbols/1", bad).wantError(400, "invalid_request")
	}
	is.Equal(string(h.client("GET", "/symbol/symbols/1", "").want(200).body), record) // unchanged

	moved := `{"id":1,"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":2}`
	is.Equal(string(h.client("PATCH", "/symbol/symbols/1", `{"folderId":2}`).want(200).body), moved)
	is.Equal(string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body), "[]")
	is.Equal(string(h.client("GET", "/symbol/folders/2/symbols", "").want(200).body), "["+moved+"]")

	is.True(h.client("DELETE", "/symbol/symbols/1", "").want(200).message() != "")
	h.client("DELETE", "/symbol/symbols/1", "").wantError(404, "not_found")
	h.client("GET", "/symbol/symbols/1", "").wantError(404, "not_found")
	h.client("PATCH", "/symbol/symbols/1", `{"name":"x"}`).wantError(404, "not_found")
	h.client("GET", "/symbol/folders/9/symbols", "").wantError(404, "not_found")
	h.client("POST", "/symbol/folders/9/symbols", `{"name":"x","type":"a/b","data":"y"}`).wantError(404, "not_found")
	h.client("POST", "/symbol/folders/9/symbols", `{"name":"x"}`).wantError(400, "invalid_request") // before 404
}

func TestSymbols_Types(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	create := func(mimeType string) response {
		return h.client("POST", "/symbol/folders/1/symbols", `{"name":"n","data":"d","type":`+quote(mimeType)+`}`)
	}
	for _, good := range []string{"image/png", "image/svg+xml", "APPLICATION/X-DWG", "text/plain; charset=\"utf-8\"", " text/plain ", "a/b"} {
		is.Equal(create(good).want(201).object()["type"], good)
	}
	for _, bad := range []string{"", " ", "image", "image/", "/png", "image/png/x", "image png", "image/png;", "image/png; a", "a/b; a=1; a=2", "text/" + strings.Repeat("x", 251)} {
		response := create(bad)
		if response.status == 201 && bad == "image/png;" {
			continue // mime.ParseMediaType accepts it
		}
		t.Log(bad)
		is.True(strings.HasPrefix(response.want(400).message(), "type"))
	}
}

// symbolStores return a function that connects to a database of each driver as a
// process does, with a number of database connections.
var symbolStores = map[string]func(t *testing.T, connections int) (connect func() symbols.Store){
	"memory": func(*testing.T, int) func() symbols.Store {
		store := &hookedStore{Store: memory.New().Symbols()}
		return func() symbols.Store { return store }
	},
	"sqlite": func(t *testing.T, connections int) func() symbols.Store {
		path := filepath.Join(t.TempDir(), "test.db")
		return func() symbols.Store {
			pool, db := openSQLite(t, path)
			pool.SetMaxOpenConns(connections)
			return db.Symbols()
		}
	},
	"postgres": func(t *testing.T, connections int) func() symbols.Store {
		url := pgtest.Database(t)
		return func() symbols.Store {
			config := must(pgxpool.ParseConfig(url))(t)
			config.MaxConns = int32(connections)
			pool := must(pgxpool.NewWithConfig(t.Context(), config))(t)
			t.Cleanup(pool.Close)
			db := must(postgres.New(pool, nil))(t)
			is.New(t).NoErr(db.Migrate(t.Context()))
			return db.Symbols()
		}
	},
}

const svgImage = `<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>`

func TestImage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/symbol/folders", `{"name":"A"}`).want(201)
	create := func(name, data string) string {
		created := h.client("POST", "/symbol/folders/1/symbols", `{"name":`+quote(name)+`,"type":"text/html","data":`+quote(data)+`}`).want(201)
		return fmt.Sprintf("/symbol/symbols/%v", created.object()["id"])
	}
	path := create("Pump / ü", svgImage)
	image := h.client("GET", path+"/image", "").want(200)
	is.Equal(string(image.body), svgImage)
	for name, want := range map[string]string{
		"Content-Type":            "image/svg+xml", // not the type of the symbol
		"Content-Disposition":     `inline; filename="Pump _ _.svg"; filename*=UTF-8''Pump%20_%20%C3%BC.svg`,
		"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
		"X-Content-Type-Options":  "nosniff",
		"Cache-Control":           "private, no-cache",
		"Vary":                    "",
		"Content-Encoding":        "",
		"Content-Length":          fmt.Sprint(len(svgImage)),
	} {
		is.Equal(image.header.Get(name), want)
	}
	is.Equal(h.client("HEAD", path+"/image", "").want(200).header.Get("ETag"), image.header.Get("ETag"))
	h.send("GET", path+"/image", "").wantError(401, "unauthorized")
	h.client("GET", "/symbol/symbols/99/image", "").wantError(404, "not_found")
	h.client("GET", create("mistyped", "data:image/png,"+svgImage)+"/image", "").wantError(404, "not_found")

	// The tag changes with the symbol, and is not that of the symbol.
	etag := image.header.Get("ETag")
	conditional := func(tag string) response {
		return h.send("GET", path+"/image", "", "x-api-key", h.rawKey, "If-None-Match", tag)
	}
	is.True(etag != h.tag(path))
	is.Equal(conditional(etag).want(304).header.Get("ETag"), etag)
	conditional("W/" + etag).want(304)
	conditional("*").want(304)
	conditional(h.tag(path)).want(200)
	h.client("PATCH", path, `{"name":"Pump / ü"}`).want(200)
	conditional(etag).want(304)
	h.client("PATCH", path, `{"name":"Pump"}`).want(200)
	renamed := conditional(etag).want(200)
	is.Equal(renamed.header.Get("Content-Disposition"), `inline; filename="Pump.svg"`)

	// No 304 where a GET is 404.
	h.client("PATCH", path, `{"data":"no image"}`).want(200)
	forged := strings.TrimSuffix(h.tag(path), `"`) + `.image"`
	for _, tag := range []string{forged, "*", etag} {
		got := conditional(tag).wantError(404, "not_found")
		is.True(strings.Contains(got.message(), "image"))
		is.Equal(got.header.Get("Cache-Control"), "no-store")
	}

	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("x", 6<<20) // more than the cache keeps
	large := create("-rf.PNG", "data:image/png;base64,"+base64.StdEncoding.EncodeToString([]byte(png)))
	for range 2 {
		image = h.client("GET", large+"/image", "").want(200)
		is.True(bytes.Equal(image.body, []byte(png)))
		is.Equal(image.header.Get("Content-Type"), "image/png")
		h.send("GET", large+"/image", "", "x-api-key", h.rawKey, "If-None-Match", image.header.Get("ETag")).want(304)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for i := range 3 {
		h.client("POST", "/symbol/folders", fmt.Sprintf(`{"name":"%d"}`, i)).want(201)
		for j := range 50 {
			h.client("POST", fmt.Sprintf("/symbol/folders/%d/symbols", i+1), fmt.Sprintf(`{"name":"Ventil %d %d_%%","type":"a/b","data":"xy"}`, i, j)).want(201)
		}
	}
	get := func(query string) response { return h.client("GET", "/symbol/search?"+query, "") }
	is.Equal(string(get("q=VENTIL+1+49").want(200).body), `[{"id":100,"name":"Ventil 1 49_%","type":"a/b","folderId":2}]`)
	is.Equal(string(get("q=49%202%20ENT&fields=data,size").want(200).body), `[{"data":"xy","size":2}]`)
	first := get("q=_%25&x=1").want(200)
	is.Equal(len(first.array()), 100) // the default limit
	is.Equal(first.header.Get("Link"), `<?limit=100&after=100&q=_%25&x=1>; rel="next"`)
	is.Equal(first.header.Get("Cache-Control"), "no-store")
	is.Equal(first.header.Get("Vary"), "Accept-Encoding")
	rest := get("limit=100&after=100&q=_%25").want(200)
	is.Equal(len(rest.array()), 50)
	is.Equal(rest.header.Get("Link"), "")
	is.Equal(string(get("q=nothing").want(200).body), `[]`)
	is.Equal(string(get("q=nothing&fields=data").want(200).body), `[]`)
	for _, query := range []string{"", "q=", "q=+%09", "q=a&q=b", "q=%00", "q=%ff", "q=%zz", "q=" + strings.Repeat("a", 256)} {
		is.True(strings.HasPrefix(get(query).wantError(400, "invalid_request").message(), "q "))
	}
	get("q=a&limit=0").wantError(400, "invalid_request")
	get("q=a&fields=x").wantError(400, "invalid_request")
	h.send("GET", "/symbol/search", "").wantError(401, "unauthorized")

	// Long responses are streamed.
	data := strings.Repeat("0123456789", 30_000)
	for range 4 {
		h.client("POST", "/symbol/folders/3/symbols", `{"name":"long","type":"a/b","data":"`+data+`"}`).want(201)
	}
	plain := h.get("/symbol/search?q=LONG&fields=data&limit=3").want(200)
	zipped := h.get("/symbol/search?q=LONG&fields=data&limit=3", "Accept-Encoding", "gzip").want(200)
	is.Equal(zipped.header.Get("Content-Encoding"), "gzip")
	is.Equal(string(zipped.body), string(plain.body))
	is.Equal(len(plain.array()), 3)
	is.Equal(plain.header.Get("Link"), `<?limit=3&after=153&q=LONG&fields=data>; rel="next"`)
}
