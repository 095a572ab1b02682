package symbols_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

func newService(tb testing.TB, store symbols.Store, options *symbols.Options) *symbols.Service {
	tb.Helper()
	return must(symbols.NewService(store, options))(tb)
}

// newLibrary returns a Service over a store with a folder, whose id is 1.
func newLibrary(tb testing.TB, store symbols.Store, options *symbols.Options) *symbols.Service {
	tb.Helper()
	s := newService(tb, store, options)
	must(s.CreateFolder(tb.Context(), "A"))(tb)
	return s
}

// create creates symbols with the given names in the folder 1.
func create(tb testing.TB, s *symbols.Service, names ...string) []symbols.Symbol {
	tb.Helper()
	given := make([]symbols.NewSymbol, len(names))
	for i, name := range names {
		given[i] = symbols.NewSymbol{Name: name, Type: "a/b", Data: "x"}
	}
	return must(s.CreateSymbols(tb.Context(), 1, given))(tb)
}

func TestNewService_RequiresStore(t *testing.T) {
	t.Parallel()
	is.New(t).True(errorOf(symbols.NewService(nil, nil)) != nil)
}

func TestService_RejectsInvalidFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Symbols(), nil)
	folder := must(s.CreateFolder(t.Context(), strings.Repeat("🦆", 255)))(t)
	symbol, err := s.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: " n ", Type: "image/svg+xml;a=b", Data: "d"})
	is.NoErr(err)
	for _, c := range []struct {
		field  string
		fields symbols.SymbolFields
	}{
		{"name", symbols.SymbolFields{Name: new("")}},
		{"name", symbols.SymbolFields{Name: new(" \u00a0")}},
		{"name", symbols.SymbolFields{Name: new(strings.Repeat("a", 256))}},
		{"name", symbols.SymbolFields{Name: new("\x00")}},
		{"name", symbols.SymbolFields{Name: new("\xff")}},
		{"type", symbols.SymbolFields{Type: new("")}},
		{"type", symbols.SymbolFields{Type: new("svg")}},
		{"type", symbols.SymbolFields{Type: new("image/" + strings.Repeat("a", 250))}},
		{"type", symbols.SymbolFields{Type: new("a/b;\x00")}},
		{"type", symbols.SymbolFields{Type: new("a/b;c=\"\xff\"")}},
		{"data", symbols.SymbolFields{Data: new("")}},
		{"data", symbols.SymbolFields{Data: new("a\x00")}},
		{"data", symbols.SymbolFields{Data: new("a\xed\xa0\x80")}},
		{"folderId", symbols.SymbolFields{FolderID: new(int64(0))}},
	} {
		_, err := s.UpdateSymbol(t.Context(), symbol.ID, c.fields, symbols.Any)
		if !errors.Is(err, symbols.ErrInvalid) || !strings.HasPrefix(err.Error(), c.field+" ") {
			t.Errorf("%+v: got error %v, want one about %s", c.fields, err, c.field)
		}
		if c.field == "name" {
			_, err := s.UpdateFolder(t.Context(), folder.ID, c.fields.Name, symbols.Any)
			_, err2 := s.CreateFolder(t.Context(), *c.fields.Name)
			if !errors.Is(err, symbols.ErrInvalid) || !errors.Is(err2, symbols.ErrInvalid) {
				t.Errorf("folder name %q: %v, %v", *c.fields.Name, err, err2)
			}
		}
	}
	is.True(errors.Is(s.AssignTenant(t.Context(), "a\x00"), symbols.ErrInvalid))
	is.NoErr(s.AssignTenant(t.Context(), "")) // its own
}

