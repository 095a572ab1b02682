package storagetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/symbols"
)

var trashChecks = []check{
	{"UpdateSymbols changes all symbols or none", bulkUpdate},
	{"DeleteSymbols deletes all symbols or none", bulkDelete},
	{"a deleted folder is restored with its symbols", trashFolder},
	{"a deleted symbol is restored", trashSymbol},
	{"a final deletion leaves nothing in the trash", trashFinal},
	{"the trash is listed in pages", trashPages},
	{"PruneTrash removes the oldest and the expired entries", trashPrune},
}

var (
	deletion = symbols.Deletion{Match: symbols.Any, Stamp: symbols.Stamp{At: testTime, By: 3}}
	restorer = symbols.Stamp{At: testTime.Add(time.Hour), By: 4}
	longAgo  = time.Unix(0, 0)
)

// toOwn is the target of a restoration without another folder.
func toOwn(entry symbols.TrashEntry) (int64, error) { return entry.FolderID, nil }

// fillTrash deletes a folder with a symbol.
func fillTrash(t testing.TB, s Storage) {
	t.Helper()
	must(t, s.Symbols().DeleteFolder(t.Context(), insertSymbol(t, s, "deleted").FolderID, deletion))
}

func listTrash(t testing.TB, store symbols.Store) symbols.TrashPage {
	t.Helper()
	page, err := store.ListTrash(t.Context(), longAgo, symbols.Range{})
	must(t, err)
	return page
}

// restoreDeleted restores a symbol, or a folder if its id is 0.
func restoreDeleted(t testing.TB, store symbols.Store, symbolID, folderID int64) error {
	t.Helper()
	for _, entry := range listTrash(t, store).Entries {
		if entry.SymbolID == symbolID && entry.FolderID == folderID {
			_, err := store.RestoreTrash(t.Context(), entry.ID, longAgo, restorer, toOwn)
			return err
		}
	}
	return symbols.ErrTrashNotFound
}

// wantTrash returns the trash, and checks its entries but for their ids.
func wantTrash(t testing.TB, s Storage, want ...symbols.TrashEntry) []symbols.TrashEntry {
	t.Helper()
	page := listTrash(t, s.Symbols())
	if len(page.Entries) != len(want) || page.More {
		t.Fatalf("ListTrash returns %+v, want %+v", page, want)
	}
	last := int64(0)
	for i, got := range page.Entries {
		want[i].ID, want[i].DeletedAt, want[i].DeletedBy = got.ID, testTime, 3
		want[i].Size = max(got.Size, symbols.PageOverhead)
		if got != want[i] || got.ID <= last {
			t.Errorf("ListTrash returns %+v, want %+v", got, want[i])
		}
		last = got.ID
	}
	return page.Entries
}

// wantRestored checks symbols of a folder that were restored into it.
func wantRestored(t testing.TB, s Storage, folderID int64, deleted ...symbols.Symbol) {
	t.Helper()
	page, err := s.Symbols().ListSymbolInfos(t.Context(), folderID, symbols.Range{Limit: 100})
	must(t, err)
	if len(page.Symbols) != len(deleted) {
		t.Fatalf("%d symbols are restored, want %d", len(page.Symbols), len(deleted))
	}
	for i, info := range page.Symbols {
		got, err := s.Symbols().GetSymbol(t.Context(), info.ID)
		must(t, err)
		want := deleted[i]
		want.FolderID, want.Version, want.UpdatedAt, want.UpdatedBy = folderID, got.Version, restorer.At, restorer.By
		if got != want || got.Version == deleted[i].Version {
			t.Errorf("restored is %.200v, want %.200v with a new version", got, want)
		}
	}
}

