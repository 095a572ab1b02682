package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/httpapi/apitest"
)

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
	is := is.New(t)
	modified := time.Date(2026, 3, 30, 9, 0, 0, 0, time.UTC)
	l := &linkHarness{harness: serveExport(t, openerFunc(func(context.Context, *url.URL) (*exports.File, error) {
		body := io.NopCloser(strings.NewReader(smallContent))
		return &exports.File{Body: body, Size: int64(len(smallContent)), Modified: modified, ETag: `W/"1"`}, nil
	}))}
	for _, body := range []string{exportBody("s"), batchBody("s")} {
		link, path := l.create(body)
		is.True(!link.Resumable)
		for _, condition := range [][]string{
			{"If-None-Match", "*"}, {"If-None-Match", `W/"1"`},
			{"If-Match", `"2"`}, {"If-Match", `W/"1"`},
			{"If-Modified-Since", modified.Format(http.TimeFormat)},
			{"If-Unmodified-Since", modified.Add(-time.Hour).Format(http.TimeFormat)},
			{"Range", "bytes=0-1"}, {"Range", "bytes=99999-"},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				response := l.send(method, path, "", condition...).want(200)
				is.Equal(response.header.Get("Accept-Ranges"), "none")
				is.Equal(response.header.Get("ETag"), "")
			}
		}
	}
}

func TestLinks_OmitLastModifiedInTheFuture(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := serveLinks(t, exports.Options{})
	l.add("a", smallContent)
	future := time.Now().Add(time.Hour)
	is.NoErr(os.Chtimes(filepath.Join(l.dir, "a"), time.Time{}, future))
	_, path := l.create(exportBody("a"))
	for _, response := range []response{l.client("POST", "/viewer/exports/download", exportBody("a")), l.send("GET", path, ""), l.send("HEAD", path, "")} {
		is.Equal(response.want(200).header.Get("Last-Modified"), "")
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
	is.Equal(l.send("HEAD", path, "").want(200).header.Get("Last-Modified"), date)
	is.Equal(len(l.send("GET", path, "", "Range", "bytes=1-3", "If-Range", date).want(206).body), 3)
	l.send("GET", path, "", "Range", "bytes=1-3", "If-Range", now.Format(http.TimeFormat)).want(200)
	l.send("GET", zipPath, "", "Range", "bytes=1-3", "If-Range", date).want(200)

	l.write("a", strings.ToUpper(largeContent))
	setModified(now.Add(-time.Hour)) // replaced by a file of the same time
	for range 2 {
		changed := l.send("GET", path, "", "Range", "bytes=1-3", "If-Range", date).want(200)
		is.Equal(changed.header.Get("Last-Modified"), date)
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
		is.Equal(l.send(method, path, "", header...).want(status).header.Get("Referrer-Policy"), "no-referrer")
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
