package exports_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/ziptest"
)

func TestBatch_EachItemIsDeliveredOrSkipped(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{OpenTimeout: time.Second})
	large := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // larger than its prefix
	upstream.serve("https://x.example/a/plan.pdf", []byte("one"))
	upstream.serve("https://x.example/b/plan.pdf", large)
	upstream.serve("https://x.example/empty", nil)
	upstream.fail("https://x.example/gone", exports.ErrFailed)
	upstream.handle("https://x.example/slow", hang)
	upstream.handle("https://x.example/cut", func(context.Context) (*exports.File, error) { // truncated within its prefix
		return &exports.File{Body: io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF))), Size: 8}, nil
	})
	sources := register(t, s, "https://x.example/a/plan.pdf", "https://x.example/gone", "https://x.example/b/plan.pdf",
		"https://x.example/slow", "https://x.example/empty", "https://x.example/cut")

	archive, skipped, err := downloadBatch(t, s, append([]string{"unknown", sources[0]}, append(sources, "unknown")...))
	is.NoErr(err)
	names, contents := readZip(t, archive)
	is.Equal(names, []string{"plan.pdf", "plan-1.pdf", "plan-2.pdf", "empty", "manifest.json"})
	is.Equal(contents["plan.pdf"], "one")
	is.Equal(contents["plan-1.pdf"], "one")
	is.True(contents["plan-2.pdf"] == string(large))
	is.Equal(contents["empty"], "")
	checkTimes(t, archive)
	want := []exports.Skipped{
		{SourceURL: "unknown", Reason: "not registered"},
		{SourceURL: "source-1", Reason: "file cannot be fetched"},
		{SourceURL: "source-3", Reason: "file takes too long"},
		{SourceURL: "source-5", Reason: "file cannot be fetched"},
		{SourceURL: "unknown", Reason: "not registered"},
	}
	is.Equal(withoutErrors(skipped), want)

	var manifest struct {
		GeneratedAt         time.Time
		Requested, Included int
		Skipped             []struct{ SourceFileURL, Reason string }
	}
	is.NoErr(json.Unmarshal([]byte(contents["manifest.json"]), &manifest))
	is.Equal(manifest.Requested, 9)
	is.Equal(manifest.Included, 4)
	is.Equal(len(manifest.Skipped), len(want))
	for i, item := range manifest.Skipped {
		is.Equal(exports.Skipped{SourceURL: item.SourceFileURL, Reason: item.Reason}, want[i])
	}
	is.Equal(upstream.open.Load(), int64(0)) // all files are closed
}

func TestBatch_FailsIfNoFileCanBeOpened(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	upstream.fail("https://x.example/slow", exports.ErrTimeout)
	upstream.fail("https://x.example/gone", exports.ErrFailed)
	sources := register(t, s, "https://x.example/slow", "https://x.example/slow", "https://x.example/gone")

	_, _, err := downloadBatch(t, s, append(sources[:2:2], "unknown"))
	is.True(errors.Is(err, exports.ErrTimeout)) // every registered one timed out
	var batch *exports.BatchError
	is.True(errors.As(err, &batch))
	is.Equal(len(batch.Skipped), 3)
	_, _, err = downloadBatch(t, s, sources)
	is.True(errors.Is(err, exports.ErrFailed))
	is.True(!errors.Is(err, exports.ErrTimeout))
	is.Equal(upstream.open.Load(), int64(0))
}

func TestBatch_StopsAfterRepeatedTimeouts(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		upstream, s := newUpstream(exports.Options{})
		var tried atomic.Int64
		var urls []string
		for i := range 200 {
			u := fmt.Sprintf("https://dead.example/%d", i)
			upstream.handle(u, func(ctx context.Context) (*exports.File, error) {
				tried.Add(1)
				return hang(ctx)
			})
			urls = append(urls, u)
		}
		upstream.serve("https://alive.example/ok", []byte("ok"))
		sources := register(t, s, append(urls, "https://alive.example/ok")...)
		start := time.Now()
		archive, skipped, err := downloadBatch(t, s, sources)
		is.NoErr(err)
		is.Equal(len(skipped), 200)
		for _, item := range skipped {
			is.Equal(item.Reason, "file takes too long")
		}
		names, _ := readZip(t, archive)
		is.Equal(names, []string{"ok", "manifest.json"})
		is.True(tried.Load() < 30)
		is.True(time.Since(start) < 2*time.Minute) // not 200 timeouts of 20 s
		_, _, err = downloadBatch(t, s, sources[:200])
		is.True(errors.Is(err, exports.ErrTimeout))
	})
}

