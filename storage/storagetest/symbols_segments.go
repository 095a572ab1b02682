package storagetest

import (
	"slices"
	"testing"

	"example.com/canvasback/symbols"
)

// segment returns a segment with all of its symbols.
func segment(t testing.TB, s Storage, id int64) (symbols.Version, []symbols.SegmentSymbol) {
	t.Helper()
	list, err := s.Symbols().ListSegments(t.Context())
	must(t, err)
	if !slices.IsSortedFunc(list, func(a, b symbols.Segment) int { return int(a.ID - b.ID) }) {
		t.Errorf("ListSegments returns %+v", list)
	}
	contents, err := s.Symbols().ListSegment(t.Context(), id)
	must(t, err)
	for _, segment := range list {
		if segment.ID == id {
			return segment.Version, contents
		}
	}
	if len(contents) > 0 {
		t.Errorf("ListSegments omits segment %d with %d symbols", id, len(contents))
	}
	return 0, contents
}

func symbolSegments(t *testing.T, s Harness) {
	a, b := insertFolder(t, s, "a"), insertFolder(t, s, "b")
	var want []symbols.SegmentSymbol
	for range 11 { // more than two segments, with symbols of both folders in each
		for _, folder := range []symbols.Folder{a, b} {
			for _, symbol := range insertSymbols(t, s, folder.ID, newSymbols(slices.Repeat([]string{"é"}, 97)...)...) {
				want = append(want, symbols.SegmentSymbol{SymbolInfo: symbol.Info()})
			}
		}
	}
	inSegment := func(id int64) (list []symbols.SegmentSymbol) {
		for _, symbol := range want {
			if symbol.ID/symbols.SegmentSize == id {
				list = append(list, symbol)
			}
		}
		return list
	}
	last := want[len(want)-1].ID / symbols.SegmentSize
	for id := range last + 2 {
		if _, contents := segment(t, s, id); !slices.Equal(contents, inSegment(id)) {
			t.Errorf("segment %d has %d symbols, want %d", id, len(contents), len(inSegment(id)))
		}
	}

	// Each change replaces the version of its segment only.
	change := func(name string, id int64, f func() error) {
		t.Helper()
		changed := id / symbols.SegmentSize
		before := make(map[int64]symbols.Version)
		for id := range last + 1 {
			before[id], _ = segment(t, s, id)
		}
		must(t, f())
		for id := range last + 1 {
			if after, _ := segment(t, s, id); (after != before[id]) != (id == changed) {
				t.Errorf("%s of a symbol in segment %d: the version of segment %d changes: %v", name, changed, id, after != before[id])
			}
		}
	}
	first := want[0].ID
	update := func(f func(*symbols.Symbol)) func() error {
		return func() error {
			_, err := s.Symbols().UpdateSymbol(t.Context(), first, func(symbol *symbols.Symbol) error {
				f(symbol)
				return nil
			})
			return err
		}
	}
	change("renaming", first, update(func(symbol *symbols.Symbol) { symbol.Name = "new" }))
	change("new data", first, update(func(symbol *symbols.Symbol) { symbol.Data = "new" }))
	change("moving", first, update(func(symbol *symbols.Symbol) { symbol.FolderID = b.ID }))
	change("deletion", first, func() error {
		return s.Symbols().DeleteSymbols(t.Context(), []int64{first}, symbols.Deletion{Match: symbols.Any})
	})
	change("insertion", want[len(want)-1].ID, func() error {
		_, err := s.Symbols().InsertSymbols(t.Context(), a.ID, newSymbols("late"))
		return err
	})
	must(t, s.Symbols().DeleteFolder(t.Context(), a.ID, symbols.Deletion{Match: symbols.Any}))
	for id := range last + 1 {
		_, contents := segment(t, s, id)
		for _, symbol := range contents {
			if _, err := s.Symbols().GetSymbol(t.Context(), symbol.ID); err != nil {
				t.Fatalf("segment %d has %+v: %v", id, symbol, err)
			}
		}
	}
}
