package httpapi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// register adds a file and registers it as the export of source.
func (h *harness) register(source, name, content string) {
	h.t.Helper()
	h.files[name] = &fstest.MapFile{Data: []byte(content), ModTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	h.client("POST", "/viewer/exports/register", fmt.Sprintf(`{"sourceFileUrl":%q,"exportedUrl":%q}`, source, filesURL+name)).want(201)
}

func exportBody(source string) string { return `{"sourceFileUrl":` + quote(source) + `}` }

func batchBody(sources ...string) string {
	var items []string
	for _, source := range sources {
		items = append(items, exportBody(source))
	}
	return `{"items":[` + strings.Join(items, ",") + `]}`
}

func TestExports_Register(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":" s ","exportedUrl":"https://files.example/out/a.pdf"}`).wantBody(201,
		`{"success":true,"record":{"id":1,"sourceFileUrl":"s","exportedUrl":"https://files.example/out/a.pdf","fileName":null,`+
			`"createdAt":"2026-03-30T10:00:00.123Z","updatedAt":"2026-03-30T10:00:00.123Z"}}`)
	h.clock.Add(time.Second)
	h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/b.pdf","fileName":"../x"}`).wantBody(200,
		`{"success":true,"record":{"id":1,"sourceFileUrl":"s","exportedUrl":"https://files.example/out/b.pdf","fileName":"../x",`+
			`"createdAt":"2026-03-30T10:00:00.123Z","updatedAt":"2026-03-30T10:00:01.123Z"}}`)
	kept := h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/c.pdf"}`).want(200).object()
	is.Equal(kept["record"].(map[string]any)["fileName"], "../x") // the earlier name
	for _, blank := range []string{`null`, `""`, `" \t"`} {
		body := h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/b.pdf","fileName":`+blank+`}`).want(200).object()
		is.Equal(body["record"].(map[string]any)["fileName"], nil)
	}
	for _, bad := range []string{`{}`, `{"sourceFileUrl":"s"}`, `{"exportedUrl":"https://files.example/out/b.pdf"}`,
		`{"sourceFileUrl":"s","exportedUrl":"https://other.example/b.pdf"}`, `{"sourceFileUrl":"s","exportedUrl":5}`,
		`{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/b.pdf","fileName":5}`,
		`{"sourceFileUrl":"s","exportedUrl":"https://u:p@files.example/out/b.pdf"}`} {
		h.client("POST", "/viewer/exports/register", bad).wantError(400, "invalid_request")
	}
}

func TestExports_RegisterWith(t *testing.T) {
	t.Parallel()
	const body = `{"sourceFileUrl":"s","exportedUrl":"https://files.example/out/a.pdf"}`
	h := serve(t, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterWithAdminKey })
	h.client("POST", "/viewer/exports/register", body).wantError(401, "unauthorized")
	h.admin("POST", "/viewer/exports/register", body).want(201)
	off := serve(t, func(o *httpapi.Options) { o.RegisterWith = httpapi.RegisterOff })
	off.client("POST", "/viewer/exports/register", body).wantError(404, "not_found")
	off.admin("POST", "/viewer/exports/register", body).wantError(404, "not_found")
}

func TestExports_Single(t *testing.T) {
	t.Parallel()
	h := serve(t)
	h.register("https://viewer.example/1", "plan.pdf", "%PDF-1.7")
	response := h.client("POST", "/viewer/exports/download", exportBody("  https://viewer.example/1\n")).wantBody(200, "%PDF-1.7")
	response.wantHeaders("Content-Type", "application/pdf", "Content-Length", "8",
		"Content-Disposition", `attachment; filename="plan.pdf"`, "X-Content-Type-Options", "nosniff",
		"Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT", "Cache-Control", "no-store")
	for _, empty := range []string{"?responseType=", "?other=1", "?"} {
		h.client("POST", "/viewer/exports/download"+empty, exportBody("https://viewer.example/1")).wantBody(200, "%PDF-1.7")
	}
	h.register("json", "data.json", `{"a":1}`)
	response = h.client("POST", "/viewer/exports/download", exportBody("json")).want(200)
	response.wantHeaders("Content-Type", "application/octet-stream") // a binary response is never JSON
	is.New(t).Equal(string(response.body), `{"a":1}`)

	h.client("POST", "/viewer/exports/download", exportBody("https://viewer.example/1/")).wantError(404, "not_found") // compared exactly
	delete(h.files, "plan.pdf")
	h.client("POST", "/viewer/exports/download", exportBody("https://viewer.example/1")).wantError(502, "export_failed")
	for _, bad := range []string{`{}`, ``, exportBody(""), exportBody(" "), exportBody("\u3000"), `{"sourceFileUrl":null}`, `{"sourceFileUrl":1}`, exportBody("a\x00b"), exportBody(strings.Repeat("x", 8193))} {
		h.client("POST", "/viewer/exports/download", bad).wantError(400, "invalid_request")
	}
}

