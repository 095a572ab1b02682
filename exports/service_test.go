package exports_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
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
	found := must(s.Find(t.Context(), "\tsrc "))(t)
	is.Equal(found, export)

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
	for _, c := range []struct{ source, exported, name, field string }{
		{"", "https://x.example/", "", "sourceFileUrl"},
		{" \t\u3000", "https://x.example/", "", "sourceFileUrl"},
		{long + "x", "https://x.example/", "", "sourceFileUrl"},
		{"a\x00b", "https://x.example/", "", "sourceFileUrl"},
		{"a\xffb", "https://x.example/", "", "sourceFileUrl"},
		{"s", "", "", "exportedUrl"},
		{"s", "x.example/a", "", "exportedUrl"},
		{"s", "//x.example/a", "", "exportedUrl"},
		{"s", "/a", "", "exportedUrl"},
		{"s", "ftp://x.example/a", "", "exportedUrl"},
		{"s", "store://files.example/a", "", "exportedUrl"},
		{"s", "file:///etc/passwd", "", "exportedUrl"},
		{"s", "https:x.example", "", "exportedUrl"},
		{"s", "https:///a", "", "exportedUrl"},
		{"s", "https://u@x.example/", "", "exportedUrl"},
		{"s", "https://u:p@x.example/", "", "exportedUrl"},
		{"s", "https://@x.example/", "", "exportedUrl"},
		{"s", "https://x.example:port/", "", "exportedUrl"},
		{"s", "https://x.example/\x00", "", "exportedUrl"},
		{"s", "https://x.example/" + long, "", "exportedUrl"},
		{"s", "https://private.example/", "", "exportedUrl"},
		{"s", "https://forbidden.example/", "", "exportedUrl"},
		{"s", "https://elsewhere.example/", "", "exportedUrl"},
		{"s", "https://x.example/", "a\x00", "fileName"},
		{"s", "https://x.example/", long + "x", "fileName"},
	} {
		_, _, err := s.Register(t.Context(), exports.Registration{SourceURL: c.source, ExportedURL: c.exported, FileName: &c.name})
		if !errors.Is(err, exports.ErrInvalid) || !strings.HasPrefix(err.Error(), c.field+" ") {
			t.Errorf("Register(%.20q, %.40q, %.20q): %v, want an error about %s", c.source, c.exported, c.name, err, c.field)
		}
	}
}

func TestRegister_ShowsReasonOfOpener(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(newFakeUpstream(), exports.Options{})
	_, _, err := s.Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: "https://private.example/"})
	is.Equal(err.Error(), "exportedUrl is not an allowed URL: the host is private")
	_, _, err = s.Register(t.Context(), exports.Registration{SourceURL: "s", ExportedURL: "https://forbidden.example/"})
	is.Equal(err.Error(), "exportedUrl is not an allowed URL")
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
	_, err := openBatch(t, s, []string{"b", "b"})
	var batch *exports.BatchError
	is.True(errors.As(err, &batch) && errors.Is(err, exports.ErrNotFound))
	is.Equal(withoutErrors(batch.Skipped), []exports.Skipped{{SourceURL: "b", Reason: "not registered"}, {SourceURL: "b", Reason: "not registered"}})
}

func TestOpen_TimeoutEndsWithFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
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
		content, err := io.ReadAll(file.Body)
		is.NoErr(err) // the download outlives the timeout
		is.Equal(string(content), "xxxxx")
		is.NoErr(file.Close())
	})
}

func TestOpen_ClosesFileThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
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
