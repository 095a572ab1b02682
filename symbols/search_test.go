package symbols_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// parseQuery returns the query for a text.
func parseQuery(t testing.TB, text string) symbols.Query {
	t.Helper()
	query, err := symbols.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	return query
}

// search returns the names of all symbols that match text.
func search(t testing.TB, s *symbols.Service, text string) []string {
	t.Helper()
	names, last := []string{}, int64(0)
	for more := true; more; {
		page, err := s.Search(t.Context(), parseQuery(t, text), symbols.Range{After: last})
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range page.Symbols {
			names, last = append(names, info.Name), info.ID
		}
		more = page.More
	}
	return names
}

func TestSearch_FoldsCase(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols())
	create(t, s,
		"Gate valve", "GROẞ", "groß", "gross", "Ärger", "ärger", "a\u0308rger", "100%", "under_score", "ΣΊΣΥΦΟΣ", "σίσυφος", "\u212a", "İ", "ı", "ſ",
	)
	for text, want := range map[string][]string{
		"VALVE":                  {"Gate valve"},
		"e V":                    {"Gate valve"},
		"valve\u2003gate":        {"Gate valve"}, // in any order, at any white space
		"\tgat val\u00a0":        {"Gate valve"},
		"gate valves":            {},
		"Groß":                   {"GROẞ", "groß"}, // ẞ equals ß, not ss
		"ss":                     {"gross"},
		"ÄRGER":                  {"Ärger", "ärger"}, // not normalized
		"%":                      {"100%"},
		"_":                      {"under_score"},
		"σισ":                    {},
		"Σίσ":                    {"ΣΊΣΥΦΟΣ", "σίσυφος"}, // the final form equals the others
		"K":                      {"\u212a"},
		"i":                      {}, // neither dotted nor dotless
		"s":                      {"gross", "under_score", "ſ"},
		"valve\x01":              {},
		strings.Repeat("ä", 255): {},
	} {
		if got := search(t, s, text); !slices.Equal(got, want) {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", " ", "\u2003\t", "a\x00b", "\xff", strings.Repeat("ä", 256)} {
		_, err := symbols.ParseQuery(text)
		is.True(err != nil && strings.HasPrefix(err.Error(), "q "))
	}
}

func TestSearch_Pages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Symbols())
	var want []int64
	for i := range 3000 {
		if i%1000 == 0 {
			_, err := s.CreateFolder(t.Context(), fmt.Sprint(i))
			is.NoErr(err)
		}
		name := "other"
		if i%1000%7 == 0 {
			name = "valve valve"
		}
		symbol, err := s.CreateSymbol(t.Context(), int64(1+i/1000), symbols.NewSymbol{Name: name, Type: "a/b", Data: "x"})
		is.NoErr(err)
		if name != "other" {
			want = append(want, symbol.ID)
		}
	}
	for _, limit := range []int{1, 10, 142, 143, 428, 429, 430} {
		var got []int64
		for page, after := (symbols.InfoPage{More: true}), int64(0); page.More; after = got[len(got)-1] {
			var err error
			page, err = s.Search(t.Context(), parseQuery(t, "VALVE"), symbols.Range{After: after, Limit: limit})
			is.NoErr(err)
			is.True(len(page.Symbols) <= limit && (len(page.Symbols) == limit || !page.More))
			for _, info := range page.Symbols {
				got = append(got, info.ID)
			}
		}
		is.Equal(got, want)
	}
}

// TestSearch_ComparesAllNames compares results with those of comparing each name.
func TestSearch_ComparesAllNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols())
	random := rand.New(rand.NewPCG(1, 2))
	text := func(longest int) string {
		letters := []rune("aAbB1 äÄẞ€")
		out := make([]rune, 1+random.IntN(longest))
		for i := range out {
			out[i] = letters[random.IntN(len(letters))]
		}
		return string(out)
	}
	var names []string
	for len(names) < 3000 {
		if name := text(20); strings.TrimSpace(name) != "" {
			names = append(names, name)
		}
	}
	create(t, s, names...)
	for range 100 {
		part := text(6)
		if strings.TrimSpace(part) == "" {
			continue
		}
		query := parseQuery(t, part)
		want := []string{}
		for _, name := range names {
			if query.Matches(name, symbols.Tags{}) {
				want = append(want, name)
			}
		}
		is.Equal(search(t, s, part), want)
	}
}