func TestExports_URLs(t *testing.T) {
	t.Parallel()
	h := serve(t, withOpener(openerFunc(func(context.Context, *url.URL) (*exports.File, error) {
		panic("URLs are returned, not contacted")
	})))
	h.register("1", "a.pdf", "a")
	h.register("2", "b.pdf", "b")
	h.client("POST", "/viewer/exports/download?responseType=urls", exportBody("1")).wantBody(200,
		`{"success":true,"exportedUrl":"https://files.example/out/a.pdf"}`)
	h.client("POST", "/viewer/exports/download?responseType=urls", exportBody("3")).wantError(404, "not_found")
	h.client("POST", "/viewer/exports/download-batch?responseType=urls", batchBody("2", "3", "1", "2")).wantBody(200,
		`{"success":true,"exportedUrls":["https://files.example/out/b.pdf","https://files.example/out/a.pdf","https://files.example/out/b.pdf"],`+
			`"skipped":[{"sourceFileUrl":"3","reason":"not registered"}]}`)
	h.client("POST", "/viewer/exports/download-batch?responseType=urls", batchBody("1")).wantBody(200,
		`{"success":true,"exportedUrls":["https://files.example/out/a.pdf"],"skipped":[]}`)
	for _, bad := range []string{"?responseType=URLS", "?responseType=binary", "?responseType=urls&responseType=urls", "?responseType=%zz", "?responseType=urls%20"} {
		h.client("POST", "/viewer/exports/download"+bad, exportBody("1")).wantError(400, "invalid_request")
		h.client("POST", "/viewer/exports/download-batch"+bad, batchBody("1")).wantError(400, "invalid_request")
	}
}

func TestExports_URLsOfPrivateFilesAreLinks(t *testing.T) {
	t.Parallel()
	const path = "/viewer/exports/links/"
	for prefix, publicURL := range map[string]string{"": "", "/canvas": "", "/api/v1": "https://canvas.example/tools/"} {
		t.Run(prefix+publicURL, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			h := newHarness(t, func(o *httpapi.Options) { o.PublicURL = publicURL })
			if publicURL != "" {
				h.options.Prefix = prefix
				h.listen(httpapi.Handler(&h.options))
			} else {
				h.listen(http.StripPrefix(prefix, httpapi.Handler(&h.options)))
			}
			api := h.url + prefix
			if publicURL != "" {
				api = "https://canvas.example/tools" + prefix
			}
			h.url += prefix
			h.register("1", "a.pdf", "content")
			h.register("2", "b b.pdf", "content")
			url := func(source string) string {
				url, _ := h.client("POST", "/viewer/exports/download?responseType=urls", exportBody(source)).want(200).object()["exportedUrl"].(string)
				return url
			}
			first := url("1")
			is.True(strings.HasPrefix(first, api+path) && strings.HasSuffix(first, "/a.pdf"))
			h.send("GET", strings.TrimPrefix(first, api), "").wantBody(200, "content")
			batch := h.client("POST", "/viewer/exports/download-batch?responseType=urls", batchBody("1", "2", "3")).want(200).object()
			urls := batch["exportedUrls"].([]any)
			is.Equal(len(urls), 2)
			is.Equal(urls[0], first) // the same link
			is.True(strings.HasSuffix(urls[1].(string), "/b%20b.pdf"))
			h.clock.Set(h.clock.Now().Add(12 * time.Hour))
			is.True(url("1") != first) // half of its lifetime is over
			h.send("GET", strings.TrimPrefix(first, api), "").want(200)

			delete(h.files, "a.pdf")
			h.client("POST", "/viewer/exports/download?responseType=urls", exportBody("1")).wantError(502, "export_failed")
			batch = h.client("POST", "/viewer/exports/download-batch?responseType=urls", batchBody("1", "2")).want(200).object()
			is.Equal(len(batch["exportedUrls"].([]any)), 1)
			is.Equal(len(batch["skipped"].([]any)), 1)
		})
	}
}

