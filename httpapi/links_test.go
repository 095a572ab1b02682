package httpapi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
	"example.com/canvasback/keys"
)

// linkHarness is a harness whose exported files lie in a directory.
type linkHarness struct {
	*harness
	dir string
}

func serveLinks(t *testing.T, options exports.Options, change ...func(*httpapi.Options)) *linkHarness {
	t.Helper()
	l := &linkHarness{dir: t.TempDir()}
	opener := must(files.New(filesURL, os.DirFS(l.dir)))(t)
	options.Openers = []exports.Opener{opener}
	l.harness = serve(t, append([]func(*httpapi.Options){withExports(options)}, change...)...)
	return l
}

func (l *linkHarness) write(name, content string) {
	l.t.Helper()
	is.New(l.t).NoErr(os.WriteFile(filepath.Join(l.dir, name), []byte(content), 0o600))
}

// add writes a file and registers it for a source of the same name.
func (l *linkHarness) add(name, content string) {
	l.t.Helper()
	l.write(name, content)
	body := `{"sourceFileUrl":` + quote(name) + `,"exportedUrl":` + quote(filesURL+name) + `}`
	l.client("POST", "/viewer/exports/register", body)
}

type linkBody struct {
	Success   bool    `json:"success"`
	URL       string  `json:"url"`
	FileName  string  `json:"fileName"`
	Size      *int64  `json:"size"`
	Resumable bool    `json:"resumable"`
	ETag      *string `json:"etag"`
	ExpiresAt string  `json:"expiresAt"`
	Skipped   []any   `json:"skipped"`
}

const linksPath = "/viewer/exports/links"

// create makes a link and returns it with its path.
func (l *linkHarness) create(body string) (link linkBody, path string) {
	l.t.Helper()
	l.client("POST", linksPath, body).want(201).into(&link)
	is.New(l.t).True(strings.HasPrefix(link.URL, "links/")) // relative to linksPath
	return link, "/viewer/exports/" + link.URL
}

var (
	largeContent = strings.Repeat("canvasback ", 200_000)
	smallContent = "small"
)