// panickingConcurrency is an AdaptiveOpener that panics from the sixth call on, in workers.
type panickingConcurrency struct {
	*fakeUpstream
	calls atomic.Int64
}

func (p *panickingConcurrency) Concurrency(*url.URL) int {
	if p.calls.Add(1) > 5 {
		panic("a bug in Concurrency")
	}
	return 2
}

func TestBatch_SurvivesAPanicInConcurrency(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream := &panickingConcurrency{fakeUpstream: newFakeUpstream()}
	upstream.serve("https://x.example/", []byte("content"))
	s := newService(upstream, exports.Options{})
	_, skipped, err := downloadBatch(t, s, slices.Repeat(register(t, s, "https://x.example/"), 4))
	is.NoErr(err)
	is.Equal(len(skipped), 0)
	is.True(upstream.calls.Load() > 5)
}

func TestBatch_TruncatedFileBreaksArchive(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	upstream.handle("https://x.example/cut", func(context.Context) (*exports.File, error) {
		return &exports.File{Body: io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 3<<20)), iotest.ErrReader(io.ErrUnexpectedEOF))), Size: -1}, nil
	})
	upstream.serve("https://x.example/ok", []byte("ok"))
	archive, _, err := downloadBatch(t, s, register(t, s, "https://x.example/ok", "https://x.example/cut", "https://x.example/ok"))
	is.True(err != nil)
	_, err = zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.True(err != nil) // no reader takes it for complete
	is.Equal(upstream.open.Load(), int64(0))
}

func TestBatch_EndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		upstream, s := newUpstream(exports.Options{})
		urls := []string{"https://x.example/0"}
		upstream.serve(urls[0], []byte("ok"))
		for i := range 20 {
			u := fmt.Sprintf("https://host-%d.example/", i)
			upstream.handle(u, hang)
			urls = append(urls, u)
		}
		items := must(s.FindBatch(t.Context(), exports.BatchOf(register(t, s, urls...)...)))(t)
		ctx, cancel := context.WithCancel(t.Context())
		batch := must(s.OpenBatch(ctx, items))(t)
		time.AfterFunc(time.Second, cancel)
		is.Equal(batch.WriteZip(io.Discard, nil), context.Canceled)
		is.NoErr(batch.Close())
		is.Equal(upstream.open.Load(), int64(0))
	})
}

func TestBatch_FlushesBeforeItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		upstream, s := newUpstream(exports.Options{})
		upstream.serve("https://x.example/fast", []byte("fast"))
		upstream.handle("https://x.example/slow", func(context.Context) (*exports.File, error) {
			time.Sleep(10 * time.Second)
			return &exports.File{Body: io.NopCloser(strings.NewReader("slow")), Size: 4}, nil
		})
		batch := must(openBatch(t, s, register(t, s, "https://x.example/fast", "https://x.example/slow")))(t)
		defer batch.Close()
		start := time.Now()
		var out bytes.Buffer
		flushed := 0
		is.NoErr(batch.WriteZip(&out, func() error {
			flushed++
			is.True(bytes.Contains(out.Bytes(), []byte("fast")))
			is.True(time.Since(start) < time.Second)
			return nil
		}))
		is.Equal(flushed, 1)
	})
}

