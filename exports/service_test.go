package exports_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

func TestRegister_ReplacesExport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 3, 30, 12, 0, 0, 123456789, time.FixedZone("", 7200))
	s := newService(newFakeUpstream(), exports.Options{Now: func() time.Time { return now }})
	export, created, err := s.Register(t.Context(), exports.Registration{
		SourceURL: " \u00a0src\n", ExportedURL: " https://x.example/a ", FileName: new("  "),
	})
	is.NoErr(err)
	is.True(created)
	at := time.Date(2026, 3, 30, 10, 0, 0, 123e6, time.UTC)
	is.Equal(export, exports.Export{ID: 1, SourceURL: "src", ExportedURL: "https://x.example/a", CreatedAt: at, UpdatedAt: at})

	now = now.Add(time.Hour)
	export, created, err = s.Register(t.Context(), exports.Registration{
		SourceURL: "src", ExportedURL: "http://x.example/b?q", FileName: new(" name "),
	})
	is.NoErr(err)
	is.True(!created)
	is.Equal(export, exports.Export{ID: 1, SourceURL: "src", ExportedURL: "http://x.example/b?q", FileName: " name ", CreatedAt: at, UpdatedAt: at.Add(time.Hour)})
	is.Equal(must(s.Find(t.Context(), "\tsrc "))(t), export)

	is.NoErr(s.Delete(t.Context(), export.ID))
	is.Equal(s.Delete(t.Context(), export.ID), exports.ErrNotFound)
	_, err = s.Find(t.Context(), "src")
	is.Equal(err, exports.ErrNotFound)
}

func TestRegister_RejectsInvalidFields(t *testing.T) {
	t.Parallel()
	s := newService(newFakeUpstream(), exports.Options{})
	long := strings.Repeat("ä", exports.MaxURLLength)
	if _, _, err := s.Register(t.Context(), exports.Registration{
		SourceURL: long, ExportedURL: "https://x.example/" + long[:1000], FileName: &long,
	}); err != nil {
		t.Error("the longest fields:", err)
	}
	reject := func(field, source, exported, name string) {
		registration := exports.Registration{SourceURL: source, ExportedURL: exported, FileName: &name}
		_, _, err := s.Register(t.Context(), registration)
		if !errors.Is(err, exports.ErrInvalid) || !strings.HasPrefix(err.Error(), field+" ") {
			t.Errorf("Register(%.20q, %.40q, %.20q): %v, want an error about %s", source, exported, name, err, field)
		}
	}
	for _, source := range []string{"", " \t\u3000", long + "x", "a\x00b", "a\xffb"} {
		reject("sourceFileUrl", source, "https://x.example/", "")
	}
	for _, exported := range []string{
		"", "x.example/a", "//x.example/a", "/a", "ftp://x.example/a", "store://files.example/a", "file:///etc/passwd",
		"https:x.example", "https:///a", "https://u@x.example/", "https://u:p@x.example/", "https://@x.example/",
		"https://x.example:port/", "https://x.example/\x00", "https://x.example/" + long,
		"https://private.example/", "https://forbidden.example/", "https://elsewhere.example/",
	} {
		reject("exportedUrl", "s", exported, "")
	}
	for _, name := range []string{"a\x00", long + "x"} {
		reject("fileName", "s", "https://x.example/", name)
	}
}

func TestRegister_ShowsReasonOfOpener(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(newFakeUpstream(), exports.Options{})
	for exported, want := range map[string]string{
		"https://private.example/":   "exportedUrl is not an allowed URL: the host is private",
		"https://forbidden.example/": "exportedUrl is not an allowed URL",
		"https://elsewhere.example/": "exportedUrl is not an allowed URL",
		"s3://bucket/key":            "exportedUrl is not an allowed URL: the bucket bucket is not configured",
		"file://host/etc/passwd":     "exportedUrl must be an http or https URL, or have a configured scheme and host",
		"":                           "exportedUrl must not be empty",
	} {
		_, _, err := s.Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: exported})
		is.Equal(err.Error(), want)
	}
}