func TestLinks_ZipIsDeliveredInRanges(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := serveLinks(t, exports.Options{})
	l.add("large.bin", largeContent)
	l.add("small.txt", smallContent)
	link, path := l.create(batchBody("large.bin", "missing", "small.txt"))
	is.True(link.Success && link.Resumable)
	is.Equal(link.FileName, "canvas-exports.zip")
	is.Equal(len(link.Skipped), 1)

	full := l.send("GET", path, "").want(200)
	is.Equal(*link.Size, int64(len(full.body)))
	full.wantHeaders("ETag", *link.ETag, "Content-Length", strconv.Itoa(len(full.body)))
	for name, want := range map[string]string{
		"Accept-Ranges": "bytes", "Content-Type": "application/zip", "Referrer-Policy": "no-referrer",
		"Cache-Control": "private, no-cache", "Content-Disposition": `attachment; filename="canvas-exports.zip"`,
		"Last-Modified": "",
	} {
		is.Equal(full.header.Get(name), want)
	}
	archive := must(zip.NewReader(bytes.NewReader(full.body), int64(len(full.body))))(t)
	is.Equal(len(archive.File), 3)
	for i, want := range []string{largeContent, smallContent} {
		f := must(archive.File[i].Open())(t)
		content := must(io.ReadAll(f))(t)
		is.True(string(content) == want)
	}

	other := strings.TrimSuffix(path, link.FileName) + "any%20name.zip"
	part := l.send("GET", other, "", "Range", "bytes=100-199", "If-Range", *link.ETag).want(206)
	is.True(bytes.Equal(part.body, full.body[100:200]))
	part.wantHeaders("Content-Range", "bytes 100-199/"+strconv.Itoa(len(full.body)))
	is.True(bytes.Equal(l.send("GET", path, "", "Range", "bytes=-50").want(206).body, full.body[len(full.body)-50:]))
	is.Equal(len(l.send("GET", path, "", "Range", "bytes=0-1", "If-Range", `"other"`).want(200).body), len(full.body))
	is.Equal(len(l.send("GET", path, "", "Range", "lines=0-1").want(200).body), len(full.body))

	unsatisfiable := l.send("GET", path, "", "Range", "bytes=99999999-").wantError(416, "range_not_satisfiable")
	unsatisfiable.wantHeaders("Content-Range", "bytes */"+strconv.Itoa(len(full.body)))
	unchanged := l.send("GET", path, "", "If-None-Match", *link.ETag).want(304)
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Disposition"} { // RFC 9110, section 15.4.5
		is.Equal(unchanged.header.Get(name), "")
	}
	head := l.send("HEAD", path, "", "Range", "bytes=0-1").want(200)
	head.wantHeaders("Content-Length", strconv.Itoa(len(full.body)), "ETag", *link.ETag)
	l.send("GET", path, "", "If-Match", `"other"`).wantError(412, "precondition_failed")

	several := l.send("GET", path, "", "Range", "bytes=0-9,2000000-2000009,-5").want(206)
	mediaType, params, err := mime.ParseMediaType(several.header.Get("Content-Type"))
	is.NoErr(err)
	is.Equal(mediaType, "multipart/byteranges")
	several.wantHeaders("Content-Length", strconv.Itoa(len(several.body)))
	parts := multipart.NewReader(bytes.NewReader(several.body), params["boundary"])
	for _, want := range [][]byte{full.body[:10], full.body[2000000:2000010], full.body[len(full.body)-5:]} {
		p := must(parts.NextRawPart())(t)
		content := must(io.ReadAll(p))(t)
		is.True(bytes.Equal(content, want))
	}
	is.True(!strings.Contains(l.log.String(), strings.Split(path, "/")[4])) // the token
}

func TestLinks_SingleFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := serveLinks(t, exports.Options{})
	l.add("plan é.pdf", largeContent)
	link, path := l.create(exportBody("plan é.pdf"))
	is.Equal(link.FileName, "plan é.pdf")
	is.Equal(*link.Size, int64(len(largeContent)))
	full := l.send("GET", path, "").want(200)
	is.True(string(full.body) == largeContent)
	full.wantHeaders("Content-Type", "application/pdf")
	is.True(full.header.Get("Last-Modified") != "")
	l.send("GET", path, "", "Range", "bytes=7-20").wantBody(206, largeContent[7:21])
	is.Equal(l.admin("GET", "/admin/api-keys/1", "").object()["useCount"], 2.0) // registering and creating

	l.add("empty", "")
	_, path = l.create(exportBody("empty"))
	is.Equal(len(l.send("GET", path, "").want(200).body), 0)
}

// TestLinks_AreNoScripts requires links to have no media type that a page runs.
func TestLinks_AreNoScripts(t *testing.T) {
	t.Parallel()
	const unknown = "application/octet-stream"
	for mediaType, want := range map[string]string{
		"text/javascript; charset=utf-8": unknown, "application/javascript": unknown, "application/x-javascript": unknown, "TEXT/ECMAScript": unknown,
		"text/jscript": unknown, "text/livescript": unknown, "text/javascript1.5": unknown, "application/postscript": "application/postscript",
	} {
		l := &linkHarness{harness: serve(t, withOpener(openerFunc(func(context.Context, *url.URL) (*exports.File, error) {
			return &exports.File{Type: mediaType, Size: 1, Body: io.NopCloser(strings.NewReader("1"))}, nil
		})))}
		l.export("a", filesURL+"a")
		_, path := l.create(exportBody("a"))
		response := l.send("GET", path, "").want(200)
		is.New(t).Equal(response.header.Get("Content-Type"), want)
		is.New(t).Equal(response.header.Get("X-Content-Type-Options"), "nosniff")
	}
}