func TestExports_Batch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.register("1", "x/plan.pdf", "one")
	h.register("2", "y/plan.pdf", "two")
	h.register("3", "gone.pdf", "three")
	delete(h.files, "gone.pdf")

	response := h.client("POST", "/viewer/exports/download-batch", batchBody("1", "2", "1")).want(200)
	response.wantHeaders("Content-Type", "application/zip",
		"Content-Disposition", `attachment; filename="canvas-exports.zip"`)
	is.Equal(strings.Join(zipNames(t, response.body), " "), "plan.pdf plan-1.pdf plan-2.pdf")

	response = h.client("POST", "/viewer/exports/download-batch", batchBody("3", "1", "4")).want(200)
	is.Equal(strings.Join(zipNames(t, response.body), " "), "plan.pdf manifest.json")

	body := h.client("POST", "/viewer/exports/download-batch", batchBody("4", "5")).wantError(404, "not_found").object()
	is.Equal(fmt.Sprint(body["skipped"]), "[map[reason:not registered sourceFileUrl:4] map[reason:not registered sourceFileUrl:5]]")
	body = h.client("POST", "/viewer/exports/download-batch", batchBody("3", "5")).wantError(502, "export_failed").object()
	is.Equal(fmt.Sprint(body["skipped"]), "[map[reason:file cannot be fetched sourceFileUrl:3] map[reason:not registered sourceFileUrl:5]]")

	for _, bad := range []string{``, `{}`, `{"items":null}`, `{"items":[]}`, `{"items":{}}`, `{"items":"1"}`, `{"items":["1"]}`, `{"items":[null]}`,
		batchBody("", " "), `{"items":[{"sourceFileUrl":1},{"sourceFileUrl":null}]}`, `{"items":[{"sourceFileUrl":"1","path":7}]}`,
		`{"items":[{"sourceFileUrl":"1","path":"a\u0000"}]}`, `{"items":[{"sourceFileUrl":"1","fileName":"a\u0000"}]}`,
		batchBody(strings.Split(strings.Repeat("1", 1001), "")...),
	} {
		h.client("POST", "/viewer/exports/download-batch", bad).wantError(400, "invalid_request")
	}
	body = h.client("POST", "/viewer/exports/download-batch?responseType=urls",
		`{"items":["x",null,{"sourceFileUrl":" "},{"sourceFileUrl":{"a":[1]}},{"sourceFileUrl":"\u0000"},{"sourceFileUrl":"1","path":null},{}]}`).want(200).object()
	is.Equal(len(body["exportedUrls"].([]any)), 1)
	var skipped []any
	for _, element := range body["skipped"].([]any) {
		item := element.(map[string]any)
		skipped = append(skipped, item["sourceFileUrl"])
		is.True(strings.Contains(item["reason"].(string), "sourceFileUrl"))
	}
	is.Equal(skipped, []any{"", "", " ", "", "\x00", ""})
	h.client("POST", "/viewer/exports/download-batch", batchBody(strings.Split(strings.Repeat("1", 1000), "")...)).want(200)
}

func zipNames(t *testing.T, archive []byte) []string {
	t.Helper()
	r := must(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))(t)
	var names []string
	for _, f := range r.File {
		body := must(f.Open())(t)
		must(io.Copy(io.Discard, body))(t)
		names = append(names, f.Name)
	}
	return names
}

func TestExports_FileNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t)
	h.register("s", "a b.pdf", "x")
	for given, want := range map[string]string{
		"":                           "a b.pdf",
		"Résumé \"1\".pdf":           "Résumé _1_.pdf",
		"图纸.dwg":                     "图纸.dwg",
		"../../etc/passwd":           ".._.._etc_passwd",
		"CON.pdf":                    "_CON.pdf",
		"50%25 off; filename=x.exe":  "50%25 off; filename=x.exe",
		"line\r\nSet-Cookie: a=b":    "lineSet-Cookie_ a=b",
		`back\slash'quote(),=@~.pdf`: `back_slash'quote(),=@~.pdf`,
	} {
		t.Log(given)
		h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":"`+filesURL+`a%20b.pdf","fileName":`+quote(given)+`}`).want(200)
		disposition := h.client("POST", "/viewer/exports/download", exportBody("s")).want(200).header.Get("Content-Disposition")
		kind, params, err := mime.ParseMediaType(disposition)
		is.NoErr(err)
		is.Equal(kind, "attachment")
		is.Equal(params["filename"], want)
		is.True(strings.HasPrefix(disposition, `attachment; filename="`))
		is.True(!strings.ContainsFunc(disposition, func(r rune) bool { return r < ' ' || r > '~' }))
	}
}

