package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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

func TestExports_Resolve(t *testing.T) {
	t.Parallel()
	is := is.New(t)
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
	response := h.client("POST", "/viewer/exports/download", exportBody("made")).want(200)
	is.Equal(string(response.body), "made")
	is.Equal(response.header.Get("Content-Disposition"), `attachment; filename="made on demand.txt"`)
	named := h.client("POST", "/viewer/exports/download", `{"sourceFileUrl":"made","fileName":"mine.txt"}`).want(200)
	is.Equal(named.header.Get("Content-Disposition"), `attachment; filename="mine.txt"`)
	h.client("POST", "/viewer/exports/download", exportBody("other")).wantError(404, "not_found")
	for path, body := range map[string]string{"download": exportBody("soon"), "download-batch": batchBody("soon", "other"), "links": batchBody("soon")} {
		response := h.client("POST", "/viewer/exports/"+path, body).wantError(503, "not_ready")
		is.Equal(response.header.Get("Retry-After"), "2")
	}
	link := h.client("POST", "/viewer/exports/links", `{"items":[{"sourceFileUrl":"made","path":"a/b"},{"sourceFileUrl":"soon"}]}`).want(201).object()
	archive := h.send("GET", "/viewer/exports/"+link["url"].(string), "").want(200)
	is.Equal(strings.Join(zipNames(t, archive.body), " "), "a/b/made on demand.txt manifest.json")
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