func TestLinks_InvalidRequests(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := serveLinks(t, exports.Options{})
	l.add("a", smallContent)
	for _, body := range []string{
		`{}`, ``, `{"sourceFileUrl":"a","items":[{"sourceFileUrl":"a"}]}`, `{"items":[]}`, `{"items":[{}]}`,
		`{"sourceFileUrl":" "}`, `{"sourceFileUrl":null}`, `{"items":null}`, `{"items":[null]}`, `{"sourceFileUrl":1}`, `{"items":{}}`, `[]`,
	} {
		l.client("POST", linksPath, body).wantError(400, "invalid_request")
	}
	l.client("POST", linksPath, exportBody("b")).wantError(404, "not_found")
	missing := l.client("POST", linksPath, batchBody("b", "c")).wantError(404, "not_found").object()
	is.Equal(len(missing["skipped"].([]any)), 2)
	is.NoErr(os.Remove(filepath.Join(l.dir, "a")))
	l.client("POST", linksPath, exportBody("a")).wantError(502, "export_failed")
	l.client("POST", linksPath, batchBody("a", "b")).wantError(502, "export_failed")
	l.send("POST", linksPath, exportBody("a")).wantError(401, "unauthorized")
	for _, path := range []string{"/x/y", "/" + strings.Repeat("A", 43) + "/y"} {
		l.send("GET", linksPath+path, "").wantError(404, "not_found")
	}
}

// restlessOpener opens a file that changes all the time.
type restlessOpener struct{ exports.RangeOpener }

func (o restlessOpener) OpenRange(context.Context, *url.URL, exports.Part) (io.ReadCloser, error) {
	return nil, exports.ErrChanged
}

