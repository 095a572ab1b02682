package exports_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

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
	}
	first := must(s.Get(t.Context(), 1))(t)
	is.Equal(first.SourceURL, "source-0")
	_, err := s.Get(t.Context(), 103)
	is.Equal(err, exports.ErrNotFound)
}

func TestCheck_ReportsWhatADownloadSends(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	upstream, s := newUpstream(exports.Options{})
	open := func(file exports.File, content string) func(context.Context) (*exports.File, error) {
		return func(context.Context) (*exports.File, error) {
			file.Body = io.NopCloser(bytes.NewReader([]byte(content)))
			return &file, nil
		}
	}
	export := exports.Export{ExportedURL: "https://x.example/plan.pdf"}
	upstream.handle(export.ExportedURL, open(exports.File{Size: 7, Type: "application/pdf", Validator: "v"}, "content"))
	check := must(s.Check(t.Context(), export, 3))(t)
	is.Equal([]any{check.Name, check.Size, check.Type, check.Body}, []any{"plan.pdf", int64(7), "application/pdf", nil})
	is.True(!check.Resumable) // its Opener cannot read parts
	is.Equal(upstream.open.Load(), int64(0))

	upstream.handle(export.ExportedURL, open(exports.File{Size: 8, Validator: "v"}, "content"))
	_, err := s.Check(t.Context(), export, 100)
	is.True(errors.Is(err, exports.ErrFailed)) // truncated
	is.Equal(upstream.open.Load(), int64(0))

	origin := newFakeOrigin()
	s = must(exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{origin}}))(t)
	for validator, resumable := range map[string]bool{"v": true, "": false} {
		origin.set(export.ExportedURL, fakeFile{size: 5, validator: validator})
		check = must(s.Check(t.Context(), export, 3))(t)
		is.Equal(check.Resumable, resumable)
	}
	is.NoErr(s.Flush(t.Context()))
}