func trashFolder(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	early := insertSymbols(t, s, folder.ID, newSymbols("early")...)[0]
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{early.ID}, deletion))
	given := newSymbols("a", "b", "c")
	given[1].Data = strings.Repeat("large ", symbols.LargeSize)
	list := insertSymbols(t, s, folder.ID, given...)
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, deletion))
	wantFolders(t, s)
	entries := wantTrash(t, s,
		symbols.TrashEntry{SymbolID: early.ID, FolderID: folder.ID, Name: "early"},
		symbols.TrashEntry{FolderID: folder.ID, Name: "folder", Symbols: 3},
	)
	taken := insertFolder(t, s, "folder")
	restore := func(id int64) (symbols.Restored, error) {
		return s.Symbols().RestoreTrash(t.Context(), id, longAgo, restorer, toOwn)
	}
	_, err := s.Symbols().RestoreTrash(t.Context(), entries[1].ID, longAgo, restorer, func(entry symbols.TrashEntry) (int64, error) {
		wantEqual(t, "the function is called with", entry, entries[1])
		return 0, errCallback
	})
	wantError(t, err, errCallback)
	_, err = restore(entries[1].ID)
	wantError(t, err, symbols.ErrFolderNameTaken)
	_, err = restore(entries[0].ID)
	wantError(t, err, symbols.ErrFolderNotFound)
	must(t, s.Symbols().DeleteFolder(t.Context(), taken.ID, symbols.Deletion{Match: symbols.Any, Final: true}))

	restored, err := restore(entries[1].ID)
	must(t, err)
	if restored.Symbol != nil || restored.Folder.ID != folder.ID || restored.Folder.Name != "folder" || restored.Folder.Version == folder.Version {
		t.Errorf("RestoreTrash returns %+v for %+v", restored, folder)
	}
	wantFolders(t, s, *restored.Folder)
	wantRestored(t, s, folder.ID, list...)
	_, err = restore(entries[1].ID)
	wantError(t, err, symbols.ErrTrashNotFound)
	restored, err = restore(entries[0].ID)
	must(t, err)
	if got, err := s.Symbols().GetSymbol(t.Context(), early.ID); err != nil || restored.Folder != nil || *restored.Symbol != got {
		t.Errorf("RestoreTrash returns %+v, want %+v", restored.Symbol, got)
	}
	wantTrash(t, s)
	wantRestored(t, s, folder.ID, append([]symbols.Symbol{early}, list...)...)
	if next := insertSymbols(t, s, folder.ID, newSymbols("next")...)[0]; next.ID <= list[2].ID {
		t.Errorf("InsertSymbols assigns id %d after a restoration", next.ID)
	}
}

func trashSymbol(t *testing.T, s Harness) {
	symbol, other := insertSymbol(t, s, "symbol"), insertFolder(t, s, "other")
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, deletion))
	wantSymbols(t, s, symbol.FolderID)
	entry := wantTrash(t, s, symbols.TrashEntry{SymbolID: symbol.ID, FolderID: symbol.FolderID, Name: "symbol"})[0]
	restore := func(oldest time.Time, folderID int64, err error) error {
		_, got := s.Symbols().RestoreTrash(t.Context(), entry.ID, oldest, restorer, func(e symbols.TrashEntry) (int64, error) {
			wantEqual(t, "the function is called with", e, entry)
			return folderID, err
		})
		return got
	}
	failed := errors.New("failed")
	wantError(t, restore(longAgo, other.ID, failed), failed)
	wantError(t, restore(longAgo, other.ID+1, nil), symbols.ErrFolderNotFound)
	wantError(t, restore(testTime, other.ID, nil), symbols.ErrTrashNotFound)
	wantError(t, s.Symbols().DeleteTrash(t.Context(), entry.ID, testTime), symbols.ErrTrashNotFound)
	must(t, restore(longAgo, other.ID, nil))
	wantRestored(t, s, other.ID, symbol)

	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, deletion))
	last := entry.ID
	entry = wantTrash(t, s, symbols.TrashEntry{SymbolID: symbol.ID, FolderID: other.ID, Name: "symbol"})[0]
	must(t, s.Symbols().DeleteTrash(t.Context(), entry.ID, longAgo))
	wantError(t, s.Symbols().DeleteTrash(t.Context(), entry.ID, longAgo), symbols.ErrTrashNotFound)
	wantTrash(t, s)
	for range 3 { // ids are not reused
		if entry.ID <= last {
			t.Errorf("an entry has the id %d after %d", entry.ID, last)
		}
		last = entry.ID
		fillTrash(t, s)
		entry = listTrash(t, s.Symbols()).Entries[0]
		_, err := s.Symbols().PruneTrash(t.Context(), testTime, 0)
		must(t, err)
	}
}

func trashFinal(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "symbol")
	final := deletion // at a time that is listed
	final.Final = true
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, final))
	must(t, s.Symbols().DeleteFolder(t.Context(), symbol.FolderID, final))
	wantFolders(t, s)
	wantTrash(t, s)
}