func TestFindBatch_RejectsInvalidSources(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(newFakeUpstream(), exports.Options{MaxItems: 2})
	register(t, s, "https://x.example/a")
	for _, sources := range [][]string{nil, {"a", "b", "c"}, {"", " "}} {
		_, err := s.FindBatch(t.Context(), exports.BatchOf(sources...))
		is.True(errors.Is(err, exports.ErrInvalid))
	}
	long := strings.Repeat("ä", 1024)
	must(s.FindItem(t.Context(), exports.BatchItem{SourceURL: "source-0", Path: long}))(t)
	for _, item := range []exports.BatchItem{{}, {SourceURL: "source-0", FileName: "a\x00"}, {SourceURL: "source-0", Path: long + "x"}} {
		_, err := s.FindItem(t.Context(), item)
		is.True(errors.Is(err, exports.ErrInvalid))
	}
	given := exports.BatchOf("source-0")
	must(s.FindBatch(t.Context(), given))(t)
	is.Equal(given, exports.BatchOf("source-0")) // unchanged
	_, err := openBatch(t, s, []string{"b", "b"})
	var batch *exports.BatchError
	is.True(errors.As(err, &batch) && errors.Is(err, exports.ErrNotFound))
	is.Equal(withoutErrors(batch.Skipped), []exports.Skipped{{SourceURL: "b", Reason: "not registered"}, {SourceURL: "b", Reason: "not registered"}})
}

func TestOpen_TimeoutEndsWithFirstByte(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		upstream, s := newUpstream(exports.Options{OpenTimeout: 30 * time.Millisecond})
		upstream.handle("https://x.example/long", func(ctx context.Context) (*exports.File, error) {
			r, w := io.Pipe()
			go func() {
				for range 5 {
					time.Sleep(20 * time.Millisecond)
					fmt.Fprint(w, "x")
				}
				w.CloseWithError(context.Cause(ctx)) // nil is io.EOF
			}()
			return &exports.File{Body: r, Size: -1}, nil
		})
		sources := register(t, s, "https://x.example/long")
		export := must(s.Find(t.Context(), sources[0]))(t)
		file := must(s.Open(t.Context(), export))(t)
		content := must(io.ReadAll(file.Body))(t) // the download outlives the timeout
		is.Equal(string(content), "xxxxx")
		is.NoErr(file.Close())
	})
}

func TestOpen_ClosesFileThatIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		upstream, s := newUpstream(exports.Options{OpenTimeout: time.Second})
		upstream.handle("https://x.example/late", func(context.Context) (*exports.File, error) {
			time.Sleep(2 * time.Second) // in spite of the context
			return &exports.File{Body: io.NopCloser(strings.NewReader("x")), Size: 1}, nil
		})
		export := must(s.Find(t.Context(), register(t, s, "https://x.example/late")[0]))(t)
		_, err := s.Open(t.Context(), export)
		is.True(errors.Is(err, exports.ErrTimeout))
		is.Equal(upstream.open.Load(), int64(0))
	})
}

func TestNewService_RejectsNil(t *testing.T) {
	is := is.New(t)
	_, err := exports.NewService(nil, nil)
	is.True(err != nil)
	_, err = exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{newFakeUpstream(), nil}})
	is.True(err != nil)
}