func TestBatch_Size(t *testing.T) {
	t.Parallel()
	upstream := newFakeUpstream()
	var urls []string
	for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 65535 * 20, 65535*20 + 1, 3 << 20} {
		u := fmt.Sprintf("https://x.example/%d/%%E5%%90%%8D.bin", size)
		upstream.serveFile(u, make([]byte, size), exports.File{Size: int64(size), Modified: time.Unix(1e9, 0)})
		urls = append(urls, u)
	}
	upstream.fail("https://x.example/gone", exports.ErrFailed)
	upstream.serve("https://x.example/unknown-but-small", []byte("x"))
	upstream.serve("https://x.example/unknown", make([]byte, 2<<20))
	urls = append(urls, "https://x.example/gone", "https://x.example/unknown-but-small", "https://x.example/unknown")
	for name, c := range map[string]struct {
		pick  func(sources []string) []string
		known bool
	}{
		"one empty file":      {func(s []string) []string { return s[:1] }, true},
		"one file":            {func(s []string) []string { return s[3:4] }, true},
		"all but one":         {func(s []string) []string { return s[:10] }, true},
		"unregistered first":  {func(s []string) []string { return append([]string{"unregistered"}, s[:10]...) }, true},
		"skipped and repeats": {func(s []string) []string { return []string{s[8], s[0], "unregistered", s[0], s[8]} }, true},
		"unknown size":        {func(s []string) []string { return s }, false},
		"more than 16 files":  {func(s []string) []string { return append(s[:8:8], s[:9]...) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I) { // in real time, a busy machine may not open all files in time
				s := newService(upstream, exports.Options{})
				batch := must(openBatch(t, s, c.pick(register(t, s, urls...))))(t)
				var out bytes.Buffer
				is.NoErr(batch.WriteZip(&out, nil))
				is.NoErr(batch.Close())
				is.Equal(batch.Size(), map[bool]int64{true: int64(out.Len()), false: -1}[c.known])
				readZip(t, out.Bytes())
			})
		})
	}
	is.New(t).Equal(upstream.open.Load(), int64(0))
}

// A file that changes after the size was announced breaks the archive.
func TestBatch_AnnouncedSizeIsKeptOrBroken(t *testing.T) {
	const size = 2 << 20
	for name, c := range map[string]struct {
		reopened func() (*exports.File, error)
		ok       bool
	}{
		"same":                {func() (*exports.File, error) { return sizedFile(size, size), nil }, true},
		"larger":              {func() (*exports.File, error) { return sizedFile(size+1, size+1), nil }, false},
		"small":               {func() (*exports.File, error) { return sizedFile(5, 5), nil }, false},
		"size is unknown now": {func() (*exports.File, error) { return sizedFile(size+1, -1), nil }, false},
		"gone":                {func() (*exports.File, error) { return nil, exports.ErrFailed }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I) {
				upstream := newFakeUpstream()
				s := newService(upstream, exports.Options{})
				opened := 0
				upstream.serve("https://x.example/first", []byte("first"))
				upstream.handle("https://x.example/second", func(context.Context) (*exports.File, error) {
					if opened++; opened == 1 {
						return sizedFile(size, size), nil
					}
					return c.reopened()
				})
				batch := must(openBatch(t, s, register(t, s, "https://x.example/first", "https://x.example/second")))(t)
				defer batch.Close()
				is.True(batch.Size() > size)
				time.Sleep(time.Minute) // the upstream may have closed the connection
				var out bytes.Buffer
				err := batch.WriteZip(&out, nil)
				is.Equal(opened, 2)
				is.Equal(err == nil, c.ok)
				is.Equal(int64(out.Len()) == batch.Size(), c.ok)
			})
		})
	}
}

func sizedFile(bytesOfIt, size int) *exports.File {
	return &exports.File{Body: io.NopCloser(bytes.NewReader(make([]byte, bytesOfIt))), Size: int64(size)}
}

// TestBatch_DiscardedFileIsNotHeld has a slow client, whose prefetched file makes room for
// those of others and is then opened again without memory for it.
func TestBatch_DiscardedFileIsNotHeld(t *testing.T) {
	const size = 900 << 10
	for name, c := range map[string]struct {
		size    int64
		changed bool
		free    bool // there is memory again, for the complete file
	}{
		"known size":                  {size, false, false},
		"unknown size":                {-1, false, false},
		"other content":               {size, true, false},
		"other content, unknown size": {-1, true, false},
		"other content in memory":     {size, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I) {
				upstream := newFakeUpstream()
				s := newService(upstream, exports.Options{PrefetchBytes: 2 << 20})
				content := make([]byte, size)
				var body *bytes.Reader
				opened := 0
				upstream.serveSized("https://x.example/first", []byte("first"), 5)
				upstream.handle("https://x.example/second", func(context.Context) (*exports.File, error) {
					opened, body = opened+1, bytes.NewReader(content)
					return &exports.File{Body: io.NopCloser(body), Size: c.size}, nil
				})
				upstream.serveSized("https://x.example/others", content, len(content))
				sources := register(t, s, "https://x.example/first", "https://x.example/second", "https://x.example/others")
				batch := must(openBatch(t, s, sources[:2]))(t)
				defer batch.Close()
				is.True(batch.Size() > 0)
				time.Sleep(time.Minute)
				other := must(openBatch(t, s, sources[2:]))(t)
				defer other.Close()

				if c.changed {
					content = bytes.Repeat([]byte("y"), size)
				}
				if c.free {
					other.Close()
				}
				var out bytes.Buffer
				held := 0
				err := batch.WriteZip(writerFunc(func(p []byte) (int, error) {
					if opened == 2 {
						held = max(held, size-body.Len()-out.Len())
					}
					return out.Write(p)
				}), nil)
				is.Equal(err == nil, !c.changed || c.free)
				is.Equal(int64(out.Len()) == batch.Size(), err == nil)
				is.Equal(opened, 2)
				is.True(held <= 256<<10 || c.free)
				if c.free {
					_, contents := readZip(t, out.Bytes())
					is.True(contents["second"] == string(content))
				}
			})
		})
	}
}

