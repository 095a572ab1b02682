package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

// sizedUpstream is an Opener of files with the size that ends their path. It
// claims a size of -1 for hosts named unknown, and delivers no more than half a
// file for hosts named short.
type sizedUpstream struct{ anyURL }

func (sizedUpstream) Open(_ context.Context, u *url.URL) (*exports.File, error) {
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
	service := must(exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{sizedUpstream{}}}))
	h := serve(t, func(o *httpapi.Options) { o.Exports = service })
	register := func(exported string) string {
		_, _, err := service.Register(t.Context(), exports.Registration{SourceURL: exported, ExportedURL: exported})
		is.NoErr(err)
		return exported
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