func TestCauseError_IsErrFailedByDefault(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	err := error(&exports.CauseError{Cause: "the disk is gone"})
	is.Equal(err.Error(), exports.ErrFailed.Error())
	is.True(errors.Is(err, exports.ErrFailed))
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
		"https://user:secret@viewer.example/a.dwg?X-Signature=secret&id=7#secret": "https://viewer.example/a.dwg",
		"https://secret@viewer.example:8443/a%2Fb%20c":                            "https://viewer.example:8443/a%2Fb%20c",
		"http://user:secret@[2606:4700::1]:80?secret":                             "http://[2606:4700::1]:80",
		"https://viewer.example/a@b/c?secret":                                     "https://viewer.example/a@b/c",
		"https://bücher.example/é?secret":                                         "https://b%C3%BCcher.example/%C3%A9",
		"//user:secret@viewer.example/b.dwg?token=secret":                         "//viewer.example/b.dwg",
		"drawings/c.dwg?token=secret":                                             "drawings/c.dwg",
		"drawing 7":                                                               "drawing%207",
		"urn:drawing:7?secret#secret":                                             "urn:drawing:7",
		`C:\drawings\d.dwg`:                                                       `c:\drawings\d.dwg`,
		"dwg:plan key 5":                                                          "dwg:plan%20key%205",
		"plan key 5":                                                              "plan%20key%205",
		"7:plan":                                                                  "7:plan",
		"50% plan\n7":                                                             "50%25%20plan%0A7",
		"7:plan?secret":                                                           "[invalid URL]",
		`7:plan\secret`:                                                           "[invalid URL]",
		"https%3A%2f%2fcanvas.example%2Flinks%2F" + strings.Repeat("a", 43) + "%":               "[invalid URL]",
		"viewer.example%3Ftoken%3Dsecret%":                                                      "[invalid URL]",
		"7user:secret%40viewer.example":                                                         "[invalid URL]",
		"https%3A%2F%2Fviewer.example%2Fe%3Ftoken%3Dsecret":                                     "[invalid URL]",
		" https://viewer.example/e?secret\n":                                                    "https://viewer.example/e",
		"https://canvas.example/v/exports/links/" + strings.Repeat("-_sT", 10) + "abc/plan.pdf": "https://canvas.example/v/exports/links/.../plan.pdf",
		"https://canvas.example/exports/links/%41" + strings.Repeat("a", 42) + "/a%2Fb":         "https://canvas.example/exports/links/.../a/b",
		"canvas.example:443/exports/links/" + strings.Repeat("a", 43) + "/a.pdf":                "canvas.example:443/exports/links/.../a.pdf",
		"/exports/links/" + strings.Repeat("a", 43):                                             "/exports/links/...",
		"links/" + strings.Repeat("a", 43) + "/a.pdf":                                           "links/.../a.pdf",

		"?secret": "",
		"":        "",

		"https://viewer.example/" + strings.Repeat("a", 8000) + "?secret": "https://viewer.example/" + strings.Repeat("a", 177) + "...",
		"x:" + strings.Repeat("é", 8000):                                  "x:" + strings.Repeat("é", 99) + "...",

		"https://viewer.example/%zz?token=secret": "[invalid URL]",
		"https://user:secret@viewer.example/%zz":  "[invalid URL]",
		"https://user:sec ret@viewer.example/":    "[invalid URL]",
		"https://secret:x:y@[/":                   "[invalid URL]",
		"us_er:secret@viewer.example":             "[invalid URL]",
		"user:secret@viewer.example/a":            "[invalid URL]",
		"user:sec/ret@viewer.example":             "[invalid URL]",
		"https://viewer.example/\nsecret":         "[invalid URL]",
	} {
		if got := exports.RedactURL(rawURL); got != want {
			t.Errorf("RedactURL(%q) = %q, want %q", rawURL, got, want)
		}
	}
}

func TestPut_KeepsNameAndOwner(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(newFakeUpstream(), exports.Options{})
	put := func(r exports.Registration) (exports.Export, error) {
		r.SourceURL, r.ExportedURL = "s", "https://x.example/"
		export, _, err := s.Register(t.Context(), r)
		return export, err
	}
	export := must(put(exports.Registration{By: "key 1", FileName: new("a.pdf"), OwnOnly: true}))(t)
	is.Equal([]string{export.FileName, export.RegisteredBy}, []string{"a.pdf", "key 1"})
	export = must(put(exports.Registration{By: "key 1", OwnOnly: true}))(t)
	is.Equal(export.FileName, "a.pdf") // the previous one
	_, err := put(exports.Registration{By: "key 2", OwnOnly: true})
	is.Equal(err, exports.ErrNotOwner)
	export = must(put(exports.Registration{By: "key 2", FileName: new(" ")}))(t)
	is.Equal([]string{export.FileName, export.RegisteredBy}, []string{"", "key 2"})
	_, err = put(exports.Registration{By: "a\x00"})
	is.True(errors.Is(err, exports.ErrInvalid))
}