func TestExports_FailedBatchLogsOneLine(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*httpapi.Options){
		"of the API":     func(*httpapi.Options) {},
		"of LogRequests": func(o *httpapi.Options) { o.Observe = httpapi.LogRequests(o.Logger) },
	} {
		t.Run(name, func(t *testing.T) { failedBatchLogsOneLine(t, change) })
	}
}

func failedBatchLogsOneLine(t *testing.T, change func(*httpapi.Options)) {
	is := is.New(t)
	h := serve(t, withOpener(truncatedOpener{}), change)
	sources := []string{"not registered"}
	for i := range 20 {
		source := fmt.Sprint("https://viewer.example/", i, "/", strings.Repeat("s", 8000))
		h.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"`+source+`","exportedUrl":"https://x.example/gone"}`).want(201)
		sources = append(sources, source)
	}
	h.client("POST", "/viewer/exports/download-batch", batchBody(sources...)).wantError(502, "export_failed")
	eventually(t, func() bool { return strings.Contains(h.log.String(), "/viewer/exports/download-batch") })
	var log string
	for line := range strings.Lines(h.log.String()) {
		if strings.Contains(line, "/viewer/exports/download-batch") {
			is.Equal(log, "")
			log = line
		}
	}
	is.True(strings.Contains(log, "level=WARN"))
	is.True(strings.Contains(log, "20 files skipped"))
	is.True(strings.Contains(log, "nothing there"))
	is.True(len(log) <= 16_000) // with the first resources
}

// openSized opens files with the size that ends their path. It claims a size of -1
// for hosts named unknown, and delivers no more than half a file for hosts named short.
func openSized(_ context.Context, u *url.URL) (*exports.File, error) {
	size, err := strconv.Atoi(path.Base(u.Path))
	if err != nil {
		return nil, exports.ErrFailed
	}
	file := &exports.File{Body: io.NopCloser(bytes.NewReader(make([]byte, size))), Size: int64(size)}
	switch u.Host {
	case "unknown":
		file.Size = -1
	case "short":
		file.Size = int64(2 * size)
	}
	return file, nil
}

func TestDownloadBatch_ContentLength(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	h := serve(t, withOpener(openerFunc(openSized)))
	register := func(exported string) string {
		return h.export(exported, exported).SourceURL
	}
	var many []string
	for i := range 17 {
		many = append(many, register(fmt.Sprintf("https://many/%d/100", i)))
	}
	large, small, gone := register("https://known/3000000"), register("https://unknown/100"), register("https://known/gone")
	for name, c := range map[string]struct {
		sources []string
		known   bool
		broken  bool
	}{
		"all known":            {[]string{large, small, many[0]}, true, false},
		"one gone":             {[]string{gone, large, "unregistered", many[0]}, true, false},
		"one large unknown":    {[]string{large, register("https://unknown/3000000")}, false, false},
		"more than prefetched": {many, false, false},
		"known but truncated":  {[]string{many[0], register("https://short/3000000")}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			send := func() *http.Response {
				return h.open("POST", "/viewer/exports/download-batch", batchBody(c.sources...))
			}
			response := send()
			for range 50 { // a busy machine opens files late
				if !c.known || response.ContentLength >= 0 {
					break
				}
				response.Body.Close()
				response = send()
			}
			defer response.Body.Close()
			is.Equal(response.StatusCode, 200)
			is.Equal(response.ContentLength >= 0, c.known)
			is.Equal(len(response.TransferEncoding) == 0, c.known) // otherwise chunked
			body, err := io.ReadAll(response.Body)
			is.Equal(err != nil, c.broken)
			if c.known && !c.broken {
				is.Equal(int64(len(body)), response.ContentLength)
				zipNames(t, body)
			}
		})
	}
}

func TestExports_Resolve(t *testing.T) {
	t.Parallel()
	made := fstest.MapFS{"made.txt": {Data: []byte("made"), ModTime: time.Unix(1e9, 0)}}
	h := serve(t, withExports(exports.Options{
		Openers: []exports.Opener{must(files.New(filesURL, made))(t)},
		Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			switch r.Source {
			case "made":
				return exports.Resolution{ExportedURL: filesURL + "made.txt", FileName: "made on demand.txt"}, nil
			case "soon":
				return exports.Resolution{}, &exports.NotReadyError{RetryAfter: 1500 * time.Millisecond}
			}
			return exports.Resolution{}, exports.ErrNotFound
		},
	}))
	response := h.client("POST", "/viewer/exports/download", exportBody("made")).wantBody(200, "made")
	response.wantHeaders("Content-Disposition", `attachment; filename="made on demand.txt"`)
	named := h.client("POST", "/viewer/exports/download", `{"sourceFileUrl":"made","fileName":"mine.txt"}`).want(200)
	named.wantHeaders("Content-Disposition", `attachment; filename="mine.txt"`)
	h.client("POST", "/viewer/exports/download", exportBody("other")).wantError(404, "not_found")
	for path, body := range map[string]string{"download": exportBody("soon"), "download-batch": batchBody("soon", "other"), "links": batchBody("soon")} {
		h.client("POST", "/viewer/exports/"+path, body).wantError(503, "not_ready").wantHeaders("Retry-After", "2")
	}
	link := h.client("POST", "/viewer/exports/links", `{"items":[{"sourceFileUrl":"made","path":"a/b"},{"sourceFileUrl":"soon"}]}`).want(201).object()
	archive := h.send("GET", "/viewer/exports/"+link["url"].(string), "").want(200)
	is.New(t).Equal(strings.Join(zipNames(t, archive.body), " "), "a/b/made on demand.txt manifest.json")
}

// TestExports_ResolveShowsNoCause has errors of other services, whose texts or statuses must not
// be those of the response.
func TestExports_ResolveShowsNoCause(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{
		symbols.ErrInvalid, symbols.ErrFolderNotFound, &symbols.MissingError{Err: symbols.ErrSymbolNotFound, ID: 1},
		keys.ErrUnknown, exports.ErrInvalid, exports.ErrTooLarge, &httpapi.DeniedError{Message: "secret"},
	} {
		wantFailure(t, fmt.Errorf("secret: %w", cause), 502, "export_failed")
		wantFailure(t, fmt.Errorf("secret: %w: %w", cause, exports.ErrForbidden), 502, "export_failed")
		wantFailure(t, fmt.Errorf("secret: %w: %w", cause, context.DeadlineExceeded), 504, "export_timeout")
	}
}

// wantFailure has an Opener and a Resolve that return err.
func wantFailure(t *testing.T, err error, status int, code string) {
	t.Helper()
	h := serve(t, withExports(exports.Options{
		Openers: []exports.Opener{openerFunc(func(context.Context, *url.URL) (*exports.File, error) { return nil, err })},
		Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			if r.Source == "resolved" {
				return exports.Resolution{ExportedURL: "x://host/file"}, nil
			}
			return exports.Resolution{}, err
		},
	}))
	for _, source := range []string{"resolved", "other"} {
		for path, body := range map[string]string{"download": exportBody(source), "download-batch": batchBody(source), "links": batchBody(source)} {
			response := h.client("POST", "/viewer/exports/"+path, body).wantError(status, code)
			if strings.Contains(string(response.body), "secret") {
				t.Errorf("%s after %v: %s", path, err, response.body)
			}
		}
	}
}

// fullStore is a store that registers nothing.
type fullStore struct {
	exports.Store
	exports.LinkStore
}

func (fullStore) Put(context.Context, exports.Export, exports.PutRule) (exports.Export, bool, error) {
	return exports.Export{}, false, errors.New("disk full")
}

func TestExports_ResolveUnavailable(t *testing.T) {
	t.Parallel()
	h := serve(t, func(o *httpapi.Options) {
		store := memory.New().Exports()
		opener := must(files.New(filesURL, fstest.MapFS{"a": {Data: []byte("a")}}))(t)
		o.Exports = must(exports.NewService(fullStore{store, store.(exports.LinkStore)}, &exports.Options{
			Openers: []exports.Opener{opener},
			Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
				return exports.Resolution{ExportedURL: filesURL + "a", Register: r.Source == "stored"}, nil
			},
		}))(t)
	})
	for _, path := range []string{"download", "links"} {
		h.client("POST", "/viewer/exports/"+path, exportBody("stored")).wantError(503, "unavailable")
	}
	for _, path := range []string{"download-batch", "download-batch?responseType=urls", "links"} {
		h.client("POST", "/viewer/exports/"+path, batchBody("other", "stored")).wantError(503, "unavailable")
	}
}