func TestLinks_FileThatChangesAllTheTimeIsAnError(t *testing.T) {
	t.Parallel()
	opener := must(files.New(filesURL, fstest.MapFS{"a": {Data: []byte(largeContent), ModTime: time.Unix(1e9, 0)}}))(t)
	l := &linkHarness{harness: serve(t, withOpener(restlessOpener{opener}))}
	l.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"a","exportedUrl":`+quote(filesURL+"a")+`}`)
	for _, body := range []string{exportBody("a"), batchBody("a")} {
		_, path := l.create(body)
		l.send("GET", path, "").wantError(502, "export_failed")
	}
}

func TestLinks_ChangedFileIsReplacedBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	l := serveLinks(t, exports.Options{}, func(o *httpapi.Options) { o.Observe = seen.observe })
	l.add("a", largeContent)
	l.add("b", smallContent)
	link, path := l.create(batchBody("a", "b"))
	l.write("a", smallContent+"er")
	changed := l.send("GET", path, "", "Range", "bytes=5-10").want(200)
	is.Equal(len(seen.last(t, 4).Resources), 2)
	is.True(changed.header.Get("ETag") != *link.ETag)
	changed.wantHeaders("Content-Length", strconv.Itoa(len(changed.body)))
	is.Equal(zipNames(t, changed.body), []string{"a", "b"})

	is.NoErr(os.Remove(filepath.Join(l.dir, "a")))
	gone := l.send("GET", path, "", "Range", "bytes=5-10", "If-Range", changed.header.Get("ETag")).want(200)
	is.Equal(zipNames(t, gone.body), []string{"b", "manifest.json"})
	is.NoErr(os.Remove(filepath.Join(l.dir, "b")))
	l.send("GET", path, "").wantError(502, "export_failed")
	l.write("b", smallContent)
	is.Equal(zipNames(t, l.send("GET", path, "").want(200).body), []string{"b", "manifest.json"})
}

func TestLinks_ChangeAfterTheFirstByteResets(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := serveLinks(t, exports.Options{})
	for _, name := range []string{"a", "b", "c", "d"} {
		l.add(name, strings.Repeat(largeContent, 4))
	}
	link, path := l.create(batchBody("a", "b", "c", "d"))
	l.write("d", "changed")
	l.wantTruncated("GET", path, "")
	next := l.send("GET", path, "", "Range", "bytes=5-10", "If-Range", *link.ETag).want(200)
	is.True(next.header.Get("ETag") != *link.ETag)
	is.Equal(zipNames(t, next.body), []string{"a", "b", "c", "d"})
}

func TestLinks_EndWithTheirKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	aborted := make(chan struct{}, 1)
	l := serveLinks(t, exports.Options{}, func(o *httpapi.Options) {
		o.Observe = func(_ context.Context, seen httpapi.Observation) {
			if seen.Aborted {
				aborted <- struct{}{}
			}
		}
	})
	l.add("a", strings.Repeat(largeContent, 20)) // more than sockets buffer
	_, path := l.create(exportBody("a"))
	l.send("GET", path, "", "Range", "bytes=0-9").want(206)
	response := l.open("GET", path, "")
	must(io.ReadFull(response.Body, make([]byte, 100)))(t)

	id := strconv.Itoa(int(l.admin("GET", "/admin/api-keys", "").want(200).array()[0].(map[string]any)["id"].(float64)))
	l.admin("PATCH", "/admin/api-keys/"+id, `{"isActive":false}`).want(200)
	l.send("GET", path, "", "Range", "bytes=0-9").wantError(403, "forbidden")
	<-aborted // although nothing is read
	n, err := io.Copy(io.Discard, response.Body)
	is.True(err != nil)
	is.True(n < int64(len(largeContent))*20)

	l.admin("PATCH", "/admin/api-keys/"+id, `{"isActive":true}`).want(200)
	l.send("GET", path, "", "Range", "bytes=0-9").want(206)
	l.admin("POST", "/admin/api-keys/"+id+"/rotate", "").want(200)
	l.send("GET", path, "", "Range", "bytes=0-9").wantError(403, "forbidden")
	l.send("HEAD", path, "").want(403)
}

func TestLinks_NeedWhatPermitsTheirKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var seen observer
	var calls []string
	var deny error
	l := serveLinks(t, exports.Options{}, func(o *httpapi.Options) {
		o.Observe = seen.observe
		o.Authorize = func(r *http.Request, key keys.Key, route string) error {
			calls = append(calls, fmt.Sprint(r.Method, " ", route, " ", key.ID))
			return deny
		}
	})
	l.add("a", smallContent)
	_, path := l.create(exportBody("a"))
	set := func(list ...string) {
		must(l.options.Keys.Update(t.Context(), 1, keys.Fields{Scopes: scopes(list...)}))(t)
	}
	set("exports:read")
	l.send("GET", path, "").want(200)
	observed := seen.last(t, 3) // after registering and creating
	is.Equal(observed.Actor, "key 1")
	is.Equal(len(observed.Resources), 1) // who downloaded the file shows also for links
	l.send("HEAD", path, "").want(200)
	is.Equal(len(seen.last(t, 4).Resources), 0) // which sends no file
	is.Equal(calls[2:3], []string{"GET /viewer/exports/links/{token}/{fileName} 1"})
	deny = &httpapi.DeniedError{Message: "quota exceeded", RetryAfter: time.Second}
	is.Equal(l.send("GET", path, "").wantError(429, "too_many_requests").message(), "quota exceeded")
	set("symbols:read")
	for i := range 2 {
		l.send("GET", path, "").wantError(403, "forbidden")
		observed = seen.last(t, 6+i)
		is.Equal(observed.KeyID, int64(1)) // of the rejected key
		is.Equal(observed.Actor, "key 1")
		is.Equal(len(observed.Resources), 0)
		must(l.options.Keys.Update(t.Context(), 1, keys.Fields{Active: new(false)}))(t)
	}
}

// With an overlap, a link lives as long as the raw key that made it.
func TestLinks_EndWithTheOverlap(t *testing.T) {
	t.Parallel()
	l := serveLinks(t, exports.Options{})
	l.add("a", smallContent)
	_, path := l.create(exportBody("a"))
	l.admin("POST", "/admin/api-keys/1/rotate", `{"overlapSeconds":60}`).want(200)
	l.send("GET", path, "").want(200)
	_, another := l.create(exportBody("a")) // by the previous raw key
	l.send("GET", another, "").want(200)
	l.clock.Add(time.Minute)
	l.send("GET", path, "").wantError(403, "forbidden")
	l.send("GET", another, "").wantError(403, "forbidden")
}

func TestLinks_AreBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := serveLinks(t, exports.Options{LinkServed: 2, LinksPerKey: 20}) // 2 for a client
	l.add("a", smallContent)
	_, path := l.create(exportBody("a"))
	for range 2 {
		l.send("GET", path, "").want(200)
		is.NoErr(l.options.Exports.Flush(t.Context()))
	}
	response := l.send("GET", path, "").wantError(429, "too_many_requests")
	is.True(response.header.Get("Retry-After") != "")
	l.send("HEAD", path, "").want(200)

	l.create(exportBody("a"))
	l.send("GET", path, "").want(429)
	l.create(exportBody("a")) // one too many
	l.send("GET", path, "").want(404)
}

func TestLinks_AreBoundedForEachClient(t *testing.T) {
	t.Parallel()
	l := serveLinks(t, exports.Options{LinksPerKey: 20}) // 2 for a client
	l.add("a", smallContent)
	_, first := l.create(exportBody("a"))
	l.create(exportBody("a"))
	for path, body := range map[string]string{
		"links":                            exportBody("a"),
		"download?responseType=urls":       exportBody("a"), // makes a link, because the file is private
		"download-batch?responseType=urls": batchBody("a"),
	} {
		rejected := l.client("POST", "/viewer/exports/"+path, body).wantError(429, "too_many_requests")
		is.New(t).True(rejected.header.Get("Retry-After") != "")
	}
	visitor := l.token("") // of a page has links of its own
	l.send("POST", "/viewer/exports/links", exportBody("a"), "x-api-key", visitor).want(201)
	l.send("GET", first, "").want(200)
}

func TestLinks_ExpireAndBelongToNoOneElse(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var clock apitest.Clock
	clock.Set(now)
	l := serveLinks(t, exports.Options{LinkLifetime: time.Minute, Now: clock.Now})
	l.add("a", smallContent)
	link, path := l.create(exportBody("a"))
	is.New(t).Equal(link.ExpiresAt, now.Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"))
	l.send("GET", path, "").want(200)
	clock.Add(time.Minute)
	l.send("GET", path, "").wantError(404, "not_found")
}

func TestLinks_WithoutValidatorAreSentCompletely(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	opener := must(files.New(filesURL, fstest.MapFS{
		"a": &fstest.MapFile{Data: []byte(smallContent)}, // without times
		"b": &fstest.MapFile{Data: []byte(smallContent)},
	}))(t)
	l := serveLinks(t, exports.Options{}, withOpener(opener))
	l.add("a", "")
	l.add("b", "")
	link, path := l.create(batchBody("a", "b"))
	is.True(!link.Resumable && link.ETag == nil && link.Size == nil)
	response := l.send("GET", path, "", "Range", "bytes=0-1").want(200)
	is.Equal(len(zipNames(t, response.body)), 2)
	response.wantHeaders("Accept-Ranges", "none", "ETag", "")
	link, path = l.create(exportBody("a"))
	is.True(!link.Resumable)
	response = l.send("GET", path, "", "Range", "bytes=0-1").wantBody(200, smallContent)
	response.wantHeaders("ETag", "")
	l.send("HEAD", path, "").want(200)
}

func TestLinks_RejectRequestsOfServers(t *testing.T) {
	t.Parallel()
	l := serveLinks(t, exports.Options{})
	l.add("a.pdf", "content")
	_, path := l.create(exportBody("a.pdf"))
	for value, rejected := range map[string]bool{
		"canvasback": true, "Canvasback;v=1": true, "cdn.example, canvasback ; v=1": true, "cdn.example": false, "not-canvasback": false, "": false,
	} {
		response := l.send("GET", path, "", "CDN-Loop", value)
		if rejected {
			response.wantError(403, "forbidden")
		} else {
			response.want(200)
		}
	}
}

// anyURL has the methods of an Opener that serves any URL.
type anyURL struct{}

func (anyURL) Serves(*url.URL) bool { return true }
func (anyURL) Check(*url.URL) error { return nil }

// openerFunc is an Opener of any URL.
type openerFunc func(ctx context.Context, u *url.URL) (*exports.File, error)

func (openerFunc) Serves(*url.URL) bool { return true }
func (openerFunc) Check(*url.URL) error { return nil }

func (f openerFunc) Open(ctx context.Context, u *url.URL) (*exports.File, error) { return f(ctx, u) }

func TestLinks_WithoutValidatorIgnoreConditions(t *testing.T) {
	t.Parallel()
	modified := time.Date(2026, 3, 30, 9, 0, 0, 0, time.UTC)
	l := &linkHarness{harness: serveExport(t, openerFunc(func(context.Context, *url.URL) (*exports.File, error) {
		body := io.NopCloser(strings.NewReader(smallContent))
		return &exports.File{Body: body, Size: int64(len(smallContent)), Modified: modified, ETag: `W/"1"`}, nil
	}))}
	for _, body := range []string{exportBody("s"), batchBody("s")} {
		link, path := l.create(body)
		is.New(t).True(!link.Resumable)
		for _, condition := range [][]string{
			{"If-None-Match", "*"}, {"If-None-Match", `W/"1"`},
			{"If-Match", `"2"`}, {"If-Match", `W/"1"`},
			{"If-Modified-Since", modified.Format(http.TimeFormat)},
			{"If-Unmodified-Since", modified.Add(-time.Hour).Format(http.TimeFormat)},
			{"Range", "bytes=0-1"}, {"Range", "bytes=99999-"},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				l.send(method, path, "", condition...).want(200).wantHeaders("Accept-Ranges", "none", "ETag", "")
			}
		}
	}
}

func TestLinks_OmitLastModifiedInTheFuture(t *testing.T) {
	t.Parallel()
	l := serveLinks(t, exports.Options{})
	l.add("a", smallContent)
	future := time.Now().Add(time.Hour)
	is.New(t).NoErr(os.Chtimes(filepath.Join(l.dir, "a"), time.Time{}, future))
	_, path := l.create(exportBody("a"))
	for _, response := range []response{l.client("POST", "/viewer/exports/download", exportBody("a")), l.send("GET", path, ""), l.send("HEAD", path, "")} {
		response.want(200).wantHeaders("Last-Modified", "")
	}
}

func TestLinks_DateInIfRange(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)
	var clock apitest.Clock
	clock.Set(now)
	l := serveLinks(t, exports.Options{Now: clock.Now})
	setModified := func(at time.Time) string {
		is.NoErr(os.Chtimes(filepath.Join(l.dir, "a"), time.Time{}, at))
		return at.Format(http.TimeFormat)
	}
	l.add("a", largeContent)
	date := setModified(now.Add(-time.Hour))
	_, path := l.create(exportBody("a"))
	_, zipPath := l.create(batchBody("a"))
	l.send("HEAD", path, "").want(200).wantHeaders("Last-Modified", date)
	is.Equal(len(l.send("GET", path, "", "Range", "bytes=1-3", "If-Range", date).want(206).body), 3)
	l.send("GET", path, "", "Range", "bytes=1-3", "If-Range", now.Format(http.TimeFormat)).want(200)
	l.send("GET", zipPath, "", "Range", "bytes=1-3", "If-Range", date).want(200)

	l.write("a", strings.ToUpper(largeContent))
	setModified(now.Add(-time.Hour)) // replaced by a file of the same time
	for range 2 {
		l.send("GET", path, "", "Range", "bytes=1-3", "If-Range", date).want(200).wantHeaders("Last-Modified", date)
	}

	date = setModified(now)
	_, path = l.create(exportBody("a"))
	clock.Add(999 * time.Millisecond) // the file may still change in that second
	l.send("GET", path, "", "Range", "bytes=1-3", "If-Range", date).want(200)
	clock.Add(time.Millisecond)
	l.send("GET", path, "", "Range", "bytes=1-3", "If-Range", date).want(206)
}

// The URL of a link is a secret that no response may pass on.
func TestLinks_EveryResponseHasReferrerPolicy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := serveLinks(t, exports.Options{LinkServed: 1}, func(o *httpapi.Options) { o.Prefix = "/api" })
	l.url += "/api"
	l.add("a", smallContent)
	_, path := l.create(exportBody("a"))
	token := strings.TrimSuffix(path, "/a")
	want := func(status int, method, path string, header ...string) {
		t.Helper()
		l.send(method, path, "", header...).want(status).wantHeaders("Referrer-Policy", "no-referrer")
	}
	want(200, "HEAD", path)
	want(206, "GET", path, "Range", "bytes=0-0")
	want(304, "GET", path, "If-None-Match", "*")
	want(412, "GET", path, "If-Match", `"other"`)
	want(416, "GET", path, "Range", "bytes=9-")
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		want(405, method, path)
	}
	for _, other := range []string{token, token + "/", token + "//a", path + "/b", linksPath + "/x/y", linksPath + "/" + strings.Repeat("A", 43) + "/y"} {
		want(404, "GET", other)
	}
	is.NoErr(os.Remove(filepath.Join(l.dir, "a")))
	want(502, "GET", path)
	l.write("a", smallContent)
	want(200, "GET", path)
	is.NoErr(l.options.Exports.Flush(t.Context()))
	want(429, "GET", path)
	l.admin("PATCH", "/admin/api-keys/1", `{"isActive":false}`).want(200)
	want(403, "GET", path)
}

// TestLinks_RenewalsCountAsRequests requests a link that must be renewed 17 times
// while its upstream does not respond.
func TestLinks_RenewalsCountAsRequests(t *testing.T) {
	t.Parallel()
	var clock apitest.Clock
	clock.Set(time.Now())
	var mu sync.Mutex // held while the upstream does not respond
	options := exports.Options{Now: clock.Now, Openers: []exports.Opener{openerFunc(func(context.Context, *url.URL) (*exports.File, error) {
		mu.Lock()
		defer mu.Unlock()
		return &exports.File{Body: io.NopCloser(strings.NewReader(smallContent)), Size: -1}, nil
	})}}
	l := &linkHarness{harness: serve(t, withExports(options))}
	l.client("POST", "/viewer/exports/register", `{"sourceFileUrl":"s","exportedUrl":`+quote(filesURL)+`}`).want(201)
	_, path := l.create(exportBody("s"))
	clock.Add(time.Hour) // its plan is outdated, because it has no validator

	const requests = 17
	responses := make(chan response, requests)
	mu.Lock()
	for range requests {
		go func() { responses <- l.send("GET", path, "") }()
	}
	select {
	case first := <-responses:
		first.wantError(429, "too_many_requests")
	case <-time.After(testTimeout):
		t.Error("no request was rejected")
	}
	mu.Unlock()
	rejected := 0
	for range requests - 1 {
		if (<-responses).status != 200 {
			rejected++
		}
	}
	is.New(t).Equal(rejected, 0)
}