func TestList_ValidatesFilter(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(newFakeUpstream(), exports.Options{})
	register(t, s, slices.Repeat([]string{"https://x.example/"}, 102)...)
	for _, test := range []struct {
		contains string
		rows     exports.Range
		count    int
		more     bool
	}{
		{"", exports.Range{}, 102, false},
		{"", exports.Range{Limit: 101}, 101, true},
		{"", exports.Range{After: 100}, 2, false},
		{"source-10", exports.Range{Limit: 2}, 2, true}, // of 10, 100 and 101
		{strings.Repeat("ä", exports.MaxURLLength), exports.Range{}, 0, false},
	} {
		page := must(s.List(t.Context(), exports.Filter{Contains: test.contains}, test.rows))(t)
		is.Equal(len(page.Exports), test.count)
		is.Equal(page.More, test.more)
	}
	for _, text := range []string{"\xff", "a\x00", strings.Repeat("ä", exports.MaxURLLength+1)} {
		_, err := s.List(t.Context(), exports.Filter{Contains: text}, exports.Range{})
		is.True(errors.Is(err, exports.ErrInvalid) && strings.HasPrefix(err.Error(), "q "))
		_, err = s.List(t.Context(), exports.Filter{Tenant: &text}, exports.Range{})
		is.True(errors.Is(err, exports.ErrInvalid) && strings.HasPrefix(err.Error(), "tenant "))
		_, _, err = s.Tenant(text).Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: "https://x.example/"})
		is.True(errors.Is(err, exports.ErrInvalid))
		is.True(errors.Is(s.AssignTenant(t.Context(), text), exports.ErrInvalid))
	}
	is.NoErr(s.AssignTenant(t.Context(), "")) // its own
	is.Equal(must(s.Get(t.Context(), 1))(t).SourceURL, "source-0")
	_, err := s.Get(t.Context(), 103)
	is.Equal(err, exports.ErrNotFound)
}

func TestCheck_ReportsWhatADownloadSends(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	content := []byte("content")
	export := exports.Export{ExportedURL: "https://x.example/plan.pdf"}
	upstream.serveFile(export.ExportedURL, content, exports.File{Size: 7, Type: "application/pdf", Validator: "v"})
	check := must(s.Check(t.Context(), export, 3))(t)
	is.Equal([]any{check.Name, check.Size, check.Type, check.Body}, []any{"plan.pdf", int64(7), "application/pdf", nil})
	is.True(!check.Resumable) // its Opener cannot read parts
	is.Equal(upstream.open.Load(), int64(0))

	upstream.serveFile(export.ExportedURL, content, exports.File{Size: 8, Validator: "v"})
	_, err := s.Check(t.Context(), export, 100)
	is.True(errors.Is(err, exports.ErrFailed)) // truncated
	is.Equal(upstream.open.Load(), int64(0))

	origin := newFakeOrigin()
	s = newService(origin, exports.Options{})
	for validator, resumable := range map[string]bool{"v": true, "": false} {
		origin.set(export.ExportedURL, fakeFile{size: 5, validator: validator})
		check = must(s.Check(t.Context(), export, 3))(t)
		is.Equal(check.Resumable, resumable)
	}
	is.NoErr(s.Flush(t.Context()))
}

// A Size that an Opener has forgotten must not make empty files.
func TestPrefetch_RejectsContentBeyondSize(t *testing.T) {
	t.Parallel()
	upstream, s := newUpstream(exports.Options{})
	export := exports.Export{ExportedURL: "https://x.example/plan.pdf"}
	for name, body := range map[string]func() io.ReadCloser{
		"small": func() io.ReadCloser { return io.NopCloser(strings.NewReader("content")) },
		"large": func() io.ReadCloser { return io.NopCloser(strings.NewReader(strings.Repeat("content", 1<<18))) },
		"local": func() io.ReadCloser { return must(os.Open("service_test.go"))(t) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			upstream.handle(export.ExportedURL, func(context.Context) (*exports.File, error) {
				return &exports.File{Body: body()}, nil
			})
			_, err := s.Check(t.Context(), export, 64<<10)
			is.True(errors.Is(err, exports.ErrFailed))
			is.True(strings.Contains(err.Error(), "Size of 0 bytes"))
		})
	}
}