func TestService_ConditionalChanges(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ctx := t.Context()
	s := newLibrary(t, memory.New().Symbols(), nil)
	symbol := create(t, s, "n")[0]
	folder := must(s.GetFolder(ctx, 1))(t)

	same, err := s.UpdateSymbol(ctx, symbol.ID, symbols.SymbolFields{Name: new("n")}, symbols.IfMatch(symbol.Version))
	is.NoErr(err)
	is.Equal(same, symbol) // nothing changes, nor does the version
	changed, err := s.UpdateSymbol(ctx, symbol.ID, symbols.SymbolFields{Name: new("m")}, symbols.IfMatch(1, symbol.Version))
	is.NoErr(err)
	is.True(changed.Version != symbol.Version)
	_, err = s.UpdateSymbol(ctx, symbol.ID, symbols.SymbolFields{Name: new("x")}, symbols.IfMatch(symbol.Version))
	is.Equal(err, symbols.ErrChanged)
	for _, match := range []symbols.Match{{}, symbols.IfMatch()} {
		_, err = s.UpdateSymbol(ctx, symbol.ID, symbols.SymbolFields{Name: new("x")}, match)
		is.Equal(err, symbols.ErrChanged)
		is.Equal(errorOf(s.UpdateFolder(ctx, folder.ID, new("x"), match)), symbols.ErrChanged)
	}
	is.Equal(s.DeleteSymbol(ctx, symbol.ID, symbols.IfMatch(symbol.Version), 0), symbols.ErrChanged)
	is.NoErr(s.DeleteSymbol(ctx, symbol.ID, symbols.IfMatch(changed.Version), 0))
	is.Equal(s.DeleteSymbol(ctx, symbol.ID, symbols.IfMatch(changed.Version), 0), symbols.ErrSymbolNotFound)

	renamed := must(s.UpdateFolder(ctx, folder.ID, new("B"), symbols.IfMatch(folder.Version)))(t)
	_, err = s.UpdateFolder(ctx, folder.ID, new("C"), symbols.IfMatch(folder.Version))
	is.Equal(err, symbols.ErrChanged)
	is.Equal(s.DeleteFolder(ctx, folder.ID, symbols.IfMatch(folder.Version), 0), symbols.ErrChanged)
	is.NoErr(s.DeleteFolder(ctx, folder.ID, symbols.IfMatch(renamed.Version), 0))
}

func TestService_CreatesAllSymbolsOrNone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ctx := t.Context()
	s := newLibrary(t, memory.New().Symbols(), nil)
	first := symbols.NewSymbol{Name: "first", Type: "a/b", Data: "1"}
	second := symbols.NewSymbol{Name: "second", Type: "c/d", Data: "2"}

	_, err := s.CreateSymbols(ctx, 1, []symbols.NewSymbol{first, second, {Name: "third", Data: "3"}})
	is.True(errors.Is(err, symbols.ErrInvalid))
	is.True(strings.HasPrefix(err.Error(), "symbols[2].type must be"))
	is.Equal(errorOf(s.CreateSymbols(ctx, 2, []symbols.NewSymbol{first})), symbols.ErrFolderNotFound)
	is.Equal(len(must(s.ListSymbols(ctx, 1, symbols.Range{}))(t).Symbols), 0)

	created := must(s.CreateSymbols(ctx, 1, []symbols.NewSymbol{first, second}))(t)
	is.Equal(must(s.ListSymbols(ctx, 1, symbols.Range{}))(t).Symbols, created)
	is.Equal(len(created), 2)
	is.Equal(created[0].Name+created[0].Type+created[0].Data, "firsta/b1")
	is.Equal(created[1].Name+created[1].Type+created[1].Data, "secondc/d2")
	is.True(created[0].ID < created[1].ID)
}

// failingStore is a store without a connection.
type failingStore struct{ symbols.Store }

func (failingStore) GetFolder(context.Context, int64) (symbols.Folder, error) {
	return symbols.Folder{}, errors.New("no connection")
}

func (failingStore) ListSegment(context.Context, int64) ([]symbols.SegmentSymbol, error) {
	return nil, errors.New("no connection")
}