func trashPages(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	var ids []int64
	gone := insertSymbol(t, s, "gone").ID
	for i, symbol := range insertSymbols(t, s, folder.ID, newSymbols("a", "b", "c")...) {
		if i == 1 {
			must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{gone}, deletion))
		}
		d := deletion
		d.At = testTime.Add(time.Duration(i) * time.Hour)
		must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, d))
		ids = append(ids, symbol.ID)
	}
	missing := listTrash(t, s.Symbols()).Entries[1].ID
	must(t, s.Symbols().DeleteTrash(t.Context(), missing, longAgo))
	for _, test := range []struct {
		oldest      time.Time
		limit, from int
		want        []int64
		more        bool
	}{
		{longAgo, 0, 0, ids, false},
		{longAgo, math.MaxInt, 0, ids, false},
		{longAgo, 1, -1, ids[1:2], true}, // after the missing entry
		{longAgo, 2, 0, ids[:2], true},
		{longAgo, 2, 1, ids[1:], false},
		{testTime, 0, 0, ids[1:], false},
		{testTime.Add(2 * time.Hour), 0, 0, nil, false},
	} {
		r := symbols.Range{Limit: test.limit}
		if test.from < 0 {
			r.After = missing
		}
		if test.from > 0 {
			page, err := s.Symbols().ListTrash(t.Context(), test.oldest, symbols.Range{Limit: test.from})
			must(t, err)
			r.After = page.Entries[test.from-1].ID
		}
		page, err := s.Symbols().ListTrash(t.Context(), test.oldest, r)
		must(t, err)
		var got []int64
		for _, entry := range page.Entries {
			got = append(got, entry.SymbolID)
		}
		if !slices.Equal(got, test.want) || page.More != test.more {
			t.Errorf("ListTrash of %+v returns %+v", test, page)
		}
	}
}

func trashPrune(t *testing.T, s Harness) {
	prune := func(oldest time.Time, size int64) {
		t.Helper()
		for more := true; more; {
			var err error
			more, err = s.Symbols().PruneTrash(t.Context(), oldest, size)
			must(t, err)
		}
	}
	const unbounded = 1 << 40
	var names []string
	for i := range 450 { // more than two steps
		names = append(names, fmt.Sprint(i))
	}
	folder := insertFolder(t, s, "folder")
	insertSymbols(t, s, folder.ID, newSymbols(names...)...)
	symbol := insertSymbol(t, s, "symbol")
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, deletion))
	_, err := s.Symbols().UpdateSymbols(t.Context(), []int64{symbol.ID}, restorer, func(info *symbols.SymbolInfo) error {
		info.Tags = symbols.ParseTags("tag\nother\n")
		return nil
	})
	must(t, err)
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, deletion))
	kept := []symbols.TrashEntry{
		{FolderID: folder.ID, Name: "folder", Symbols: 450},
		{SymbolID: symbol.ID, FolderID: symbol.FolderID, Name: "symbol"},
	}
	prune(longAgo, unbounded)
	wantTrash(t, s, kept...)
	size := int64(len(symbol.Data)+len(symbol.Meta)+len("tag\nother\n")) + symbols.PageOverhead
	prune(longAgo, size)
	entry := wantTrash(t, s, kept[1:]...)[0]
	if entry.Size != size {
		t.Errorf("Size is %d, want %d", entry.Size, size)
	}
	_, err = s.Symbols().RestoreTrash(t.Context(), entry.ID, longAgo, restorer, toOwn)
	must(t, err)
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, deletion))
	prune(longAgo, size-1)
	wantTrash(t, s)
	other := insertFolder(t, s, "other")
	must(t, s.Symbols().DeleteFolder(t.Context(), other.ID, deletion))
	prune(testTime.Add(-time.Millisecond), unbounded)
	wantTrash(t, s, symbols.TrashEntry{FolderID: other.ID, Name: "other"})
	early := deletion // by a process whose clock is behind
	early.Stamp.At = testTime.Add(-time.Hour)
	must(t, s.Symbols().DeleteFolder(t.Context(), insertFolder(t, s, "early").ID, early))
	prune(early.Stamp.At, unbounded)
	wantTrash(t, s, symbols.TrashEntry{FolderID: other.ID, Name: "other"})
	prune(testTime, unbounded)
	wantTrash(t, s)

	empty := insertFolder(t, s, "empty")
	must(t, s.Symbols().DeleteFolder(t.Context(), empty.ID, deletion))
	prune(longAgo, symbols.PageOverhead)
	wantTrash(t, s, symbols.TrashEntry{FolderID: empty.ID, Name: "empty"})
	prune(longAgo, symbols.PageOverhead-1)
	wantTrash(t, s)

	// What is older than what is too large goes with it.
	fillTrash(t, s)
	small := listTrash(t, s.Symbols()).Entries[0].Size
	insertSymbols(t, s, symbol.FolderID, newSymbols("x", "y", "z")...)
	must(t, s.Symbols().DeleteFolder(t.Context(), symbol.FolderID, deletion))
	prune(longAgo, small)
	wantTrash(t, s)

	// What is being removed is gone, also if nothing expires.
	large := insertFolder(t, s, "large")
	insertSymbols(t, s, large.ID, newSymbols(names...)...)
	must(t, s.Symbols().DeleteFolder(t.Context(), large.ID, deletion))
	never := time.Now().Add(-1 << 62)
	_, err = s.Symbols().PruneTrash(t.Context(), never, 0)
	must(t, err)
	page, err := s.Symbols().ListTrash(t.Context(), never, symbols.Range{})
	must(t, err)
	if len(page.Entries) > 0 {
		t.Errorf("ListTrash returns %v, which is being removed", page.Entries)
	}
}