// adaptiveOrigin is a fakeOrigin that states its concurrency.
type adaptiveOrigin struct {
	*fakeOrigin
	concurrency int
}

func (o adaptiveOrigin) Concurrency(*url.URL) int { return o.concurrency }

// newAdaptive returns a Service with the sources "a" and "b" for files of 5 bytes.
func newAdaptive(t *testing.T, concurrency int, o exports.Options) *exports.Service {
	t.Helper()
	origin := newFakeOrigin()
	o.Openers = []exports.Opener{adaptiveOrigin{origin, concurrency}}
	s := must(exports.NewService(memory.New().Exports(), &o))(t)
	o.Openers[0] = nil // the Service has a copy
	for _, source := range []string{"a", "b"} {
		origin.set("https://x.example/"+source, newFile(5, 1))
		put(t, s, source, "https://x.example/"+source)
	}
	return s
}

func TestOptions_LargeValuesAreNoLimits(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 1 << 29, math.MaxInt32, math.MaxInt} { // less than zero is zero
		for _, concurrency := range []int{-1, 0, 1, n} {
			is := is.New(t)
			s := newAdaptive(t, concurrency, exports.Options{
				OpenTimeout: time.Duration(min(n, 0)), LinkLifetime: time.Duration(min(n, 0)), MaxItems: n, Prefetch: n, PrefetchBytes: n,
				LinkServed: n, LinkRequests: n, LinksPerKey: n, LinkBytesPerKey: int64(n),
			})
			_, skipped, err := downloadBatch(t, s, []string{"a", "b"})
			is.NoErr(err)
			is.Equal(len(skipped), 0)
			link := single(t, s, "a")
			must(s.FindLink(t.Context(), link.Token))(t)
			is.Equal(must(read(t, link, 0, 5))(t), contentOf(newFile(5, 1)))
			export := must(s.Find(t.Context(), "a"))(t)
			must(s.Check(t.Context(), export, n))(t)
			must(s.Check(t.Context(), export, -1))(t)
		}
	}
}

func TestBatch_FollowsConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T, is *is.I) {
		origin := newFakeOrigin()
		origin.delay = time.Second
		s := newService(adaptiveOrigin{origin, 2}, exports.Options{})
		origin.set("https://x.example/a", newFile(5, 1))
		start := time.Now()
		_, _, err := downloadBatch(t, s, slices.Repeat(register(t, s, "https://x.example/a"), 6))
		is.NoErr(err)
		is.Equal(time.Since(start), 3*time.Second)
		is.NoErr(s.Flush(t.Context()))
	})
}

// TestFlush_WhileDownloadsEnd flushes as after the Close of a server, which does not wait for
// handlers.
func TestFlush_WhileDownloadsEnd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newAdaptive(t, 6, exports.Options{})
	var wg sync.WaitGroup
	for range 4 {
		link := single(t, s, "a")
		wg.Go(func() {
			for range 50 {
				must(read(t, link, 0, 5))(t)
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
	s := newAdaptive(t, 6, exports.Options{})
	link := must(s.CreateLink(t.Context(), exports.LinkRequest{Items: must(s.FindBatch(t.Context(), exports.BatchOf("a", "b")))(t)}))(t)
	text := string(must(json.Marshal(link))(t)) + fmt.Sprintf("%+v %v", *link, link)
	is.True(!strings.Contains(text, link.Token))
}

// TestItems_ShareNoExport changes the exports of items, as an application may.
func TestItems_ShareNoExport(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, is *is.I) {
		s := newAdaptive(t, 6, exports.Options{Resolve: func(_ context.Context, r exports.ResolveRequest) (exports.Resolution, error) {
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
