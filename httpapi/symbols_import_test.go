package httpapi_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// onEachStore runs a test with each store, with one connection and two empty folders.
func onEachStore(t *testing.T, test func(t *testing.T, h *harness)) {
	for name, open := range symbolStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := must(symbols.NewService(open(t, 1)(), &symbols.Options{PageSize: 1000}))(t)
			h := serveFolder(t, func(o *httpapi.Options) { o.Symbols = service })
			h.folder("B")
			test(t, h)
		})
	}
}

// importZip sends a zip as an import.
func (h *harness) importZip(path string, archive []byte) response {
	h.t.Helper()
	return h.send("POST", path, string(archive), "x-api-key", h.rawKey, "Content-Type", "application/zip")
}

// zipOf returns a zip of files given as pairs of name and content.
func zipOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w := must(z.Create(files[i]))(t)
		must(io.WriteString(w, files[i+1]))(t)
	}
	is.New(t).NoErr(z.Close())
	return out.Bytes()
}

const svgSymbol = `{"name":"Gate valve","type":"image/svg+xml","content":"PHN2Zy8+","width":300,"height":150}`

func TestImport_RestoresExport(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, h *harness) {
		is := is.New(t)
		for i := range 30 { // over several pages of 1000 bytes
			data := svgSymbol
			if i%3 == 0 {
				data = fmt.Sprintf("text %d %s", i, strings.Repeat("é", i*10))
			}
			h.client("POST", "/symbol/folders/1/symbols", fmt.Sprintf(`{"name":"Gate \ud83e\udd86 %d","type":"image/svg+xml","data":%s}`, i%4, quote(data))).want(201)
		}
		response := h.client("GET", "/symbol/folders/1/export", "").want(200)
		response.wantHeaders("Content-Type", "application/zip", "Content-Disposition", `attachment; filename="A.zip"`,
			"X-Content-Type-Options", "nosniff", "Cache-Control", "no-store")
		names := zipNames(t, response.body)
		is.Equal(len(names), 31)
		is.Equal(strings.Join(names[:5], "|"), "Gate 🦆 0.txt|Gate 🦆 1.svg|Gate 🦆 2.svg|Gate 🦆 3.txt|Gate 🦆 0.svg")
		is.Equal(names[30], "manifest.json")
		is.Equal(h.client("GET", "/symbol/folders/1/export", "").want(200).body, response.body)

		h.importZip("/symbol/folders/2/import", response.body).want(201)
		before := h.client("GET", "/symbol/folders/1/symbols", "").want(200).array()
		after := h.client("GET", "/symbol/folders/2/symbols", "").want(200).array()
		is.Equal(len(after), len(before))
		for i := range before {
			from, to := before[i].(map[string]any), after[i].(map[string]any)
			is.True(from["id"] != to["id"])
			from["id"], from["folderId"] = to["id"], to["folderId"]
			is.Equal(from, to)
		}
	})
}

func TestImport_PlainFiles(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, h *harness) {
		archive := zipOf(t, "valves/", "", "valves/Gate valve.svg", "<svg/>", "valves/.DS_Store", "x", "Globe.SVG", "<svg width='20' height='1in'/>")
		h.importZip("/symbol/folders/2/import?dryRun=true", archive).wantBody(200,
			`{"message":"Symbols that can be imported: 2. Nothing was changed.","dryRun":true,"imported":2,`+
				`"files":[{"file":"valves/Gate valve.svg","name":"Gate valve","type":"image/svg+xml"},`+
				`{"file":"Globe.SVG","name":"Globe","type":"image/svg+xml"}],`+
				`"ignored":[{"file":"valves/","reason":"directory"},{"file":"valves/.DS_Store","reason":"operating system file"}]}`)
		h.client("GET", "/symbol/folders/2/symbols", "").wantBody(200, "[]")

		h.importZip("/symbol/folders/2/import?dryRun=false", archive).wantBody(201,
			`{"message":"Symbols imported: 2.","dryRun":false,"imported":2,`+
				`"files":[{"file":"valves/Gate valve.svg","symbolId":1,"name":"Gate valve","type":"image/svg+xml"},`+
				`{"file":"Globe.SVG","symbolId":2,"name":"Globe","type":"image/svg+xml"}],`+
				`"ignored":[{"file":"valves/","reason":"directory"},{"file":"valves/.DS_Store","reason":"operating system file"}]}`)
		h.client("GET", "/symbol/symbols/1", "").wantBody(200,
			`{"id":1,"name":"Gate valve","type":"image/svg+xml","data":`+quote(svgSymbol)+`,"folderId":2}`)
		is.New(t).True(strings.Contains(string(h.client("GET", "/symbol/symbols/2", "").want(200).body), `\"width\":20,\"height\":96}`))
		h.client("GET", "/symbol/folders/1/symbols", "").wantBody(200, "[]")
	})
}

