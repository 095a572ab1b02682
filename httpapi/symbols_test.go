package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

func TestFolders(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.client("GET", "/symbol/folders", "").wantBody(200, "[]") // never null
	h.client("POST", "/symbol/folders", `{"name":"Valves"}`).wantBody(201, `{"id":1,"name":"Valves"}`)
	h.client("POST", "/symbol/folders", `{"name":"valves"}`).wantBody(201, `{"id":2,"name":"valves"}`)
	h.client("POST", "/symbol/folders", `{"name":"Valves"}`).wantError(409, "conflict")
	h.client("GET", "/symbol/folders/1", "").wantBody(200, `{"id":1,"name":"Valves"}`)

	h.client("PATCH", "/symbol/folders/2", `{"name":"Valves"}`).wantError(409, "conflict")
	h.client("PATCH", "/symbol/folders/1", `{"name":"Valves"}`).wantBody(200, `{"id":1,"name":"Valves"}`) // unchanged name
	h.client("PATCH", "/symbol/folders/1", `{}`).wantBody(200, `{"id":1,"name":"Valves"}`)
	h.client("PATCH", "/symbol/folders/2", `{"name":"Pumps"}`).wantBody(200, `{"id":2,"name":"Pumps"}`)
	h.client("GET", "/symbol/folders", "").wantBody(200, `[{"id":1,"name":"Valves"},{"id":2,"name":"Pumps"}]`)

	is.New(t).True(h.client("DELETE", "/symbol/folders/2", "").want(200).message() != "")
	h.client("DELETE", "/symbol/folders/2", "").wantError(404, "not_found")
	h.client("GET", "/symbol/folders/2", "").wantError(404, "not_found")
	h.client("PATCH", "/symbol/folders/2", `{"name":"x"}`).wantError(404, "not_found")
	h.client("PATCH", "/symbol/folders/2", `{"name":1}`).wantError(400, "invalid_request")           // before 404
	h.client("POST", "/symbol/folders", `{"name":"Pumps"}`).wantBody(201, `{"id":3,"name":"Pumps"}`) // the name is reused, the id is not
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveFolder(t)
	h.folder("B")
	h.client("GET", "/symbol/folders/1/symbols", "").wantBody(200, "[]")

	record := `{"id":1,"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":1}`
	is.Equal(string(h.client("POST", "/symbol/folders/1/symbols",
		`{"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":2,"id":9}`).want(201).body), record) // the folder is that of the path
	h.client("GET", "/symbol/symbols/1", "").wantBody(200, record)
	h.client("GET", "/symbol/folders/1/symbols", "").wantBody(200, "["+record+"]") // with data

	for _, body := range []string{`{}`, ``, `{"name":"Gate"}`, `{"folderId":1}`} {
		h.client("PATCH", "/symbol/symbols/1", body).wantBody(200, record)
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
	h.client("GET", "/symbol/symbols/1", "").wantBody(200, record) // unchanged

	moved := `{"id":1,"name":"Gate","type":"image/svg+xml; charset=utf-8","data":"{\"a\":1}<>&","folderId":2}`
	h.client("PATCH", "/symbol/symbols/1", `{"folderId":2}`).wantBody(200, moved)
	h.client("GET", "/symbol/folders/1/symbols", "").wantBody(200, "[]")
	h.client("GET", "/symbol/folders/2/symbols", "").wantBody(200, "["+moved+"]")

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
	h := serveFolder(t)
	create := func(mimeType string) response {
		return h.client("POST", "/symbol/folders/1/symbols", `{"name":"n","data":"d","type":`+quote(mimeType)+`}`)
	}
	for _, good := range []string{"image/png", "image/svg+xml", "APPLICATION/X-DWG", "text/plain; charset=\"utf-8\"", " text/plain ", "a/b"} {
		is.New(t).Equal(create(good).want(201).object()["type"], good)
	}
	for _, bad := range []string{"", " ", "image", "image/", "/png", "image/png/x", "image png", "image/png; a", "a/b; a=1; a=2", "text/" + strings.Repeat("x", 251)} {
		create(bad).wantInvalid("type")
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
	h := serveFolder(t)
	create := func(name, data string) string {
		created := h.client("POST", "/symbol/folders/1/symbols", `{"name":`+quote(name)+`,"type":"text/html","data":`+quote(data)+`}`).want(201)
		return fmt.Sprintf("/symbol/symbols/%v", created.object()["id"])
	}
	path := create("Pump / ü", svgImage)
	image := h.client("GET", path+"/image", "").wantBody(200, svgImage)
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
	h.client("HEAD", path+"/image", "").want(200).wantHeaders("ETag", image.header.Get("ETag"))
	h.send("GET", path+"/image", "").wantError(401, "unauthorized")
	h.client("GET", "/symbol/symbols/99/image", "").wantError(404, "not_found")
	h.client("GET", create("mistyped", "data:image/png,"+svgImage)+"/image", "").wantError(404, "not_found")

	// The tag changes with the symbol, and is not that of the symbol.
	etag := image.header.Get("ETag")
	conditional := func(tag string) response {
		return h.send("GET", path+"/image", "", "x-api-key", h.rawKey, "If-None-Match", tag)
	}
	is.True(etag != h.tag(path))
	conditional(etag).want(304).wantHeaders("ETag", etag)
	conditional("W/" + etag).want(304)
	conditional("*").want(304)
	conditional(h.tag(path)).want(200)
	h.client("PATCH", path, `{"name":"Pump / ü"}`).want(200)
	conditional(etag).want(304)
	h.client("PATCH", path, `{"name":"Pump"}`).want(200)
	conditional(etag).want(200).wantHeaders("Content-Disposition", `inline; filename="Pump.svg"`)

	// No 304 where a GET is 404.
	h.client("PATCH", path, `{"data":"no image"}`).want(200)
	forged := strings.TrimSuffix(h.tag(path), `"`) + `.image"`
	for _, tag := range []string{forged, "*", etag} {
		got := conditional(tag).wantError(404, "not_found")
		is.True(strings.Contains(got.message(), "image"))
		got.wantHeaders("Cache-Control", "no-store")
	}

	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("x", 6<<20) // more than the cache keeps
	large := create("-rf.PNG", "data:image/png;base64,"+base64.StdEncoding.EncodeToString([]byte(png)))
	for range 2 {
		image = h.client("GET", large+"/image", "").want(200)
		is.True(bytes.Equal(image.body, []byte(png)))
		image.wantHeaders("Content-Type", "image/png")
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
	get("q=VENTIL+1+49").wantBody(200, `[{"id":100,"name":"Ventil 1 49_%","type":"a/b","folderId":2}]`)
	get("q=49%202%20ENT&fields=data,size").wantBody(200, `[{"data":"xy","size":2}]`)
	first := get("q=_%25&x=1").want(200)
	is.Equal(len(first.array()), 100) // the default limit
	first.wantHeaders("Link", `<?limit=100&after=100&q=_%25&x=1>; rel="next"`, "Cache-Control", "no-store",
		"Vary", "Accept-Encoding")
	rest := get("limit=100&after=100&q=_%25").want(200)
	is.Equal(len(rest.array()), 50)
	rest.wantHeaders("Link", "")
	get("q=nothing").wantBody(200, `[]`)
	get("q=nothing&fields=data").wantBody(200, `[]`)
	for _, query := range []string{"", "q=", "q=+%09", "q=a&q=b", "q=%00", "q=%ff", "q=%zz", "q=" + strings.Repeat("a", 256)} {
		get(query).wantInvalid("q ")
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
	zipped.wantHeaders("Content-Encoding", "gzip")
	is.Equal(string(zipped.body), string(plain.body))
	is.Equal(len(plain.array()), 3)
	plain.wantHeaders("Link", `<?limit=3&after=153&q=LONG&fields=data>; rel="next"`)
}

func TestSymbols_HaveDetails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)
	h := serveFolder(t, func(o *httpapi.Options) {
		o.Symbols = must(symbols.NewService(memory.New().Symbols(), &symbols.Options{Now: func() time.Time { return now }}))(t)
	})
	created := h.client("POST", "/symbol/folders/1/symbols",
		`{"name":"Gate valve","type":"a/b","data":"ö","tags":["brass"," ä\n"],"meta":{ "b" : 1.0, "a": [ "\u00e4" ] }}`).want(201)
	is.Equal(string(created.body), `{"id":1,"name":"Gate valve","type":"a/b","data":"ö","folderId":1}`)
	const path, details = "/symbol/symbols/1", "?fields=updatedBy,createdAt,id,tags,meta,updatedAt,size"
	want := func(tags, meta, updated string) {
		t.Helper()
		record := fmt.Sprintf(`{"id":1,"size":2,"tags":%s,"meta":%s,"createdAt":"2026-03-30T10:00:00.000Z","updatedAt":"%s","updatedBy":1}`, tags, meta, updated)
		h.client("GET", path+details, "").wantBody(200, record)
		h.client("GET", "/symbol/folders/1/symbols"+details, "").wantBody(200, "["+record+"]")
		h.client("GET", "/symbol/search"+details+"&q=valve", "").wantBody(200, "["+record+"]")
	}
	want(`["brass"," ä\n"]`, `{"b":1.0,"a":["\u00e4"]}`, "2026-03-30T10:00:00.000Z")
	h.client("GET", "/symbol/search?q=BRA+gate&fields=tags", "").wantBody(200, `[{"tags":["brass"," ä\n"]}]`)

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
	h.importZip("/symbol/folders/1/import", archive).want(201)
	h.client("GET", "/symbol/symbols/2?fields=tags,meta,updatedBy", "").wantBody(200,
		`{"tags":["brass"," ä\n"],"meta":{"b":1.0,"a":["\u00e4"]},"updatedBy":1}`)

	for _, body := range []string{
		`{"tags":["a","a"]}`, `{"tags":"a"}`, `{"tags":[1]}`, `{"tags":[""]}`, `{"tags":["\u0000"]}`, `{"tags":["` + strings.Repeat("a", 65) + `"]}`,
		`{"meta":[]}`, `{"meta":"a"}`, `{"meta":{"a":1,"a":2}}`, `{"meta":{"a":"\u0000"}}`, `{"meta":{"a":"` + strings.Repeat("a", 16<<10) + `"}}`,
	} {
		field := body[2:6]
		h.client("PATCH", path, body).wantInvalid(field)
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