func TestBatch_WrongSizeIsNotDelivered(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	upstream.serveSized("https://x.example/small", make([]byte, 50), 100)
	upstream.serveSized("https://x.example/large", make([]byte, 2<<20), 3<<20)
	upstream.serve("https://x.example/ok", []byte("ok"))
	sources := register(t, s, "https://x.example/ok", "https://x.example/small", "https://x.example/large")
	archive, skipped, err := downloadBatch(t, s, sources[:2])
	is.NoErr(err)
	is.Equal(len(skipped), 1) // found before its entry
	names, _ := readZip(t, archive)
	is.Equal(names, []string{"ok", "manifest.json"})
	for _, size := range []int{0, 49} {
		upstream.serveSized("https://x.example/small", make([]byte, 50), size)
		_, skipped, err = downloadBatch(t, s, sources[:2])
		is.NoErr(err)
		is.Equal(len(skipped), 1) // longer than it claims
	}
	upstream.serveSized("https://x.example/small", make([]byte, 50), 100)
	_, _, err = downloadBatch(t, s, sources)
	is.True(errors.Is(err, io.ErrUnexpectedEOF)) // found within it
}

func TestBatch_NoticesContentThatDiffersFromFacts(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(2<<20, 1), newFile(2<<20, 2))
	s := l.service(exports.Options{})
	_, _, err := downloadBatch(t, s, l.sources)
	is.NoErr(err)
	liar := l.lie(1, 3)
	_, _, err = downloadBatch(t, s, l.sources)
	is.True(err != nil)
	archive, _, err := downloadBatch(t, s, l.sources)
	is.NoErr(err)
	_, contents := readZip(t, archive)
	is.True(contents["2.bin"] == string(contentOf(liar)))
}

// localOpener opens a local file, and no part of it.
type localOpener struct{ path, validator string }

func (*localOpener) Serves(*url.URL) bool { return true }

func (*localOpener) Check(*url.URL) error { return nil }

func (o *localOpener) Open(context.Context, *url.URL) (*exports.File, error) {
	file, err := os.Open(o.path)
	return &exports.File{Body: file, Size: 2 << 20, Validator: o.validator}, err
}

func TestBatch_KnowsLocalFileWithoutRanges(t *testing.T) {
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(path, make([]byte, 2<<20), 0o600))
	opener := &localOpener{path, "1"}
	s := newService(opener, exports.Options{})
	sources := register(t, s, "https://files.example/file")
	for range 2 { // the second one knows the CRC
		_, _, err := downloadBatch(t, s, sources)
		is.NoErr(err)
	}
	for _, c := range []struct {
		size      int64
		validator string
		err       error
	}{{1 << 20, "1", io.ErrUnexpectedEOF}, {2 << 20, "2", exports.ErrChanged}} {
		batch := must(openBatch(t, s, sources))(t)
		is.NoErr(os.Truncate(path, c.size))
		opener.validator = c.validator
		is.True(errors.Is(batch.WriteZip(io.Discard, nil), c.err))
		is.NoErr(batch.Close())
		is.NoErr(os.Truncate(path, 2<<20))
	}
}

