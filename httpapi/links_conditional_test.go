package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

// openerFunc is an Opener of any URL.
type openerFunc func(ctx context.Context) (*exports.File, error)

func (openerFunc) Serves(*url.URL) bool { return true }
func (openerFunc) Check(*url.URL) error { return nil }

func (f openerFunc) Open(ctx context.Context, _ *url.URL) (*exports.File, error) { return f(ctx) }

func TestLinks_WithoutValidatorIgnoreConditions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	modified := time.Date(2026, 3, 30, 9, 0, 0, 0, time.UTC)
	l := &linkHarness{harness: serveExport(t, openerFunc(func(context.Context) (*exports.File, error) {
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