func TestService_WrapsStoreErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, failingStore{memory.New().Symbols()}, nil)
	_, err := s.GetFolder(t.Context(), 1)
	is.True(errors.Is(err, symbols.ErrUnavailable))
	is.Equal(err.Error(), "symbols: store unavailable: get folder: no connection")
	create(t, s, "a")
	_, err = s.Search(t.Context(), must(symbols.ParseQuery("a"))(t), symbols.Range{})
	is.True(errors.Is(err, symbols.ErrUnavailable))
}

func TestService_ChangesManySymbols(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols(), &symbols.Options{TrashSize: 1})
	names := strings.Split(strings.Repeat("a,", 1000)+"a", ",")
	var ids []int64
	for _, symbol := range create(t, s, names...) {
		ids = append(ids, symbol.ID)
	}
	is.True(errors.Is(s.DeleteSymbols(t.Context(), ids, 0), symbols.ErrInvalid)) // more than 1,000
	is.NoErr(errorOf(s.UpdateSymbols(t.Context(), ids[1:], symbols.BulkFields{RemoveTags: names[1:]})))
	for _, limit := range []int{0, 2000} {
		page := must(s.ListSymbolInfos(t.Context(), 1, symbols.Range{Limit: limit}))(t)
		is.True(len(page.Symbols) == 1000 && page.More)
	}
	is.NoErr(s.DeleteSymbols(t.Context(), ids[1:], 0))
	is.Equal(len(must(s.ListTrash(t.Context(), symbols.Range{}))(t).Entries), 0) // too large for the trash
	is.NoErr(s.DeleteFolder(t.Context(), 1, symbols.Any, 0))
	is.Equal(len(must(s.ListTrash(t.Context(), symbols.Range{}))(t).Entries), 0)
}

func TestListSymbols_LargeSymbolsArePages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols(), nil)
	large := strings.Repeat("x", symbols.LargeSize+1)
	var given []symbols.NewSymbol
	for _, data := range []string{"a", large, "c", large} {
		given = append(given, symbols.NewSymbol{Name: "n", Type: "a/b", Data: data})
	}
	created := must(s.CreateSymbols(t.Context(), 1, given))(t)
	for limit := range 2 {
		var sizes []int
		reserve := func(size int64) error { sizes = append(sizes, int(size)); return nil }
		var got []symbols.Symbol
		for page := (symbols.Page{More: true}); page.More; got = append(got, page.Symbols...) {
			page = must(s.ListSymbolsFunc(t.Context(), 1, symbols.Range{After: int64(len(got)), Limit: limit}, reserve, true))(t)
		}
		is.Equal(got, created)
		is.Equal(sizes, []int{len(large), len(large)})
	}
	is.Equal(must(s.ListSymbols(t.Context(), 1, symbols.Range{After: 1}))(t).Symbols, created[1:2])
	for i, test := range []struct {
		during func() error
		want   int // symbols
	}{
		{func() error { return errors.New("no memory") }, 0},
		{func() error {
			return errorOf(s.UpdateSymbol(t.Context(), 2, symbols.SymbolFields{Data: new("b")}, symbols.Any))
		}, 2},
		{func() error { return s.DeleteSymbol(t.Context(), 4, symbols.Any, 0) }, 0},
	} {
		after := []int64{1, 1, 3}[i]
		page, err := s.ListSymbolsFunc(t.Context(), 1, symbols.Range{After: after}, func(int64) error { return test.during() }, true)
		is.Equal(len(page.Symbols), test.want)
		is.Equal(err == nil, i > 0)
	}
}

func TestNewService_NegativeOptionsAreDefaults(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols(), &symbols.Options{PageSize: -1, SearchIndex: -1, TrashSize: -1})
	list := create(t, s, "a", "a")
	is.Equal(must(s.ListSymbols(t.Context(), 1, symbols.Range{}))(t).Symbols, list)
	found := must(s.Search(t.Context(), must(symbols.ParseQuery("a"))(t), symbols.Range{}))(t)
	is.Equal(len(found.Symbols), 2)
	is.NoErr(s.DeleteSymbol(t.Context(), list[0].ID, symbols.Any, 0))
	is.Equal(len(must(s.ListTrash(t.Context(), symbols.Range{}))(t).Entries), 1)
}

