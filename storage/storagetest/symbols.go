package storagetest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/symbols"
)

var symbolChecks = []check{
	{"InsertSymbols assigns new ids, ascending, in the given order", symbolIDs},
	{"InsertSymbols stores all symbols or none", symbolInsertAll},
	{"symbols are stored unchanged", symbolTexts},
	{"symbols can have 5 MiB of data", symbolLarge},
	{"UpdateSymbol stores the changes of the function", symbolUpdate},
	{"tags, meta, times and author are stored unchanged", symbolDetails},
	{"UpdateSymbol moves a symbol", symbolMove},
	{"an error of the function leaves the symbol unchanged", symbolUpdateFails},
	{"UpdateSymbol ignores changes of ID and Version", symbolUpdateIgnoresFields},
	{"methods return ErrSymbolNotFound", symbolNotFound},
	{"DeleteSymbol removes one symbol", symbolDelete},
	{"ids are not reused", symbolIDsNotReused},
	{"pages contain each symbol once, ids ascending", symbolPages},
	{"a page ends with the symbol that reaches the size", symbolPageSize},
	{"a page has at most Limit symbols", symbolPageLimit},
	{"a page does not have the data of large symbols", symbolPageLarge},
	{"ListSymbolInfos returns what ListSymbols returns without data", symbolInfos},
	{"FindSymbolInfos returns the symbols that exist", symbolFind},
	{"methods accept and return thousands of records", symbolThousands},
	{"ListSegment returns the symbols of all folders", symbolSegments},
	{"folders and symbols are not shared with the caller", symbolValues},
	{"folders and symbols persist", symbolPersists},
}

// unlimited is a page size that no test reaches.
const unlimited = math.MaxInt32

// newSymbols returns a symbol for each name.
func newSymbols(names ...string) []symbols.Symbol {
	var list []symbols.Symbol
	for _, name := range names {
		list = append(list, symbols.Symbol{
			Name: name, Type: "image/svg+xml", Data: "data of " + name, Tags: newTags(name),
			Meta: `{"name":1}`, CreatedAt: testTime, UpdatedAt: testTime.Add(time.Millisecond), UpdatedBy: 7,
		})
	}
	return list
}

// newTags returns tags, if they are not too long.
func newTags(list ...string) symbols.Tags {
	tags, _ := symbols.NewTags(list...)
	return tags
}

func insertSymbols(t testing.TB, s Storage, folderID int64, list ...symbols.Symbol) []symbols.Symbol {
	t.Helper()
	stored, err := s.Symbols().InsertSymbols(t.Context(), folderID, list)
	must(t, err)
	if len(stored) != len(list) {
		t.Fatalf("InsertSymbols returns %d symbols, want %d", len(stored), len(list))
	}
	return stored
}

// insertSymbol stores a symbol in a new folder.
func insertSymbol(t testing.TB, s Storage, name string) symbols.Symbol {
	t.Helper()
	return insertSymbols(t, s, insertFolder(t, s, "folder of "+name).ID, newSymbols(name)...)[0]
}

// listSymbols returns the symbols of a folder, in as many pages as the storage makes of them.
func listSymbols(t testing.TB, s Storage, folderID int64) (list []symbols.Symbol) {
	t.Helper()
	for r, more := (symbols.Range{}), true; more; {
		page, err := s.Symbols().ListSymbols(t.Context(), folderID, r, unlimited, true)
		must(t, err)
		if more = page.More; more && len(page.Symbols) == 0 {
			t.Fatal("ListSymbols returns an empty page with More")
		}
		if more {
			r.After = page.Symbols[len(page.Symbols)-1].ID
		}
		list = append(list, page.Symbols...)
	}
	return list
}

// wantSymbols checks the result of ListSymbols for a folder, and of GetSymbol for
// each symbol.
func wantSymbols(t testing.TB, s Storage, folderID int64, want ...symbols.Symbol) {
	t.Helper()
	wantList(t, "ListSymbols returns", listSymbols(t, s, folderID), want)
	for _, symbol := range want {
		got, err := s.Symbols().GetSymbol(t.Context(), symbol.ID)
		must(t, err)
		wantEqual(t, "GetSymbol returns", got, symbol)
	}
}

