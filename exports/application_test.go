package exports_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

// helloOpener serves the same file at all URLs.
type helloOpener struct{ concurrency int }

func (o helloOpener) Serves(*url.URL) bool     { return true }
func (o helloOpener) Check(*url.URL) error     { return nil }
func (o helloOpener) Concurrency(*url.URL) int { return o.concurrency }

func (o helloOpener) Open(context.Context, *url.URL) (*exports.File, error) {
	return &exports.File{Body: io.NopCloser(strings.NewReader("hello")), Size: 5}, nil
}

func (o helloOpener) Stat(context.Context, *url.URL) (*exports.File, error) {
	return &exports.File{Size: 5, Validator: "1"}, nil
}

func (o helloOpener) OpenRange(_ context.Context, _ *url.URL, p exports.Part) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("hello"[p.Offset : p.Offset+p.Length])), nil
}

// newHelloService returns a Service with the sources "a" and "b".
func newHelloService(t *testing.T, concurrency int, o exports.Options) *exports.Service {
	t.Helper()
	o.Openers = []exports.Opener{helloOpener{concurrency}}
	s := must(exports.NewService(memory.New().Exports(), &o))(t)
	o.Openers[0] = nil // the Service has a copy
	for _, source := range []string{"a", "b"} {
		put(t, s, source, "https://x.example/"+source)
	}
	return s
}

func TestOptions_LargeValuesAreNoLimits(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1 << 29, math.MaxInt32, math.MaxInt} {
		for _, concurrency := range []int{-1, 0, 1, n} {
			is := is.New(t)
			s := newHelloService(t, concurrency, exports.Options{Prefetch: n, PrefetchBytes: n, LinkServed: n, LinkRequests: n, LinksPerKey: n, LinkBytesPerKey: int64(n)})
			_, skipped, err := downloadBatch(t, s, []string{"a", "b"})
			is.NoErr(err)
			is.Equal(len(skipped), 0)
			items := must(s.FindBatch(t.Context(), exports.BatchOf("a")))(t)
			link := must(s.CreateLink(t.Context(), exports.LinkRequest{Items: items, Single: true}))(t)
			content := must(read(t.Context(), link, 0, 5))(t)
			is.Equal(string(content), "hello")
			_, err = s.Check(t.Context(), *items[0].Export, n)
			is.NoErr(err)
			_, err = s.Check(t.Context(), *items[0].Export, -1)
			is.NoErr(err)
		}
	}
}

// TestFlush_WhileDownloadsEnd flushes as after the Close of a server, which does not wait for
// handlers.
func TestFlush_WhileDownloadsEnd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newHelloService(t, 6, exports.Options{})
	items := must(s.FindBatch(t.Context(), exports.BatchOf("a")))(t)
	var wg sync.WaitGroup
	for range 4 {
		link := must(s.CreateLink(t.Context(), exports.LinkRequest{Items: items, Single: true}))(t)
		wg.Go(func() {
			for range 50 {
				_, err := read(t.Context(), link, 0, 5)
				is.NoErr(err)
			}
		})
	}
	for range 200 {
		is.NoErr(s.Flush(t.Context()))
	}
	wg.Wait()
	is.NoErr(s.Flush(t.Context()))
}

func TestLink_JSONHasNoToken(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newHelloService(t, 6, exports.Options{})
	link := must(s.CreateLink(t.Context(), exports.LinkRequest{Items: must(s.FindBatch(t.Context(), exports.BatchOf("a", "b")))(t)}))(t)
	text := string(must(json.Marshal(link))(t)) + fmt.Sprintf("%+v %v", *link, link)
	is.True(!strings.Contains(text, link.Token))
}

// TestItems_ShareNoExport changes the exports of items, as an application may.
func TestItems_ShareNoExport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := newHelloService(t, 6, exports.Options{Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
			time.Sleep(time.Second) // the requests share it
			return exports.Resolution{ExportedURL: map[string]string{"new": "https://x.example/new"}[r.Source]}, nil
		}})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				items := must(s.FindBatch(t.Context(), exports.BatchOf("a", "a", "new", "new", "invalid")))(t)
				s.Resolve(t.Context(), items)
				is.True(items[4].Err != nil && items[4].Export == nil)
				for j := range items[:4] {
					items[j].Export.FileName = fmt.Sprint(i, j)
				}
				time.Sleep(time.Second)
				for j := range items[:4] {
					is.Equal(items[j].Export.FileName, fmt.Sprint(i, j))
				}
			})
		}
		wg.Wait()
		items := must(s.FindBatch(t.Context(), exports.BatchOf("a", "b")))(t)
		is.NoErr(s.Delete(t.Context(), items[0].Export.ID))
		items = must(s.FindBatch(t.Context(), items))(t)
		is.True(items[0].Err != nil && items[0].Export == nil)
	})
}