func TestImport_IsAtomic(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, h *harness) {
		is := is.New(t)
		h.client("POST", "/symbol/folders/1/symbols", `{"name":"n","type":"a/b","data":"d"}`).want(201)
		before := string(h.client("GET", "/symbol/folders/1/symbols", "").want(200).body)
		long := strings.Repeat("x", 256)
		bad := zipOf(t, "good.svg", "<svg/>", "a.gif", "GIF89a", "b.svg", "<svg>", long+".svg", "<svg/>")
		for _, query := range []string{"", "?dryRun=true"} {
			response := h.importZip("/symbol/folders/1/import"+query, bad).wantError(400, "invalid_request")
			is.Equal(response.message(), "3 files cannot be imported")
			is.Equal(fmt.Sprint(response.object()["rejected"]), "[map[file:a.gif reason:broken GIF]"+
				" map[file:b.svg reason:broken SVG: it is not well-formed XML]"+
				" map[file:"+long+".svg reason:name must have at most 255 characters]]")
		}
		for _, path := range []string{"/symbol/folders/9/import", "/symbol/folders/9/import?dryRun=true"} {
			h.importZip(path, zipOf(t, "good.svg", "<svg/>")).wantError(404, "not_found")
			h.importZip(path, bad).wantError(400, "invalid_request") // before 404
		}
		h.client("GET", "/symbol/folders/1/symbols", "").wantBody(200, before)
		h.client("GET", "/symbol/symbols/2", "").wantError(404, "not_found")
	})
}

func TestImport_Statuses(t *testing.T) {
	t.Parallel()
	h := serveFolder(t, func(o *httpapi.Options) {
		o.Limits.Import, o.Limits.Symbol, o.Limits.ImportContents = 100_000, 1000, bundle.Limits{Entries: 3, Total: 1500}
	})
	const path = "/symbol/folders/1/import"
	good := zipOf(t, "a.svg", "<svg/>")
	large := "<svg>" + strings.Repeat(" ", 500) + "</svg>" // 700 bytes in base64
	for name, c := range map[string]struct {
		path    string
		archive []byte
		status  int
		code    string
	}{
		"good":                 {path, good, 201, ""},
		"not a zip":            {path, []byte("hello"), 400, "invalid_request"},
		"no body":              {path, nil, 400, "invalid_request"},
		"empty zip":            {path, zipOf(t), 400, "invalid_request"},
		"nothing to import":    {path, zipOf(t, "a/", "", "Thumbs.db", "x"), 400, "invalid_request"},
		"truncated zip":        {path, good[:len(good)-10], 400, "invalid_request"},
		"id":                   {"/symbol/folders/01/import", good, 400, "invalid_request"},
		"query":                {path + "?dryRun=%zz", good, 400, "invalid_request"},
		"dry run":              {path + "?dryRun=true", good, 200, ""},
		"no dry run":           {path + "?dryRun=", good, 201, ""},
		"yes":                  {path + "?dryRun=yes", good, 400, "invalid_request"},
		"TRUE":                 {path + "?dryRun=TRUE", good, 400, "invalid_request"},
		"twice":                {path + "?dryRun=true&dryRun=true", good, 400, "invalid_request"},
		"maximum of entries":   {path, zipOf(t, "a.svg", "<svg/>", "b.svg", "<svg/>", "c.svg", "<svg/>"), 201, ""},
		"too many":             {path, zipOf(t, "a.svg", "<svg/>", "b.svg", "<svg/>", "c/", "", "d/", ""), 413, "too_large"},
		"one symbol too large": {path, zipOf(t, "a.svg", large+strings.Repeat(" ", 400)), 413, "too_large"},
		"one left out":         {path + "?skip=true", zipOf(t, "a.svg", large+strings.Repeat(" ", 400), "b.svg", "<svg/>"), 201, ""},
		"total too large":      {path, zipOf(t, "a.svg", large, "b.svg", large), 413, "too_large"},
		"body too large":       {path, append(make([]byte, 100_000), good...), 413, "too_large"},
	} {
		t.Log(name)
		response := h.importZip(c.path, c.archive).want(c.status)
		if c.code != "" {
			response.wantError(c.status, c.code)
		}
	}
	h.send("POST", path, string(good), "Content-Type", "application/zip").wantError(401, "unauthorized")
}