func TestBatch_LostClientChangesNoFact(t *testing.T) {
	is := is.New(t)
	l, s, link := newLink(t, newFile(2<<20, 1), newFile(2<<20, 2))
	for range 2 { // the second one knows the CRCs
		batch := must(openBatch(t, s, l.sources))(t)
		left := 3 << 20
		err := batch.WriteZip(writerFunc(func(p []byte) (int, error) {
			if left -= len(p); left < 0 {
				return 0, errCut
			}
			return len(p), nil
		}), nil)
		is.True(errors.Is(err, errCut))
		is.NoErr(batch.Close())
		_, _, err = downloadBatch(t, s, l.sources)
		is.NoErr(err)
	}
	l.readAll(link)
}

// serveSlowly makes a URL a file of zeros that opens after a delay.
func (f *fakeUpstream) serveSlowly(rawURL string, size int, delay time.Duration) {
	f.handle(rawURL, func(context.Context) (*exports.File, error) {
		time.Sleep(delay)
		return &exports.File{Body: io.NopCloser(bytes.NewReader(make([]byte, size))), Size: int64(size), Validator: fmt.Sprint(size)}, nil
	})
}

// TestBatch_WaitsForSizes has one host, of which 6 files are opened at a time.
func TestBatch_WaitsForSizes(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		files        int
		first, other time.Duration
		took         time.Duration
		known        bool
	}{
		"same round trip":            {6, 50 * ms, 55 * ms, 55 * ms, true},
		"second round trip":          {7, 50 * ms, 50 * ms, 56250 * time.Microsecond, false},
		"slow file":                  {2, 400 * ms, time.Second, 450 * ms, false},
		"fast host, three rounds":    {16, 20 * ms, 20 * ms, 60 * ms, true},
		"fast host, one slow file":   {2, 20 * ms, time.Second, 120 * ms, false},
		"more than are prefetched":   {17, ms, ms, ms, false},
		"slow host, nothing missing": {1, time.Second, 0, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, is *is.I) {
				upstream := newFakeUpstream()
				var urls []string
				for i := range c.files {
					u := fmt.Sprintf("https://x.example/%d", i)
					upstream.serveSlowly(u, 100, map[bool]time.Duration{true: c.first, false: c.other}[i == 0])
					urls = append(urls, u)
				}
				s := newService(upstream, exports.Options{})
				sources := register(t, s, urls...)
				start := time.Now()
				batch := must(openBatch(t, s, sources))(t)
				defer batch.Close()
				is.Equal(time.Since(start), c.took)
				is.Equal(batch.Size() > 0, c.known)

				is.NoErr(batch.WriteZip(io.Discard, nil))
				is.NoErr(s.Flush(t.Context()))
			})
		})
	}
}

// The test is not parallel, because it measures the heap.
func TestBatch_MemoryDoesNotGrowWithFiles(t *testing.T) {
	const content = 80 << 20 // of all files
	for _, size := range []int{300 << 10, 1 << 20, 1<<20 + 100<<10} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, size known: %t", size, known), func(t *testing.T) {
				is := is.New(t)
				upstream := newFakeUpstream()
				var urls []string
				files := content / size
				for i := range files {
					u := fmt.Sprintf("https://%d.example/%d", i%3, i)
					urls = append(urls, u)
					upstream.handle(u, func(context.Context) (*exports.File, error) {
						file := &exports.File{Body: io.NopCloser(io.LimitReader(strings.NewReader(letters), int64(size))), Size: -1}
						if known {
							file.Size = int64(size)
						}
						return file, nil
					})
				}
				s := newService(upstream, exports.Options{})
				sources := register(t, s, urls...)
				items := must(s.FindBatch(t.Context(), exports.BatchOf(sources...)))(t)
				meter := ziptest.NewHeapMeter()
				batch := must(s.OpenBatch(t.Context(), items))(t)
				defer batch.Close()
				is.NoErr(batch.WriteZip(meter, nil))
				if skipped := batch.Skipped(); len(skipped) > 0 {
					t.Fatal(skipped)
				}
				// 16 prefixes, and the buffers in the pool, which it keeps for
				// two collections.
				if took := meter.Growth(); took > 32<<20 {
					t.Errorf("%d files of %d bytes took %d MiB", files, size, took>>20)
				}
			})
		}
	}
}

var letters = strings.Repeat("canvasback", 200_000)
