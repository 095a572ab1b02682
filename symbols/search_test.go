package symbols_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

func parseQuery(t testing.TB, text string) symbols.Query {
	t.Helper()
	return must(symbols.ParseQuery(text))(t)
}

// search returns the names of all symbols that match text.
func search(t testing.TB, s *symbols.Service, text string) []string {
	t.Helper()
	names, last := []string{}, int64(0)
	for more := true; more; {
		page := must(s.Search(t.Context(), parseQuery(t, text), symbols.Range{After: last}))(t)
		for _, info := range page.Symbols {
			names, last = append(names, info.Name), info.ID
		}
		more = page.More
	}
	return names
}

func TestSearch_RejectsZeroQuery(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols(), nil)
	create(t, s, "a")
	is.True(errors.Is(errorOf(s.Search(t.Context(), symbols.Query{}, symbols.Range{})), symbols.ErrInvalid))
}

func TestSearch_FoldsCase(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols(), nil)
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
	s := newService(t, memory.New().Symbols(), nil)
	var want []int64
	for i := range 3000 {
		if i%1000 == 0 {
			must(s.CreateFolder(t.Context(), fmt.Sprint(i)))(t)
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
			page = must(s.Search(t.Context(), parseQuery(t, "VALVE"), symbols.Range{After: after, Limit: limit}))(t)
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
	s := newLibrary(t, memory.New().Symbols(), nil)
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
	processes := []*symbols.Service{newLibrary(t, store, nil), newService(t, store, nil)}
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
	const limit = 120 << 10 // one segment of nine, and the names of one or two
	all := newLibrary(t, store, nil)
	some := newService(t, store, &symbols.Options{SearchIndex: limit})
	none := newService(t, store, &symbols.Options{SearchIndex: 1})
	for i := range 9000 {
		create(t, all, fmt.Sprint("Gate valve ", i%3000))
	}
	is.NoErr(some.LoadSearchIndex(t.Context()))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		id, name := 1+random.Int64N(9000), fmt.Sprint("renamed ", i)
		must(all.UpdateSymbol(t.Context(), id, symbols.SymbolFields{Name: &name}, symbols.Any))(t)
		is.Equal(search(t, some, name), []string{name})
		is.Equal(search(t, none, name), []string{name})
		text := fmt.Sprint(random.IntN(3000), " valve")
		is.Equal(search(t, some, text), search(t, all, text))
		size, counted := some.IndexSize()
		is.True(size == counted && size > limit/2 && size <= limit)
	}
	size, _ := none.IndexSize()
	is.Equal(size, int64(0))
}

// TestSearch_IndexIsSmall has names of ordinary length, and 64 bytes for each.
func TestSearch_IndexIsSmall(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const segments, limit = 10, 10 * symbols.SegmentSize * 64
	store := &recordingStore{Store: memory.New().Symbols()}
	s := newLibrary(t, store, &symbols.Options{SearchIndex: limit})
	for i := range segments * symbols.SegmentSize {
		create(t, s, fmt.Sprintf("Gate valve, flanged %5d", i))
	}
	is.NoErr(s.LoadSearchIndex(t.Context()))
	is.Equal(search(t, s, "12345"), []string{})
	is.Equal(store.segments.Load(), int64(segments+1)) // each once
	size, counted := s.IndexSize()
	is.True(size == counted && size <= limit)
}

func TestSearch_FindsTags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newLibrary(t, memory.New().Symbols(), nil)
	for name, tags := range map[string][]string{"Gate valve": {"Brass", "DN 50\nflanged"}, "brasserie": nil} {
		list := must(symbols.NewTags(tags...))(t)
		is.Equal(list.List(), tags)
		must(s.CreateSymbol(t.Context(), 1, symbols.NewSymbol{Name: name, Type: "a/b", Data: "x", Tags: list}))(t)
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
	must(symbols.NewTags(many[1:]...))(t)
	for _, list := range [][]string{many, {"a", "a"}, {""}, {" \t"}, {"a\x00"}, {"\xff"}, {strings.Repeat("ä", 65)}} {
		_, err := symbols.NewTags(list...)
		is.True(errors.Is(err, symbols.ErrInvalid) && strings.HasPrefix(err.Error(), "tags"))
	}
}

// onlyNames is the size of an index that has room for a few names, but not for all that
// searches return.
const onlyNames = 16_700

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
	s := newLibrary(t, renamingStore{memory.New().Symbols()}, &symbols.Options{SearchIndex: onlyNames})
	create(t, s, "Gate valve", "Gate valve")
	is.NoErr(s.LoadSearchIndex(t.Context()))
	page := must(s.Search(t.Context(), parseQuery(t, "valve"), symbols.Range{}))(t)
	is.Equal(len(page.Symbols), 1)
	is.Equal(page.Symbols[0].ID, int64(2))
}

// recordingStore records what searches read.
type recordingStore struct {
	symbols.Store
	before   func()       // a segment is read; may be nil
	segments atomic.Int64 // how many
	ids      []int64      // of symbols
}

func (s *recordingStore) ListSegment(ctx context.Context, id int64) ([]symbols.SegmentSymbol, error) {
	s.segments.Add(1)
	if s.before != nil {
		s.before()
	}
	return s.Store.ListSegment(ctx, id)
}

func (s *recordingStore) FindSymbolInfos(ctx context.Context, ids []int64) ([]symbols.SymbolInfo, error) {
	s.ids = append(s.ids, ids...)
	return s.Store.FindSymbolInfos(ctx, ids)
}

func TestSearch_ReadsWhatIndexLacks(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64][]int64{0: nil, onlyNames: {1, 3}} {
		is := is.New(t)
		store := &recordingStore{Store: memory.New().Symbols()}
		s := newLibrary(t, store, &symbols.Options{SearchIndex: size})
		create(t, s, "Gate valve", "Pump", "Ball valve")
		is.NoErr(s.LoadSearchIndex(t.Context()))
		is.Equal(search(t, s, "valve"), []string{"Gate valve", "Ball valve"})
		is.Equal(store.ids, want)
	}
}

// TestSearch_SharesReads searches while the segment is being read.
func TestSearch_SharesReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &recordingStore{Store: memory.New().Symbols(), before: synctest.Wait}
		s := newLibrary(t, store, nil)
		create(t, s, "Gate valve")
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { is.New(t).Equal(search(t, s, "valve"), []string{"Gate valve"}) })
		}
		wg.Wait()
		is.New(t).Equal(store.segments.Load(), int64(1))
	})
}

// TestSearch_SharesReadsOfChangingSegment begins 16 searches, each after a change and while
// the segment is being read for those before.
func TestSearch_SharesReadsOfChangingSegment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		store := &recordingStore{Store: memory.New().Symbols(), before: func() { time.Sleep(time.Second) }}
		s := newLibrary(t, store, nil)
		create(t, s, "Gate valve")
		var wg sync.WaitGroup
		for i := range 16 {
			name := fmt.Sprint("Gate valve ", i)
			must(s.UpdateSymbol(t.Context(), 1, symbols.SymbolFields{Name: &name}, symbols.Any))(t)
			wg.Go(func() { is.Equal(len(search(t, s, "valve")), 1) })
			synctest.Wait()
		}
		wg.Wait()
		is.True(store.segments.Load() <= 4) // those that began before the last change, and those after it
	})
}