func TestImport_ContentType(t *testing.T) {
	t.Parallel()
	h := serveFolder(t)
	good := string(zipOf(t, "a.svg", "<svg/>"))
	send := func(headers ...string) response {
		return h.send("POST", "/symbol/folders/1/import", good, append(headers, "x-api-key", h.rawKey)...)
	}
	for _, mediaType := range []string{"application/zip", "Application/Zip; x=y", "application/json", "text/plain", "zip", ""} {
		send("Content-Type", mediaType).want(201)
	}
	send("Content-Type", "application/zip", "Content-Encoding", "gzip").wantError(415, "unsupported_media_type")
	send().want(201) // as JSON

	request := must(http.NewRequestWithContext(t.Context(), "POST", h.url+"/symbol/folders/1/import", strings.NewReader(good)))(t)
	request.Header.Set("x-api-key", h.rawKey)
	response := must(transport.RoundTrip(request))(t)
	defer response.Body.Close()
	is.New(t).Equal(response.StatusCode, 201)
}

func TestExport_HeadersAndStatuses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for i, c := range []struct{ name, disposition string }{
		{"P&ID / 1", `attachment; filename="P&ID _ 1.zip"`},
		{"图纸", `attachment; filename="__.zip"; filename*=UTF-8''%E5%9B%BE%E7%BA%B8.zip`},
		{"con", `attachment; filename="_con.zip"`},
		{"..", `attachment; filename="symbols.zip"`},
		{strings.Repeat("x", 255), `attachment; filename="` + strings.Repeat("x", 251) + `.zip"`},
	} {
		h.client("POST", "/symbol/folders", `{"name":`+quote(c.name)+`}`).want(201)
		response := h.client("GET", fmt.Sprintf("/symbol/folders/%d/export", i+1), "").want(200)
		response.wantHeaders("Content-Disposition", c.disposition)
		is.Equal(zipNames(t, response.body), []string{"manifest.json"}) // an empty folder
		imported := h.importZip("/symbol/folders/1/import", response.body).want(201)
		is.True(strings.HasPrefix(string(imported.body), `{"message":"Symbols imported: 0.","dryRun":false,"imported":0,"files":[],`))
	}
	head := h.client("HEAD", "/symbol/folders/1/export", "").want(200)
	head.wantHeaders("Content-Type", "application/zip")
	is.Equal(len(head.body), 0)
	h.client("HEAD", "/symbol/folders/9/export", "").want(404)
	h.client("GET", "/symbol/folders/9/export", "").wantError(404, "not_found")
	h.client("GET", "/symbol/folders/x/export", "").wantError(400, "invalid_request")
	h.send("GET", "/symbol/folders/1/export", "").wantError(401, "unauthorized")
}

func TestExport_StoreFailureAborts(t *testing.T) {
	t.Parallel()
	h, store, otherProcess := serveSymbols(t, 1000)
	createFolder(t, otherProcess, "A", 3, 1000)
	store.failAfter(0)
	h.wantTruncated("GET", "/symbol/folders/1/export", "")
	h.wantLog("response aborted")
}

// TestExport_SlowClientHoldsNoConnection: each store has one connection.
func TestExport_SlowClientHoldsNoConnection(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	onEachStore(t, func(t *testing.T, h *harness) {
		random := make([]byte, 700<<10)
		rand.NewChaCha8([32]byte{}).Read(random)
		data := strings.Replace(svgSymbol, "PHN2Zy8+", base64.StdEncoding.EncodeToString(random), 1)
		list := make([]symbols.NewSymbol, 12) // more than all buffers
		for i := range list {
			list[i] = symbols.NewSymbol{Name: "random", Type: "a/b", Data: data}
		}
		must(h.options.Symbols.CreateSymbols(t.Context(), 1, list))(t)

		conn := h.dial()
		conn.SetReadBuffer(16 << 10)
		conn.SetDeadline(time.Now().Add(2 * time.Minute))
		fmt.Fprintf(conn, "GET /symbol/folders/1/export HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n", h.rawKey)
		response := must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		for range 5 {
			h.client("GET", "/symbol/folders/2", "").want(200)
			h.client("PATCH", "/symbol/folders/2", `{"name":"C"}`).want(200)
		}
		conn.SetReadBuffer(4 << 20)
		size := must(io.Copy(io.Discard, response.Body))(t)
		is.New(t).True(size > int64(len(list)*len(random)))
	})
}

