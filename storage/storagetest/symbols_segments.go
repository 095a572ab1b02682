package storagetest

import (
	"slices"
	"testing"

	"example.com/canvasback/symbols"
)

// segment returns a segment with all of its symbols.
func segment(t testing.TB, s Storage, id int64) (symbols.Version, []symbols.SegmentSymbol) {
	t.Helper()
	store := s.Symbols().Tenant("of nothing") // segments are those of all tenants
	list, err := store.ListSegments(t.Context())
	must(t, err)
	if !slices.IsSortedFunc(list, func(a, b symbols.Segment) int { return int(a.ID - b.ID) }) {
		t.Errorf("ListSegments returns %+v", list)
	}
	contents, err := store.ListSegment(t.Context(), id)
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
	start, last := want[0].ID/symbols.SegmentSize, want[len(want)-1].ID/symbols.SegmentSize
	for id := max(start-1, 0); id < last+2; id++ {
		if _, contents := segment(t, s, id); !slices.Equal(contents, inSegment(id)) {
			t.Errorf("segment %d has %d symbols, want %d", id, len(contents), len(inSegment(id)))
		}
	}

	versions := func() map[int64]symbols.Version {
		list := make(map[int64]symbols.Version)
		for id := start; id <= last; id++ {
			list[id], _ = segment(t, s, id)
		}
		return list
	}
	// Each change replaces the version of its segment only.
	change := func(name string, id int64, f func() error) {
		t.Helper()
		changed := id / symbols.SegmentSize
		before := versions()
		must(t, f())
		for id, after := range versions() {
			if (after != before[id]) != (id == changed) {
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
		return s.Symbols().DeleteSymbols(t.Context(), []int64{first}, deletion)
	})
	change("restoration", first, func() error { return restoreDeleted(t, s.Symbols(), first, b.ID) })
	change("new tags", first, func() error {
		_, err := s.Symbols().UpdateSymbols(t.Context(), []int64{first}, restorer, func(info *symbols.SymbolInfo) error { info.Tags = newTags("new"); return nil })
		return err
	})
	change("deletion of several", first, func() error {
		return s.Symbols().DeleteSymbols(t.Context(), []int64{first, want[1].ID}, deletion)
	})
	change("insertion", want[len(want)-1].ID, func() error {
		_, err := s.Symbols().InsertSymbols(t.Context(), a.ID, newSymbols("late", "later"))
		return err
	})
	before := versions()
	must(t, s.Symbols().DeleteFolder(t.Context(), a.ID, symbols.Deletion{Match: symbols.Any}))
	for id, after := range versions() {
		if after == before[id] {
			t.Errorf("DeleteFolder keeps the version of segment %d", id)
		}
		_, contents := segment(t, s, id)
		for _, symbol := range contents {
			if _, err := s.Symbols().GetSymbol(t.Context(), symbol.ID); err != nil {
				t.Fatalf("segment %d has %+v: %v", id, symbol, err)
			}
		}
	}
}