func bulkDelete(t *testing.T, s Harness) {
	a, b := insertSymbol(t, s, "a"), insertSymbol(t, s, "b")
	var missing *symbols.MissingError
	err := s.Symbols().DeleteSymbols(t.Context(), []int64{a.ID, 1 << 40, b.ID}, deletion)
	if !errors.As(err, &missing) || missing.ID != 1<<40 || !errors.Is(err, symbols.ErrSymbolNotFound) {
		t.Errorf("DeleteSymbols returns %v for a missing symbol", err)
	}
	d := deletion
	d.Match = symbols.IfMatch(a.Version)
	wantError(t, s.Symbols().DeleteSymbols(t.Context(), []int64{a.ID, b.ID}, d), symbols.ErrChanged)
	wantSymbols(t, s, a.FolderID, a)
	wantSymbols(t, s, b.FolderID, b)
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{b.ID, a.ID}, deletion))
	wantTrash(t, s,
		symbols.TrashEntry{SymbolID: a.ID, FolderID: a.FolderID, Name: "a"},
		symbols.TrashEntry{SymbolID: b.ID, FolderID: b.FolderID, Name: "b"},
	)
	wantSymbols(t, s, a.FolderID)
	wantSymbols(t, s, b.FolderID)
}

func bulkUpdate(t *testing.T, s Harness) {
	a, b, c := insertSymbol(t, s, "a"), insertSymbol(t, s, "b"), insertSymbol(t, s, "c")
	given := map[int64]symbols.SymbolInfo{a.ID: a.Info(), b.ID: b.Info(), c.ID: c.Info()}
	change := func(info *symbols.SymbolInfo) error {
		stored, ok := given[info.ID]
		if ok && *info != stored {
			t.Errorf("the function is called with %+v, want %+v", info, stored)
		}
		if info.ID != c.ID { // c stays
			info.Name, info.FolderID, info.Tags = "ignored", b.FolderID, newTags("x")
		}
		return nil
	}
	update := func(ids []int64, change func(*symbols.SymbolInfo) error) (int, error) {
		return s.Symbols().UpdateSymbols(t.Context(), ids, restorer, change)
	}
	var missing *symbols.MissingError
	if _, err := update([]int64{a.ID, 1 << 40}, change); !errors.As(err, &missing) || missing.ID != 1<<40 {
		t.Errorf("UpdateSymbols returns %v for a missing symbol", err)
	}
	_, err := update([]int64{a.ID, b.ID}, func(info *symbols.SymbolInfo) error {
		info.Tags = newTags("y")
		if info.ID == b.ID {
			info.FolderID = 1 << 40
		}
		return nil
	})
	wantError(t, err, symbols.ErrFolderNotFound)
	_, err = update([]int64{a.ID, b.ID}, func(info *symbols.SymbolInfo) error {
		if info.ID == b.ID {
			return symbols.ErrInvalid
		}
		info.FolderID = 1 << 40
		return nil
	})
	wantError(t, err, symbols.ErrInvalid)
	wantSymbols(t, s, a.FolderID, a)
	n, err := update([]int64{c.ID, b.ID, a.ID}, change)
	must(t, err)
	wantEqual(t, "the number of symbols that UpdateSymbols has changed is", n, 2)
	wantSymbols(t, s, a.FolderID)
	wantSymbols(t, s, c.FolderID, c)
	a.Tags, b.Tags = newTags("x"), newTags("x")
	wantRestored(t, s, b.FolderID, a, b)
}