func TestImport_Libraries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	for _, name := range []string{"A", "B"} {
		h.folder(name)
	}
	const svg = `PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=`
	library := `<mxlibrary>[{"data":"data:image/svg+xml;base64,` + svg + `","w":9,"h":8,"title":"Gate valve","tags":"brass"},` +
		`{"data":"data:image/svg+xml;base64,` + svg + `"},{"xml":"&amp;lt;mxGraphModel/&amp;gt;","title":"drawn"}]</mxlibrary>`
	h.client("POST", "/symbol/folders/1/import", library).wantError(400, "invalid_request")
	dry := h.client("POST", "/symbol/folders/1/import?skip=true&dryRun=true", library).want(200)
	is.True(strings.HasSuffix(string(dry.body), `"skipped":[{"file":"drawn","reason":"not an image: draw.io would have to draw it"}]}`))
	h.client("POST", "/symbol/folders/1/import?skip=true", library).want(201)
	h.client("POST", "/symbol/folders/1/import?name=Pump", "<svg/>").want(201)
	h.client("POST", "/symbol/folders/1/import", `{"prefix":"p","icons":{"i":{"body":"<g/>"}},"info":{"license":{"title":"L"}}}`).want(201)
	h.client("GET", "/symbol/folders/1/symbols?fields=name%2Ctags,meta", "").wantBody(200,
		`[{"name":"Gate valve","tags":["brass"],"meta":{"height":8,"width":9}},{"name":"A 2","tags":[],"meta":null},`+
			`{"name":"Pump","tags":[],"meta":null},{"name":"i","tags":[],"meta":{"height":16,"license":"L","width":16}}]`)
	h.client("GET", "/symbol/symbols/1/image", "").want(200)
	h.client("POST", "/symbol/folders/1/symbols", `{"name":"text","type":"a/b","data":"x"}`).want(201)

	exported := h.client("GET", "/symbol/folders/1/export?format=drawio", "").want(200)
	exported.wantHeaders("Content-Disposition", `attachment; filename="A.xml"`)
	h.client("POST", "/symbol/folders/2/import", string(exported.body)).want(201)
	h.client("GET", "/symbol/folders/2/symbols?fields=name,tags", "").wantBody(200,
		`[{"name":"Gate valve","tags":["brass"]},{"name":"A 2","tags":[]},{"name":"Pump","tags":[]},{"name":"i","tags":[]}]`)
	h.client("GET", "/symbol/folders/1/export?format=x", "").wantError(400, "invalid_request")
	h.client("POST", "/symbol/folders/1/import?skip=x", library).wantError(400, "invalid_request")
	all := h.client("POST", "/symbol/folders/2/import?skip=true", string(zipOf(t, "a.pdf", "%PDF"))).want(201)
	is.True(strings.Contains(string(all.body), `"imported":0,`))
}

// TestImport_SeveralOfAClient: none waits in its turn for the memory of another, which waits
// for its turn. Some have no memory yet, because their body is small.
func TestImport_SeveralOfAClient(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serveFolder(t, func(o *httpapi.Options) {
		o.Limits.Memory, o.Limits.StoreTimeout, o.Limits.ImportContents.Ratio = 8<<20, time.Second, 2000
	})
	archives := []string{"<svg>" + strings.Repeat(" ", 1<<20) + "</svg>", blankZip(t, 1, 2<<20)}
	responses := make(chan response)
	const count = 6 // of each
	for i := range count {
		data := symbols.NewSymbol{Name: "a", Type: "a/b", Data: strings.Repeat("a", 1<<20)}
		symbol := must(h.options.Symbols.CreateSymbol(t.Context(), 1, data))(t)
		is.NoErr(h.options.Symbols.DeleteSymbol(t.Context(), symbol.ID, symbols.Any, 0))
		for _, archive := range archives {
			go func() { responses <- h.importZip("/symbol/folders/1/import", []byte(archive)) }()
		}
		go func() { responses <- h.client("POST", fmt.Sprintf("/symbol/trash/%d/restore", i+1), "") }()
	}
	for range 3 * count {
		if got := <-responses; got.status >= 300 {
			t.Errorf("%.30s: status %d: %s", got.request, got.status, got.body)
		}
	}
}
