package storagetest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/canvasback/symbols"
)

var symbolPromises = []promise{
	{"insert gives new ids, ascending, in the order given", symbolIDs},
	{"insert stores all symbols or none", symbolInsertAll},
	{"a symbol comes back as it was stored", symbolTexts},
	{"a symbol may have much data", symbolLarge},
	{"update stores what the function leaves", symbolUpdate},
	{"update moves a symbol", symbolMove},
	{"a failing function leaves the symbol", symbolUpdateFails},
	{"a missing symbol is not found", symbolMissing},
	{"delete removes one symbol", symbolDelete},
	{"ids are never used again", symbolIDsOnce},
	{"pages hold all symbols once, in order of id", symbolPages},
	{"a page stops behind the symbol that reaches the size", symbolPageSize},
	{"folders and symbols are values", symbolValues},
	{"folders and symbols outlive the process", symbolLasting},
	{"a store that can be opened twice reports that it is shared", symbolShared},
}

// wholeFolder is a page size that no test exceeds.
const wholeFolder = math.MaxInt32

// newSymbols returns one symbol for each name.
func newSymbols(names ...string) []symbols.Symbol {
	var list []symbols.Symbol
	for _, name := range names {
		list = append(list, symbols.Symbol{Name: name, Type: "image/svg+xml", Data: "data of " + name})
	}
	return list
}

func insertSymbols(t testing.TB, s Storage, folderID int64, list ...symbols.Symbol) []symbols.Symbol {
	t.Helper()
	stored, err := s.Symbols().InsertSymbols(t.Context(), folderID, list)
	must(t, err)
	if len(stored) != len(list) {
		t.Fatalf("InsertSymbols returns %d symbols for %d", len(stored), len(list))
	}
	return stored
}

// insertSymbol stores a symbol in a folder of its own.
func insertSymbol(t testing.TB, s Storage, name string) symbols.Symbol {
	t.Helper()
	return insertSymbols(t, s, insertFolder(t, s, "folder of "+name).ID, newSymbols(name)...)[0]
}

// wantSymbols compares the contents of a folder, and each symbol of it.
func wantSymbols(t testing.TB, s Storage, folderID int64, want ...symbols.Symbol) {
	t.Helper()
	page, err := s.Symbols().ListSymbols(t.Context(), folderID, 0, wholeFolder)
	must(t, err)
	if !slices.Equal(page.Symbols, want) || page.More {
		t.Errorf("ListSymbols returns %+v, want all of %+v", page, want)
	}
	for _, symbol := range want {
		got, err := s.Symbols().GetSymbol(t.Context(), symbol.ID)
		must(t, err)
		if got != symbol {
			t.Errorf("GetSymbol returns %+v, want %+v", got, symbol)
		}
	}
}

func symbolIDs(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	wantSymbols(t, s, folder.ID)
	var given []symbols.Symbol
	for i := range 300 {
		symbol := newSymbols(strconv.Itoa(300 - i))[0]
		symbol.ID, symbol.Version = 1, 1 // to be ignored
		given = append(given, symbol)
	}
	want := insertSymbols(t, s, folder.ID, given[:1]...)
	want = append(want, insertSymbols(t, s, folder.ID, given[1:]...)...)
	last := int64(0)
	for i, symbol := range want {
		if symbol.ID <= last {
			t.Errorf("InsertSymbols gives id %d after %d", symbol.ID, last)
		}
		last = symbol.ID
		if symbol.Name != given[i].Name || symbol.FolderID != folder.ID {
			t.Errorf("InsertSymbols returns %+v for %+v in folder %d", symbol, given[i], folder.ID)
		}
	}
	wantSymbols(t, s, folder.ID, want...)
}

func symbolInsertAll(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	kept := insertSymbols(t, s, folder.ID, newSymbols("kept")...)
	_, err := s.Symbols().InsertSymbols(t.Context(), folder.ID+1, newSymbols("a", "b", "c"))
	wantError(t, err, symbols.ErrFolderNotFound)
	insertSymbols(t, s, folder.ID) // none
	wantSymbols(t, s, folder.ID, kept...)
}

func symbolTexts(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	var given []symbols.Symbol
	for _, text := range oddTexts {
		given = append(given, symbols.Symbol{Name: text, Type: text, Data: text})
	}
	stored := insertSymbols(t, s, folder.ID, given...)
	for i, symbol := range given {
		symbol.ID, symbol.FolderID, symbol.Version = stored[i].ID, folder.ID, stored[i].Version
		if stored[i] != symbol {
			t.Errorf("InsertSymbols returns %+v, want %+v", stored[i], symbol)
		}
	}
	wantSymbols(t, s, folder.ID, stored...)
}

