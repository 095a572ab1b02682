package symbols_test

import (
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

// search returns the names that contain text.
func search(t testing.TB, s *symbols.Service, text string) []string {
	t.Helper()
	page, err := s.Search(t.Context(), text, symbols.Range{})
	if err != nil || page.More {
		t.Fatal(err, page.More)
	}
	names := []string{}
	for _, info := range page.Symbols {
		names = append(names, info.Name)
	}
	return names
}

func TestSearch_FoldsCase(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Symbols())
	folder, err := s.CreateFolder(t.Context(), "A")
	is.NoErr(err)
	for _, name := range []string{
		"Gate valve", "GROẞ", "groß", "gross", "Ärger", "ärger", "a\u0308rger", "100%", "under_score", "ΣΊΣΥΦΟΣ", "σίσυφος", "\u212a", "İ", "ı", "ſ",
	} {
		_, err := s.CreateSymbol(t.Context(), folder.ID, name, "a/b", "x")
		is.NoErr(err)
	}
	for text, want := range map[string][]string{
		"VALVE":                  {"Gate valve"},
		"e V":                    {"Gate valve"},
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
	for _, text := range []string{"", "a\x00b", "\xff", strings.Repeat("ä", 256)} {
		_, err := s.Search(t.Context(), text, symbols.Range{})
		is.True(err != nil && strings.HasPrefix(err.Error(), "q "))
	}
}

func TestSearch_Pages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newService(t, memory.New().Symbols())
	var want []int64
	for i := range 3 {
		folder, err := s.CreateFolder(t.Context(), fmt.Sprint(i))
		is.NoErr(err)
		var given []symbols.NewSymbol
		for j := range 1000 {
			name := "other"
			if j%7 == 0 {
				name = "valve valve"
			}
			given = append(given, symbols.NewSymbol{Name: name, Type: "a/b", Data: "x"})
		}
		created, err := s.CreateSymbols(t.Context(), folder.ID, given)
		is.NoErr(err)
		for _, symbol := range created {
			if symbol.Name != "other" {
				want = append(want, symbol.ID)
			}
		}
	}
	for _, limit := range []int{1, 10, 142, 143, 428, 429, 430} {
		var got []int64
		for page, after := (symbols.InfoPage{More: true}), int64(0); page.More; after = got[len(got)-1] {
			var err error
			page, err = s.Search(t.Context(), "VALVE", symbols.Range{After: after, Limit: limit})
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
	s := newService(t, memory.New().Symbols())
	folder, err := s.CreateFolder(t.Context(), "A")
	is.NoErr(err)
	random := rand.New(rand.NewPCG(1, 2))
	text := func(longest int) string {
		letters := []rune("aAbB1 äÄẞ€")
		out := make([]rune, 1+random.IntN(longest))
		for i := range out {
			out[i] = letters[random.IntN(len(letters))]
		}
		return string(out)
	}
	var given []symbols.NewSymbol
	for len(given) < 3000 {
		if name := text(20); strings.TrimSpace(name) != "" {
			given = append(given, symbols.NewSymbol{Name: name, Type: "a/b", Data: "x"})
		}
	}
	_, err = s.CreateSymbols(t.Context(), folder.ID, given)
	is.NoErr(err)
	for range 300 {
		part := text(6)
		want := []string{}
		for _, symbol := range given {
			if symbols.Contains(symbol.Name, part) {
				want = append(want, symbol.Name)
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
	processes := []*symbols.Service{newService(t, store), newService(t, store)}
	folder, err := processes[0].CreateFolder(t.Context(), "A")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			s, other := processes[writer%2], processes[1-writer%2]
			found := func(text string, want int) {
				if page, err := other.Search(t.Context(), text, symbols.Range{}); err != nil || len(page.Symbols) != want {
					t.Errorf("%q: found %v %v, want %d", text, page, err, want)
				}
			}
			for i := range 200 {
				name := fmt.Sprintf("<%d %d>", writer, i)
				symbol, err := s.CreateSymbol(t.Context(), folder.ID, name, "a/b", "x")
				if err != nil {
					t.Error(err)
					return
				}
				found(name, 1)
				if _, err := s.UpdateSymbol(t.Context(), symbol.ID, symbols.SymbolFields{Name: new("new " + name)}, symbols.Any); err != nil {
					t.Error(err)
				}
				found("NEW "+name, 1)
				if err := s.DeleteSymbol(t.Context(), symbol.ID, symbols.Any); err != nil {
					t.Error(err)
				}
				found(name, 0)
			}
		})
	}
	wg.Wait()
}