func symbolIDs(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	wantSymbols(t, s, folder.ID)
	var given []symbols.Symbol
	for i := range 300 {
		symbol := newSymbols(strconv.Itoa(300 - i))[0]
		symbol.ID, symbol.Version = 1, 1 // ignored
		given = append(given, symbol)
	}
	want := insertSymbols(t, s, folder.ID, given[:1]...)
	want = append(want, insertSymbols(t, s, folder.ID, given[1:]...)...)
	last := int64(0)
	for i, symbol := range want {
		if symbol.ID <= last {
			t.Errorf("InsertSymbols assigns id %d after %d", symbol.ID, last)
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
	for _, text := range sampleTexts {
		given = append(given, symbols.Symbol{Name: text, Type: text, Data: text})
	}
	stored := insertSymbols(t, s, folder.ID, given...)
	for i, symbol := range given {
		symbol.ID, symbol.FolderID, symbol.Version = stored[i].ID, folder.ID, stored[i].Version
		wantEqual(t, "InsertSymbols returns", stored[i], symbol)
	}
	wantSymbols(t, s, folder.ID, stored...)
}

func symbolLarge(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "large")
	for _, data := range []string{
		strings.Repeat("<path d='M0 0'/>", 5<<20/16),
		incompressibleText(1 << 18),
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
	for range 2 { // the second call changes nothing
		got, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(current *symbols.Symbol) error {
			wantEqual(t, "the function is called with", *current, symbol)
			*current = want
			return nil
		})
		must(t, err)
		want.Version = got.Version
		wantEqual(t, "UpdateSymbol returns", got, want)
		wantSymbols(t, s, symbol.FolderID, want)
		symbol = want
	}
	wantSymbols(t, s, other.FolderID, other)
}

func symbolDetails(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	_, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{}, unlimited, false)
	must(t, err)
	symbol := symbols.Symbol{Name: "a", Type: "a/b", Data: "x"}
	symbol = insertSymbols(t, s, folder.ID, symbol)[0]
	insertSymbol(t, s, "of another folder")
	wantSymbols(t, s, folder.ID, symbol)
	for _, change := range []func(*symbols.Symbol){
		func(symbol *symbols.Symbol) { symbol.Tags = newTags("a\nb", `\n\`, "\\n", " ä'\"", "\x1f") },
		func(symbol *symbols.Symbol) { symbol.Tags = newTags(`\n\`, "a\nb") },
		func(symbol *symbols.Symbol) { symbol.Meta = `{"a":"ä\u0001","b":1.0}` },
		func(symbol *symbols.Symbol) { symbol.Tags, symbol.Meta = symbols.Tags{}, "" },
	} {
		previous := symbol
		changed, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(stored *symbols.Symbol) error {
			change(stored)
			change(&symbol)
			stored.ID, stored.Version, stored.CreatedAt = 1<<40, 1, testTime.Add(time.Hour) // ignored
			stored.UpdatedAt, stored.UpdatedBy = previous.UpdatedAt.Add(time.Hour), previous.UpdatedBy+1
			return nil
		})
		must(t, err)
		symbol.Version, symbol.UpdatedAt, symbol.UpdatedBy = changed.Version, previous.UpdatedAt.Add(time.Hour), previous.UpdatedBy+1
		if changed != symbol || changed.Version == previous.Version {
			t.Errorf("UpdateSymbol returns %+v, want %+v with a new version", changed, symbol)
		}
		wantSymbols(t, s, folder.ID, symbol)
		page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{}, unlimited, false)
		must(t, err)
		plain := symbols.Symbol{
			ID: symbol.ID, Name: symbol.Name, Type: symbol.Type, Data: symbol.Data,
			FolderID: folder.ID, Version: symbol.Version,
		}
		wantList(t, "ListSymbols without details returns", page.Symbols, []symbols.Symbol{plain})
		wantEqual(t, "without details More is", page.More, false)
		infos, err := s.Symbols().ListSymbolInfos(t.Context(), folder.ID, symbols.Range{})
		must(t, err)
		found, err := s.Symbols().FindSymbolInfos(t.Context(), []int64{symbol.ID})
		must(t, err)
		_, inSegment := segment(t, s, symbol.ID/symbols.SegmentSize)
		if infos.Symbols[0] != symbol.Info() || found[0] != symbol.Info() || inSegment[0].Tags != symbol.Tags {
			t.Errorf("tags are %+v, %+v and %+v, want %q", infos.Symbols[0], found[0], inSegment[0], symbol.Tags)
		}
	}
}

// moveSymbol moves a symbol to another folder.
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
	wantEqual(t, "UpdateSymbol returns", moved, want)
	wantSymbols(t, s, from.ID, list[0], list[2])
	wantSymbols(t, s, to.ID, moved, last) // in order of id

	must(t, s.Symbols().DeleteFolder(t.Context(), from.ID, symbols.Deletion{Match: symbols.Any}))
	wantSymbols(t, s, to.ID, moved, last)
}

func symbolUpdateFails(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "symbol")
	_, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(symbol *symbols.Symbol) error {
		*symbol = symbols.Symbol{Name: "altered"}
		return errCallback
	})
	wantError(t, err, errCallback)
	wantSymbols(t, s, symbol.FolderID, symbol)
}

func symbolNotFound(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "symbol")
	for _, id := range []int64{symbol.ID + 1, 0, -1, math.MaxInt64} {
		_, err := s.Symbols().GetSymbol(t.Context(), id)
		wantError(t, err, symbols.ErrSymbolNotFound)
		_, err = moveSymbol(t, s, id, symbol.FolderID)
		wantError(t, err, symbols.ErrSymbolNotFound)
		wantError(t, s.Symbols().DeleteSymbols(t.Context(), []int64{id}, symbols.Deletion{Match: symbols.Any}), symbols.ErrSymbolNotFound)
		_, err = s.Symbols().GetSymbolInfo(t.Context(), id)
		wantError(t, err, symbols.ErrSymbolNotFound)
	}
	insertSymbols(t, s, symbol.FolderID+1) // none, in a folder that does not exist
	wantSymbols(t, s, symbol.FolderID, symbol)
}

func symbolUpdateIgnoresFields(t *testing.T, s Harness) {
	want := insertSymbol(t, s, "symbol")
	for range 2 { // the second call changes nothing
		previous := want
		got, err := s.Symbols().UpdateSymbol(t.Context(), want.ID, func(symbol *symbols.Symbol) error {
			symbol.ID, symbol.Name, symbol.Version = symbol.ID+1, "renamed", 1
			return nil
		})
		must(t, err)
		if want.Name, want.Version = "renamed", got.Version; got != want || got.Version == 1 || (got.Version == previous.Version) != (previous.Name == "renamed") {
			t.Errorf("UpdateSymbol returns %+v for %+v", got, previous)
		}
		wantSymbols(t, s, want.FolderID, want)
	}
}

func symbolDelete(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	list := insertSymbols(t, s, folder.ID, newSymbols("a", "b", "c")...)
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{list[1].ID}, symbols.Deletion{Match: symbols.Any}))
	_, err := s.Symbols().GetSymbol(t.Context(), list[1].ID)
	wantError(t, err, symbols.ErrSymbolNotFound)
	wantError(t, s.Symbols().DeleteSymbols(t.Context(), []int64{list[1].ID}, symbols.Deletion{Match: symbols.Any}), symbols.ErrSymbolNotFound)
	wantSymbols(t, s, folder.ID, list[0], list[2])
	wantFolders(t, s, folder)
}

func symbolIDsNotReused(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	last := insertSymbols(t, s, folder.ID, newSymbols("stays", "newest")...)[1].ID
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{last}, symbols.Deletion{Match: symbols.Any}))
	next := insertSymbols(t, s, folder.ID, newSymbols("next")...)[0].ID
	if next <= last {
		t.Errorf("InsertSymbols assigns id %d, want more than the deleted %d", next, last)
	}
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any})) // deletes the newest with it
	symbol := insertSymbol(t, s, "in another folder")
	if symbol.ID <= next {
		t.Errorf("InsertSymbols assigns id %d, want more than the deleted %d", symbol.ID, next)
	}
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, symbols.Deletion{Match: symbols.Any}))
	second := s.reopen(t)
	if id := insertSymbol(t, second, "after a restart").ID; id <= symbol.ID {
		t.Errorf("InsertSymbols after reopening assigns id %d, want more than the deleted %d", id, symbol.ID)
	}
}

func symbolPages(t *testing.T, s Harness) {
	folder, other := insertFolder(t, s, "folder"), insertFolder(t, s, "other")
	var want []symbols.Symbol
	for i := range 20 { // alternate folders, so that ids have gaps
		symbol := newSymbols(strconv.Itoa(i))[0]
		symbol.Data = strings.Repeat("é", i+1)
		want = append(want, insertSymbols(t, s, folder.ID, symbol)...)
		insertSymbols(t, s, other.ID, symbol)
	}
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{want[9].ID}, symbols.Deletion{Match: symbols.Any}))
	want = slices.Delete(want, 9, 10)

	for _, size := range []int{1, 2, 3, 7, 40, 100, 419, 420, 1000, math.MaxInt} {
		var got []symbols.Symbol
		after := int64(0)
		for more := true; more; {
			page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{After: after}, size, true)
			must(t, err)
			if len(page.Symbols) == 0 {
				t.Fatalf("the page after %d of size %d is empty, but the previous one has More", after, size)
			}
			got = append(got, page.Symbols...)
			after, more = page.Symbols[len(page.Symbols)-1].ID, page.More
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of size %d contain %+v, want %+v", size, got, want)
		}
	}
	for _, after := range []int64{want[len(want)-1].ID, math.MaxInt64} {
		page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{After: after}, 1, true)
		must(t, err)
		if len(page.Symbols) != 0 || page.More {
			t.Errorf("the page after the last id is %+v, want none", page)
		}
	}
	page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{After: want[8].ID + 1}, 1, true) // an id of the other folder
	must(t, err)
	if !slices.Equal(page.Symbols, want[9:10]) || !page.More {
		t.Errorf("the page after a symbol of the other folder is %+v, want %+v", page, want[9])
	}
}

func symbolPageSize(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	for _, length := range []int{10, 20, 30, 5} {
		symbol := newSymbols("symbol")[0]
		symbol.Data = strings.Repeat("é", length/2) + strings.Repeat("e", length%2)
		insertSymbols(t, s, folder.ID, symbol)
	}
	for _, test := range []struct{ size, maxCount int }{
		{math.MinInt, 1}, {-1, 1}, {0, 1}, {1, 1}, {9, 1}, {10, 1}, {11, 2}, {30, 2}, {31, 3}, {60, 3}, {61, 4}, {65, 4}, {66, 4},
	} {
		page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{}, test.size, true)
		must(t, err)
		if n := len(page.Symbols); n < 1 || n > test.maxCount {
			t.Errorf("a page of size %d has %d symbols, want 1 to %d", test.size, n, test.maxCount)
		}
		if more := len(page.Symbols) < 4; page.More != more {
			t.Errorf("a page of size %d with %d of 4 symbols has More %v", test.size, len(page.Symbols), page.More)
		}
	}
}

func symbolPageLimit(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	want := insertSymbols(t, s, folder.ID, newSymbols("a", "b", "c", "d", "e")...)
	for _, size := range []int{1, 25, unlimited} {
		for _, limit := range []int{-1, 0, 1, 2, 3, 4, 5, 6, math.MaxInt} {
			for after := range want {
				r := symbols.Range{After: want[after].ID, Limit: limit}
				page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, r, size, true)
				must(t, err)
				rest := want[after+1:]
				n := len(page.Symbols)
				if limit > 0 && n > limit || n > len(rest) || !slices.Equal(page.Symbols, rest[:n]) {
					t.Errorf("the page of %+v is %+v", r, page)
				}
				if n == 0 && len(rest) > 0 || page.More != (n < len(rest)) {
					t.Errorf("the page of %+v has %d symbols and More %v, %d remain", r, n, page.More, len(rest))
				}
			}
		}
	}
}

func symbolPageLarge(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	list := newSymbols("small", "limit", "large", "next")
	list[1].Data = strings.Repeat("\u00e9", symbols.LargeSize/2)
	list[2].Data = list[1].Data + "x"
	want := insertSymbols(t, s, folder.ID, list...)
	want[2].Data = ""
	for after := int64(0); len(want) > 0; {
		page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{After: after}, unlimited, true)
		must(t, err)
		n := len(page.Symbols)
		if n == 0 || n > len(want) || !slices.Equal(page.Symbols, want[:n]) || page.More != (n < len(want)) {
			t.Fatalf("ListSymbols returns %d symbols that differ from the first of %d", n, len(want))
		}
		after, want = want[n-1].ID, want[n:]
	}
}

func symbolInfos(t *testing.T, s Harness) {
	folder, other := insertFolder(t, s, "folder"), insertFolder(t, s, "other")
	var want []symbols.SymbolInfo
	for _, text := range append(sampleTexts, incompressibleText(1<<16)) {
		given := symbols.Symbol{Name: "name", Type: "text/plain", Data: text}
		want = append(want, insertSymbols(t, s, folder.ID, given)[0].Info())
		insertSymbols(t, s, other.ID, given)
	}
	want = append(want, insertSymbols(t, s, folder.ID, newSymbols("tagged")...)[0].Info())
	for _, info := range want {
		got, err := s.Symbols().GetSymbolInfo(t.Context(), info.ID)
		must(t, err)
		wantEqual(t, "GetSymbolInfo returns", got, info)
	}
	count := len(want)
	version, err := s.Symbols().ContentsVersion(t.Context(), folder.ID)
	must(t, err)
	for _, test := range []struct{ after, limit, first, last int }{
		{-1, 0, 0, count}, {-1, -1, 0, count}, {-1, 1, 0, 1}, {-1, count - 1, 0, count - 1}, {-1, count, 0, count}, {-1, count + 1, 0, count},
		{-1, math.MaxInt, 0, count}, {3, 0, 4, count}, {3, 2, 4, 6}, {count - 2, 1, count - 1, count}, {count - 1, 1, count, count}, {count - 1, 0, count, count},
	} {
		r := symbols.Range{Limit: test.limit}
		if test.after >= 0 {
			r.After = want[test.after].ID
		}
		page, err := s.Symbols().ListSymbolInfos(t.Context(), folder.ID, r)
		must(t, err)
		if !slices.Equal(page.Symbols, want[test.first:test.last]) || page.More != (test.last < count) || page.Version != version {
			t.Errorf("ListSymbolInfos of %+v returns %+v, want %+v", r, page, want[test.first:test.last])
		}
	}
	next, err := s.Symbols().ListSymbolInfos(t.Context(), folder.ID, symbols.Range{After: want[3].ID + 1, Limit: 1}) // an id of the other folder
	must(t, err)
	wantList(t, "ListSymbolInfos returns", next.Symbols, want[4:5])
	empty := insertFolder(t, s, "empty")
	page, err := s.Symbols().ListSymbolInfos(t.Context(), empty.ID, symbols.Range{Limit: 1})
	must(t, err)
	if len(page.Symbols) != 0 || page.More || page.Version == 0 {
		t.Errorf("ListSymbolInfos of an empty folder returns %+v", page)
	}
	_, err = s.Symbols().ListSymbolInfos(t.Context(), empty.ID+1, symbols.Range{})
	wantError(t, err, symbols.ErrFolderNotFound)
}

// symbolThousands checks the numbers of symbols and folders that a Service passes and expects.
func symbolThousands(t *testing.T, s Harness) {
	folder, other := insertFolder(t, s, "folder"), insertFolder(t, s, "other")
	given := slices.Repeat(newSymbols("symbol"), 6000)
	for i := range given {
		given[i].FolderID = other.ID // ignored
	}
	var ids []int64
	for _, symbol := range insertSymbols(t, s, folder.ID, given...) {
		ids = append(ids, symbol.ID)
	}
	page, err := s.Symbols().ListSymbolInfos(t.Context(), folder.ID, symbols.Range{})
	must(t, err)
	if len(page.Symbols) != len(given) || page.More {
		t.Errorf("ListSymbolInfos returns %d of %d symbols, more: %v", len(page.Symbols), len(given), page.More)
	}
	thousand := ids[:1000]
	found, err := s.Symbols().FindSymbolInfos(t.Context(), thousand)
	must(t, err)
	n, err := s.Symbols().UpdateSymbols(t.Context(), thousand, restorer, func(info *symbols.SymbolInfo) error {
		info.FolderID = other.ID
		return nil
	})
	must(t, err)
	if len(found) != 1000 || n != 1000 {
		t.Errorf("FindSymbolInfos returns %d symbols, UpdateSymbols %d", len(found), n)
	}
	must(t, s.Symbols().DeleteSymbols(t.Context(), thousand, deletion))
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, deletion))
	trash := listTrash(t, s.Symbols()).Entries
	_, err = s.Symbols().RestoreTrash(t.Context(), trash[len(trash)-1].ID, longAgo, restorer, toOwn)
	must(t, err)
	page, err = s.Symbols().ListSymbolInfos(t.Context(), folder.ID, symbols.Range{})
	must(t, err)
	wantEqual(t, "the number of restored symbols is", len(page.Symbols), len(given)-1000)
	for i := range 200 {
		insertFolder(t, s, strconv.Itoa(i))
	}
	list := listFolders(t, s.Symbols())
	if len(list.Folders) != 202 || list.More {
		t.Errorf("ListFolders returns %d of 202 folders, more: %v", len(list.Folders), list.More)
	}
}

func symbolFind(t *testing.T, s Harness) {
	a, b := insertSymbol(t, s, "é"), insertSymbol(t, s, "b")
	want := []symbols.SymbolInfo{a.Info(), b.Info()}
	for _, ids := range [][]int64{{a.ID, b.ID}, {b.ID, 1 << 40, a.ID, b.ID}} {
		got, err := s.Symbols().FindSymbolInfos(t.Context(), ids)
		must(t, err)
		wantList(t, "FindSymbolInfos returns", got, want)
	}
	got, err := s.Symbols().FindSymbolInfos(t.Context(), nil)
	must(t, err)
	if len(got) > 0 {
		t.Errorf("FindSymbolInfos without ids returns %+v", got)
	}
}

func symbolValues(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	given := newSymbols("a", "b")
	stored := insertSymbols(t, s, folder.ID, given...)
	wantList(t, "the argument of InsertSymbols is", given, newSymbols("a", "b"))
	want := slices.Clone(stored)
	given[0].Name, stored[1].Name = "altered", "altered"

	list := listFolders(t, s.Symbols())
	list.Folders[0].Name = "altered"
	page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{}, unlimited, true)
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

func symbolPersists(t *testing.T, s Harness) {
	second := s.reopen(t)
	symbol := insertSymbol(t, s, "symbol")
	wantSymbols(t, second, symbol.FolderID, symbol)
	folder, err := renameFolder(t, second, symbol.FolderID, "renamed")
	must(t, err)
	wantFolders(t, s, folder)
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any}))
	wantFolders(t, second)
	_, err = second.Symbols().GetSymbol(t.Context(), symbol.ID)
	wantError(t, err, symbols.ErrSymbolNotFound)
}