func symbolLarge(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "large")
	for _, data := range []string{
		strings.Repeat("<path d='M0 0'/>", 5<<20/16),
		longText(1 << 18),
	} {
		got, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(symbol *symbols.Symbol) error {
			symbol.Data = data
			return nil
		})
		must(t, err)
		if got.Data != data {
			t.Errorf("UpdateSymbol returns %d bytes of data, want %d", len(got.Data), len(data))
		}
		got, err = s.Symbols().GetSymbol(t.Context(), symbol.ID)
		must(t, err)
		if got.Data != data {
			t.Errorf("GetSymbol returns %d bytes of data, want %d", len(got.Data), len(data))
		}
	}
}

func symbolUpdate(t *testing.T, s Harness) {
	symbol, other := insertSymbol(t, s, "symbol"), insertSymbol(t, s, "other")
	want := symbol
	want.Name, want.Type, want.Data = "renamed", "image/png", "new data"
	for range 2 { // the second time nothing is new
		got, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(present *symbols.Symbol) error {
			if *present != symbol {
				t.Errorf("the function sees %+v, want %+v", *present, symbol)
			}
			*present = want
			return nil
		})
		must(t, err)
		want.Version = got.Version
		if got != want {
			t.Errorf("UpdateSymbol returns %+v, want %+v", got, want)
		}
		wantSymbols(t, s, symbol.FolderID, want)
		symbol = want
	}
	wantSymbols(t, s, other.FolderID, other)
}

// moveSymbol updates the folder of a symbol.
func moveSymbol(t testing.TB, s Storage, id, folderID int64) (symbols.Symbol, error) {
	t.Helper()
	return s.Symbols().UpdateSymbol(t.Context(), id, func(symbol *symbols.Symbol) error {
		symbol.FolderID = folderID
		return nil
	})
}

func symbolMove(t *testing.T, s Harness) {
	from, to := insertFolder(t, s, "from"), insertFolder(t, s, "to")
	list := insertSymbols(t, s, from.ID, newSymbols("a", "moves", "c")...)
	last := insertSymbols(t, s, to.ID, newSymbols("last")...)[0]

	moved, err := moveSymbol(t, s, list[1].ID, to.ID)
	must(t, err)
	want := list[1]
	want.FolderID, want.Version = to.ID, moved.Version
	if moved != want {
		t.Errorf("UpdateSymbol returns %+v, want %+v", moved, want)
	}
	wantSymbols(t, s, from.ID, list[0], list[2])
	wantSymbols(t, s, to.ID, moved, last) // in order of id

	must(t, s.Symbols().DeleteFolder(t.Context(), from.ID))
	wantSymbols(t, s, to.ID, moved, last)
}

func symbolUpdateFails(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "symbol")
	_, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(symbol *symbols.Symbol) error {
		*symbol = symbols.Symbol{Name: "altered"}
		return errRefused
	})
	wantError(t, err, errRefused)
	wantSymbols(t, s, symbol.FolderID, symbol)
}

func symbolMissing(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "symbol")
	for _, id := range []int64{symbol.ID + 1, 0, -1, math.MaxInt64} {
		_, err := s.Symbols().GetSymbol(t.Context(), id)
		wantError(t, err, symbols.ErrSymbolNotFound)
		_, err = moveSymbol(t, s, id, symbol.FolderID)
		wantError(t, err, symbols.ErrSymbolNotFound)
		wantError(t, s.Symbols().DeleteSymbol(t.Context(), id), symbols.ErrSymbolNotFound)
		_, err = s.Symbols().SymbolVersion(t.Context(), id)
		wantError(t, err, symbols.ErrSymbolNotFound)
	}
	wantSymbols(t, s, symbol.FolderID, symbol)
}

func symbolDelete(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	list := insertSymbols(t, s, folder.ID, newSymbols("a", "b", "c")...)
	must(t, s.Symbols().DeleteSymbol(t.Context(), list[1].ID))
	_, err := s.Symbols().GetSymbol(t.Context(), list[1].ID)
	wantError(t, err, symbols.ErrSymbolNotFound)
	wantError(t, s.Symbols().DeleteSymbol(t.Context(), list[1].ID), symbols.ErrSymbolNotFound)
	wantSymbols(t, s, folder.ID, list[0], list[2])
	wantFolders(t, s, folder)
}

func symbolIDsOnce(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	last := insertSymbols(t, s, folder.ID, newSymbols("stays", "newest")...)[1].ID
	must(t, s.Symbols().DeleteSymbol(t.Context(), last))
	next := insertSymbols(t, s, folder.ID, newSymbols("next")...)[0].ID
	if next <= last {
		t.Errorf("InsertSymbols gives id %d, which is not above the deleted %d", next, last)
	}
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID)) // deletes the newest with it
	symbol := insertSymbol(t, s, "in another folder")
	if symbol.ID <= next {
		t.Errorf("InsertSymbols gives id %d, which is not above the deleted %d", symbol.ID, next)
	}
	must(t, s.Symbols().DeleteSymbol(t.Context(), symbol.ID))
	again := s.reopen(t)
	if id := insertSymbol(t, again, "after a restart").ID; id <= symbol.ID {
		t.Errorf("InsertSymbols gives id %d after a restart, which is not above the deleted %d", id, symbol.ID)
	}
}

