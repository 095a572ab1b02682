package exports_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

// carelessOrigin is a RangeOpener with mistakes.
type carelessOrigin struct {
	*fakeOrigin
	forgetInStat, forgetInOpen bool // the Size
	complete                   bool // OpenRange opens the complete file
}

func (o *carelessOrigin) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	file, err := o.fakeOrigin.Open(ctx, u)
	if err == nil && o.forgetInOpen {
		file.Size = 0
	}
	return file, err
}

func (o *carelessOrigin) Stat(ctx context.Context, u *url.URL) (*exports.File, error) {
	file, err := o.fakeOrigin.Stat(ctx, u)
	if err == nil && o.forgetInStat {
		file.Size = 0
	}
	return file, err
}

func (o *carelessOrigin) OpenRange(ctx context.Context, u *url.URL, part exports.Part) (io.ReadCloser, error) {
	if o.complete {
		part.Offset, part.Length = 0, part.Size
	}
	return o.fakeOrigin.OpenRange(ctx, u, part)
}

func newCareless(t *testing.T, size int64) (*carelessOrigin, *exports.Service, []string) {
	t.Helper()
	origin := &carelessOrigin{fakeOrigin: newFakeOrigin()}
	const file = "https://x.example/plan.pdf"
	origin.set(file, fakeFile{size: size, seed: 1, validator: "v"})
	s := newService(origin, exports.Options{})
	return origin, s, register(t, s, file)
}

// A Size that Stat has forgotten must not make empty files.
func TestLink_StatWithoutSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	origin, s, sources := newCareless(t, 100_000)
	origin.forgetInStat = true
	for _, single := range []bool{true, false} {
		items := must(s.FindBatch(t.Context(), exports.BatchOf(sources...)))(t)
		origin.forgetInOpen = false
		link := must(s.CreateLink(t.Context(), exports.LinkRequest{Items: items, Single: single}))(t)
		is.True(link.Resumable())
		_, content, err := readCurrent(t.Context(), link)
		is.NoErr(err)
		if single {
			is.True(bytes.Equal(content, contentOf(origin.files["https://x.example/plan.pdf"])))
		}
		is.True(len(content) >= 100_000)

		origin.forgetInOpen = true
		_, err = s.CreateLink(t.Context(), exports.LinkRequest{Items: items, Single: single})
		is.True(errors.Is(err, exports.ErrFailed))
		is.True(strings.Contains(err.Error(), "Size of 0 bytes"))
	}
	is.NoErr(s.Flush(t.Context()))
}

func TestLink_RejectsMoreThanThePart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	origin, s, sources := newCareless(t, 100_000)
	items := must(s.FindBatch(t.Context(), exports.BatchOf(sources...)))(t)
	link := must(s.CreateLink(t.Context(), exports.LinkRequest{Items: items, Single: true}))(t)
	origin.complete = true
	is.True(errors.Is(readError(t, link, 70_000, 30_000), exports.ErrFailed))
	is.NoErr(s.Flush(t.Context()))
}

func TestPrefetch_RejectsReaderWithoutEnd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	export := exports.Export{ExportedURL: "https://x.example/plan.pdf"}
	upstream.handle(export.ExportedURL, func(context.Context) (*exports.File, error) {
		body := io.MultiReader(strings.NewReader("content"), iotest.ErrReader(nil)) // 0, nil for ever
		return &exports.File{Body: io.NopCloser(body), Size: -1}, nil
	})
	_, err := s.Check(t.Context(), export, 64<<10)
	is.True(errors.Is(err, io.ErrNoProgress))
}