// wrappingStore wraps the errors of a missing folder.
type wrappingStore struct{ symbols.Store }

func (s wrappingStore) UpdateSymbols(
	ctx context.Context, ids []int64, stamp symbols.Stamp, change func(*symbols.SymbolInfo) error,
) (int, error) {
	n, err := s.Store.UpdateSymbols(ctx, ids, stamp, change)
	return n, fmt.Errorf("folders: %w", err)
}

func (s wrappingStore) RestoreTrash(
	ctx context.Context, id int64, oldest time.Time, stamp symbols.Stamp, target func(symbols.TrashEntry) (int64, error),
) (symbols.Restored, error) {
	restored, err := s.Store.RestoreTrash(ctx, id, oldest, stamp, target)
	return restored, fmt.Errorf("trash: %w", err)
}

func TestService_AcceptsWrappedErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, wrappingStore{memory.New().Symbols()}, nil)
	create(t, s, "a", "b")
	is.NoErr(s.DeleteSymbol(t.Context(), 1, symbols.Any, 0))
	_, err := s.UpdateSymbols(t.Context(), []int64{2}, symbols.BulkFields{FolderID: new(int64(7))})
	missing := new(symbols.MissingError)
	is.True(errors.As(err, &missing) && missing.ID == 7)
	is.NoErr(s.DeleteFolder(t.Context(), 1, symbols.Any, 0))
	is.True(errors.Is(errorOf(s.Restore(t.Context(), 1, nil, 0)), symbols.ErrFolderGone))
}

func TestParseMeta(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	service := must(symbols.NewService(memory.New().Symbols(), nil))(t)
	folder := must(service.CreateFolder(t.Context(), "folder"))(t)
	for text, want := range map[string]string{
		" {\"b\" : 1.50,\n\"a\":[ ]} ": `{"b":1.50,"a":[]}`,
		`{"a":"\\u0000"}`:              `{"a":"\\u0000"}`, // a backslash
		`{"a":"\\\u0000"}`:             "",
		`{"\u0000":1}`:                 "",
		`{"a":{"b":1,"b":2}}`:          "",
		"{\"a\":\"\xff\"}":             "",
		`{} {}`:                        "",
		`[]`:                           "",
		``:                             "",
		`{"a":"` + strings.Repeat("a", 16<<10) + `"}`: "",
	} {
		t.Logf("%.100q", text)
		got, err := symbols.ParseMeta([]byte(text))
		is.Equal(got, want)
		is.Equal(errors.Is(err, symbols.ErrInvalid), want == "")
		_, err = service.CreateSymbol(t.Context(), folder.ID, symbols.NewSymbol{Name: "a", Type: "image/svg+xml", Data: "a", Meta: text})
		is.Equal(errors.Is(err, symbols.ErrInvalid), want == "" && text != "")
	}
}

func TestService_RejectsTagsThatNewTagsDoesNotReturn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := must(symbols.NewService(memory.New().Symbols(), nil))(t)
	folder := must(s.CreateFolder(t.Context(), "folder"))(t)
	symbol := symbols.NewSymbol{Name: "name", Type: "a/b", Data: "x"}
	created := must(s.CreateSymbol(t.Context(), folder.ID, symbol))(t)
	for _, text := range []string{"a\x00b\n", "\xff\n", "\n", "a\na\n", "brass", strings.Repeat("a", 65) + "\n"} {
		symbol.Tags = symbols.ParseTags(text)
		is.True(errors.Is(errorOf(s.CreateSymbol(t.Context(), folder.ID, symbol)), symbols.ErrInvalid))
		_, err := s.UpdateSymbol(t.Context(), created.ID, symbols.SymbolFields{Tags: &symbol.Tags}, symbols.Any)
		is.True(errors.Is(err, symbols.ErrInvalid))
	}
}