// TestSearch_NeverStale changes symbols in two processes, and searches in the other
// one after each change.
func TestSearch_NeverStale(t *testing.T) {
	t.Parallel()
	store := memory.New().Symbols()
	processes := []*symbols.Service{newLibrary(t, store), newService(t, store)}
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			s, other := processes[writer%2], processes[1-writer%2]
			found := func(text string, want int) {
				if page, err := other.Search(t.Context(), parseQuery(t, text), symbols.Range{}); err != nil || len(page.Symbols) != want {
					t.Errorf("%q: found %v %v, want %d", text, page, err, want)
				}
			}
			for i := range 200 {
				name := fmt.Sprintf("<%d %d>", writer, i)
				symbol, err := s.CreateSymbol(t.Context(), 1, symbols.NewSymbol{Name: name, Type: "a/b", Data: "x"})
				if err != nil {
					t.Error(err)
					return
				}
				found(name, 1)
				if _, err := s.UpdateSymbol(t.Context(), symbol.ID, symbols.SymbolFields{Name: new("new " + name)}, symbols.Any); err != nil {
					t.Error(err)
				}
				found("NEW "+name, 1)
				if err := s.DeleteSymbol(t.Context(), symbol.ID, symbols.Any, 0); err != nil {
					t.Error(err)
				}
				found(name, 0)
			}
		})
	}
	wg.Wait()
}

// TestSearch_IsCorrectBeyondIndex compares an index that keeps some of the segments with
// one that keeps all, and with none.
func TestSearch_IsCorrectBeyondIndex(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := memory.New().Symbols()
	const limit = 120 << 10 // three or four segments of nine
	all := newLibrary(t, store)
	some, err := symbols.NewService(store, &symbols.Options{SearchIndex: limit})
	is.NoErr(err)
	none, err := symbols.NewService(store, &symbols.Options{SearchIndex: 1})
	is.NoErr(err)
	for i := range 9000 {
		create(t, all, fmt.Sprint("Gate valve ", i%3000))
	}
	is.NoErr(some.LoadSearchIndex(t.Context()))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		id, name := 1+random.Int64N(9000), fmt.Sprint("renamed ", i)
		_, err := all.UpdateSymbol(t.Context(), id, symbols.SymbolFields{Name: &name}, symbols.Any)
		is.NoErr(err)
		is.Equal(search(t, some, name), []string{name})
		is.Equal(search(t, none, name), []string{name})
		text := fmt.Sprint(random.IntN(3000), " valve")
		is.Equal(search(t, some, text), search(t, all, text))
		size, counted := some.IndexSize()
		is.True(size == counted && size > limit/2 && size <= limit)
	}
	size, _ := none.IndexSize()
	is.Equal(size, int64(0))
	size, _ = none.FoundSize() // of segments that are not kept
	is.Equal(size, int64(0))
}

// TestSearch_IndexIsSmall measures names of ordinary length.
func TestSearch_IndexIsSmall(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols())
	const count = 10 * symbols.SegmentSize
	for i := range count {
		create(t, s, fmt.Sprintf("Gate valve, flanged %5d", i))
	}
	is.NoErr(s.LoadSearchIndex(t.Context()))
	size, _ := s.IndexSize()
	is.True(size > 0 && size/count < 64)
}