func symbolPages(t *testing.T, s Harness) {
	folder, other := insertFolder(t, s, "folder"), insertFolder(t, s, "other")
	var want []symbols.Symbol
	for i := range 20 { // both folders in turn, so that ids have gaps
		symbol := newSymbols(strconv.Itoa(i))[0]
		symbol.Data = strings.Repeat("é", i+1)
		want = append(want, insertSymbols(t, s, folder.ID, symbol)...)
		insertSymbols(t, s, other.ID, symbol)
	}
	must(t, s.Symbols().DeleteSymbol(t.Context(), want[9].ID))
	want = slices.Delete(want, 9, 10)

	for _, size := range []int{1, 2, 3, 7, 40, 100, 419, 420, 1000, math.MaxInt} {
		var got []symbols.Symbol
		after := int64(0)
		for more := true; more; {
			page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, after, size)
			must(t, err)
			if len(page.Symbols) == 0 {
				t.Fatalf("the page after %d of size %d is empty, but more was told", after, size)
			}
			got = append(got, page.Symbols...)
			after, more = page.Symbols[len(page.Symbols)-1].ID, page.More
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of size %d hold %+v, want %+v", size, got, want)
		}
	}
	for _, after := range []int64{want[len(want)-1].ID, math.MaxInt64} {
		page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, after, 1)
		must(t, err)
		if len(page.Symbols) != 0 || page.More {
			t.Errorf("the page after the last id returns %+v", page)
		}
	}
	page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, want[8].ID+1, 1) // no id of this folder
	must(t, err)
	if !slices.Equal(page.Symbols, want[9:10]) || !page.More {
		t.Errorf("the page after another folder's symbol returns %+v, want %+v", page, want[9])
	}
}

func symbolPageSize(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	for _, length := range []int{10, 20, 30, 5} {
		symbol := newSymbols("symbol")[0]
		symbol.Data = strings.Repeat("é", length/2) + strings.Repeat("e", length%2)
		insertSymbols(t, s, folder.ID, symbol)
	}
	for _, test := range []struct{ size, most int }{
		{math.MinInt, 1}, {-1, 1}, {0, 1}, {1, 1}, {9, 1}, {10, 1}, {11, 2}, {30, 2}, {31, 3}, {60, 3}, {61, 4}, {65, 4}, {66, 4},
	} {
		page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, 0, test.size)
		must(t, err)
		if n := len(page.Symbols); n < 1 || n > test.most {
			t.Errorf("a page of size %d has %d symbols, want 1 to %d", test.size, n, test.most)
		}
		if more := len(page.Symbols) < 4; page.More != more {
			t.Errorf("a page of size %d with %d of 4 symbols tells more: %v", test.size, len(page.Symbols), page.More)
		}
	}
}

func symbolValues(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	given := newSymbols("a", "b")
	stored := insertSymbols(t, s, folder.ID, given...)
	if !slices.Equal(given, newSymbols("a", "b")) {
		t.Errorf("InsertSymbols altered its argument to %+v", given)
	}
	want := slices.Clone(stored)
	given[0].Name, stored[1].Name = "altered", "altered"

	list, err := s.Symbols().ListFolders(t.Context())
	must(t, err)
	list.Folders[0].Name = "altered"
	page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, 0, wholeFolder)
	must(t, err)
	page.Symbols[0].Name = "altered"

	var kept *symbols.Symbol
	_, err = s.Symbols().UpdateSymbol(t.Context(), want[0].ID, func(symbol *symbols.Symbol) error {
		kept = symbol
		return nil
	})
	must(t, err)
	kept.Name = "altered"
	wantFolders(t, s, folder)
	wantSymbols(t, s, folder.ID, want...)
}

func symbolLasting(t *testing.T, s Harness) {
	again := s.reopen(t)
	symbol := insertSymbol(t, s, "symbol")
	wantSymbols(t, again, symbol.FolderID, symbol)
	folder, err := renameFolder(t, again, symbol.FolderID, "renamed")
	must(t, err)
	wantFolders(t, s, folder)
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID))
	wantFolders(t, again)
	_, err = again.Symbols().GetSymbol(t.Context(), symbol.ID)
	wantError(t, err, symbols.ErrSymbolNotFound)
}

func symbolShared(t *testing.T, s Harness) {
	if again := s.reopen(t); !s.Symbols().Shared() || !again.Symbols().Shared() {
		t.Error("Shared returns false")
	}
}