func TestSearch_FindsTags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols())
	for name, tags := range map[string][]string{"Gate valve": {"Brass", "DN 50\nflanged"}, "brasserie": nil} {
		list, err := symbols.NewTags(tags...)
		is.NoErr(err)
		is.Equal(list.List(), tags)
		_, err = s.CreateSymbol(t.Context(), 1, symbols.NewSymbol{Name: name, Type: "a/b", Data: "x", Tags: list})
		is.NoErr(err)
	}
	for text, want := range map[string][]string{
		"brass valve": {"Gate valve"},
		"FLANGED gat": {"Gate valve"},
		"50 brass dn": {"Gate valve"},
		"brassdn":     {},
		"brass serie": {"brasserie"},
	} {
		is.Equal(search(t, s, text), want)
	}
}

func TestNewTags_RejectsInvalid(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	_, err := symbols.NewTags(many[1:]...)
	is.NoErr(err)
	for _, list := range [][]string{many, {"a", "a"}, {""}, {" \t"}, {"a\x00"}, {"\xff"}, {strings.Repeat("ä", 65)}} {
		_, err := symbols.NewTags(list...)
		is.True(errors.Is(err, symbols.ErrInvalid) && strings.HasPrefix(err.Error(), "tags"))
	}
}

// renamingStore renames a symbol between the two reads of a search.
type renamingStore struct{ symbols.Store }

func (s renamingStore) FindSymbolInfos(ctx context.Context, ids []int64) ([]symbols.SymbolInfo, error) {
	_, err := s.UpdateSymbol(ctx, ids[0], func(symbol *symbols.Symbol) error {
		symbol.Name = "Pump"
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.Store.FindSymbolInfos(ctx, ids)
}

func TestSearch_LeavesOutRenamedSymbol(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, renamingStore{memory.New().Symbols()})
	create(t, s, "Gate valve", "Gate valve")
	page, err := s.Search(t.Context(), parseQuery(t, "valve"), symbols.Range{})
	is.NoErr(err)
	is.Equal(len(page.Symbols), 1)
	is.Equal(page.Symbols[0].ID, int64(2))
}

// findingStore records which symbols are read by their ids.
type findingStore struct {
	symbols.Store
	ids []int64
}

func (s *findingStore) FindSymbolInfos(ctx context.Context, ids []int64) ([]symbols.SymbolInfo, error) {
	s.ids = append(s.ids, ids...)
	return s.Store.FindSymbolInfos(ctx, ids)
}

func TestSearch_KeepsWhatItFinds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := &findingStore{Store: memory.New().Symbols()}
	s := newLibrary(t, store)
	create(t, s, "Gate valve", "Pump", "Ball valve")
	reads := func(text string) []int64 {
		store.ids = nil
		search(t, s, text)
		return store.ids
	}
	is.Equal(reads("valve"), []int64{1, 3})
	is.Equal(reads("valve"), nil)
	is.Equal(reads("nothing"), nil)
	is.Equal(reads("a"), nil)
	is.Equal(reads("p"), []int64{2})
	mimeType := "image/png"
	_, err := s.UpdateSymbol(t.Context(), 2, symbols.SymbolFields{Type: &mimeType}, symbols.Any)
	is.NoErr(err)
	is.Equal(reads("p"), []int64{2})
	is.Equal(reads("e"), []int64{1, 3}) // of the same segment
	is.NoErr(s.DeleteSymbol(t.Context(), 1, symbols.Any, 0))
	is.Equal(reads("valve"), []int64{3})
	size, counted := s.FoundSize() // of each once
	is.Equal(size, counted)
}

// TestSearch_BoundsWhatItKeeps finds more than the index keeps.
func TestSearch_BoundsWhatItKeeps(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, err := symbols.NewService(memory.New().Symbols(), &symbols.Options{SearchIndex: 400 << 10})
	is.NoErr(err)
	_, err = s.CreateFolder(t.Context(), "folder")
	is.NoErr(err)
	for i := range 1000 {
		create(t, s, fmt.Sprintf("valve %4d %s", i, strings.Repeat("x", 200)))
	}
	for range 2 {
		is.Equal(len(search(t, s, "valve")), 1000)
		size, counted := s.FoundSize()
		is.True(size == counted && size > 0 && size <= 50<<10)
	}
}
