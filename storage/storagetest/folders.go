package storagetest

import (
	"math"
	"slices"
	"testing"

	"example.com/canvasback/symbols"
)

var folderChecks = []check{
	{"InsertFolder assigns new ids, ascending", folderIDs},
	{"folder names are stored unchanged and compared exactly", folderTexts},
	{"folder names are unique", folderNameTaken},
	{"UpdateFolder returns an error only for a taken name", folderRename},
	{"an error of the function leaves the folder unchanged", folderUpdateFails},
	{"UpdateFolder ignores changes of ID and Version", folderUpdateIgnoresFields},
	{"methods return ErrFolderNotFound", folderNotFound},
	{"DeleteFolder deletes the symbols of the folder only", folderDelete},
	{"ids are not reused", folderIDsNotReused},
	{"ListFolders returns the folders in a range", folderRange},
}

func insertFolder(t testing.TB, s Storage, name string) symbols.Folder {
	t.Helper()
	folder, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: name})
	must(t, err)
	return folder
}

// wantFolders checks the result of ListFolders, and of GetFolder for each.
func wantFolders(t testing.TB, s Storage, want ...symbols.Folder) {
	t.Helper()
	list := listFolders(t, s.Symbols())
	wantList(t, "ListFolders returns", list.Folders, want)
	for _, folder := range want {
		got, err := s.Symbols().GetFolder(t.Context(), folder.ID)
		must(t, err)
		wantEqual(t, "GetFolder returns", got, folder)
	}
}

func folderRange(t *testing.T, s Harness) {
	list, err := s.Symbols().ListFolders(t.Context(), symbols.Range{Limit: 1})
	must(t, err)
	if len(list.Folders) != 0 || list.More || list.Version == 0 {
		t.Errorf("ListFolders of an empty storage returns %+v", list)
	}
	var want []symbols.Folder
	for _, name := range []string{"d", "a", "deleted", "c", "b"} {
		want = append(want, insertFolder(t, s, name))
	}
	deleted := want[2].ID
	must(t, s.Symbols().DeleteFolder(t.Context(), deleted, deletion))
	want = slices.Delete(want, 2, 3)
	version, err := s.Symbols().FolderListVersion(t.Context())
	must(t, err)
	for limit := -1; limit < 6; limit++ {
		for first := range 5 {
			r := symbols.Range{Limit: limit}
			switch {
			case first == 2:
				r.After = deleted
			case first > 0:
				r.After = want[first-1].ID
			}
			last := 4
			if limit > 0 {
				last = min(first+limit, 4)
			}
			list, err := s.Symbols().ListFolders(t.Context(), r)
			must(t, err)
			if !slices.Equal(list.Folders, want[first:last]) || list.More != (last < 4) || list.Version != version {
				t.Errorf("ListFolders of %+v returns %+v, want %+v", r, list, want[first:last])
			}
		}
	}
	list, err = s.Symbols().ListFolders(t.Context(), symbols.Range{Limit: math.MaxInt})
	must(t, err)
	wantList(t, "ListFolders without a limit returns", list.Folders, want)
}

func folderIDs(t *testing.T, s Harness) {
	wantFolders(t, s)
	last := int64(0)
	var want []symbols.Folder
	for _, name := range []string{"zebra", "aardvark", "Mole"} {
		folder, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{ID: 1, Name: name, Version: 1})
		must(t, err)
		if folder.ID <= last {
			t.Errorf("InsertFolder assigns id %d after %d", folder.ID, last)
		}
		last = folder.ID
		want = append(want, folder)
	}
	wantFolders(t, s, want...)
}

func folderTexts(t *testing.T, s Harness) {
	var want []symbols.Folder
	for _, name := range sampleTexts {
		folder, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: name})
		if err != nil {
			t.Fatalf("InsertFolder(%+q): %v", name, err)
		}
		if folder.Name != name {
			t.Errorf("InsertFolder returns name %+q, want %+q", folder.Name, name)
		}
		want = append(want, folder)
	}
	wantFolders(t, s, want...)
	for i, name := range sampleTexts {
		for _, renamed := range []string{"another", name} {
			folder, err := s.Symbols().UpdateFolder(t.Context(), want[i].ID, func(folder *symbols.Folder) error {
				folder.Name = renamed
				return nil
			})
			must(t, err)
			wantEqual(t, "UpdateFolder returns name", folder.Name, renamed)
			want[i] = folder
		}
	}
	wantFolders(t, s, want...)
	for _, name := range sampleTexts {
		_, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: name})
		wantError(t, err, symbols.ErrFolderNameTaken)
	}
}

func folderNameTaken(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	_, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"})
	wantError(t, err, symbols.ErrFolderNameTaken)
	wantFolders(t, s, folder)

	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any}))
	wantFolders(t, s, insertFolder(t, s, "folder"))
}

// renameFolder sets the name of a folder.
func renameFolder(t testing.TB, s Storage, id int64, name string) (symbols.Folder, error) {
	t.Helper()
	return s.Symbols().UpdateFolder(t.Context(), id, func(folder *symbols.Folder) error {
		folder.Name = name
		return nil
	})
}

func folderRename(t *testing.T, s Harness) {
	first, second := insertFolder(t, s, "first"), insertFolder(t, s, "second")
	_, err := renameFolder(t, s, second.ID, "first")
	wantError(t, err, symbols.ErrFolderNameTaken)
	wantFolders(t, s, first, second)

	for _, name := range []string{"first", "First", "renamed"} {
		got, err := renameFolder(t, s, first.ID, name)
		must(t, err)
		if got.ID != first.ID || got.Name != name {
			t.Errorf("UpdateFolder returns %+v, want id %d and name %q", got, first.ID, name)
		}
		first = got
		wantFolders(t, s, first, second)
	}
	second, err = renameFolder(t, s, second.ID, "first")
	must(t, err)
	wantFolders(t, s, first, second)
}

func folderUpdateFails(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	_, err := s.Symbols().UpdateFolder(t.Context(), folder.ID, func(current *symbols.Folder) error {
		wantEqual(t, "the function is called with", *current, folder)
		current.Name = "renamed"
		return errCallback
	})
	wantError(t, err, errCallback)
	wantFolders(t, s, folder)
}

func folderUpdateIgnoresFields(t *testing.T, s Harness) {
	want := insertFolder(t, s, "folder")
	for range 2 { // the second call changes nothing
		previous := want
		got, err := s.Symbols().UpdateFolder(t.Context(), want.ID, func(folder *symbols.Folder) error {
			*folder = symbols.Folder{ID: folder.ID + 1, Name: "renamed", Version: 1}
			return nil
		})
		must(t, err)
		if want.Name, want.Version = "renamed", got.Version; got != want || got.Version == 1 || (got.Version == previous.Version) != (previous.Name == "renamed") {
			t.Errorf("UpdateFolder returns %+v for %+v", got, previous)
		}
		wantFolders(t, s, want)
	}
}

func folderNotFound(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "symbol")
	for _, id := range []int64{symbol.FolderID + 1, 0, -1, math.MaxInt64} {
		_, err := s.Symbols().GetFolder(t.Context(), id)
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = renameFolder(t, s, id, "renamed")
		wantError(t, err, symbols.ErrFolderNotFound)
		wantError(t, s.Symbols().DeleteFolder(t.Context(), id, symbols.Deletion{Match: symbols.Any}), symbols.ErrFolderNotFound)
		_, err = s.Symbols().ListSymbols(t.Context(), id, symbols.Range{}, unlimited, true)
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = s.Symbols().InsertSymbols(t.Context(), id, newSymbols("stray"))
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = moveSymbol(t, s, symbol.ID, id)
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = s.Symbols().ContentsVersion(t.Context(), id)
		wantError(t, err, symbols.ErrFolderNotFound)
	}
	wantSymbols(t, s, symbol.FolderID, symbol)
}

func folderDelete(t *testing.T, s Harness) {
	folder, other := insertFolder(t, s, "folder"), insertFolder(t, s, "other")
	deleted := insertSymbols(t, s, folder.ID, newSymbols("a", "b")...)
	kept := insertSymbols(t, s, other.ID, newSymbols("a", "b")...)
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any}))
	for _, symbol := range deleted {
		_, err := s.Symbols().GetSymbol(t.Context(), symbol.ID)
		wantError(t, err, symbols.ErrSymbolNotFound)
	}
	_, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{}, unlimited, true)
	wantError(t, err, symbols.ErrFolderNotFound)
	wantError(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any}), symbols.ErrFolderNotFound)
	wantFolders(t, s, other)
	wantSymbols(t, s, other.ID, kept...)
}

func folderIDsNotReused(t *testing.T, s Harness) {
	insertFolder(t, s, "stays")
	last := insertFolder(t, s, "newest").ID
	must(t, s.Symbols().DeleteFolder(t.Context(), last, symbols.Deletion{Match: symbols.Any}))
	folder := insertFolder(t, s, "next")
	if folder.ID <= last {
		t.Errorf("InsertFolder assigns id %d, want more than the deleted %d", folder.ID, last)
	}
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any}))
	second := s.reopen(t)
	if id := insertFolder(t, second, "after a restart").ID; id <= folder.ID {
		t.Errorf("InsertFolder after reopening assigns id %d, want more than the deleted %d", id, folder.ID)
	}
}

func listFolders(t testing.TB, store symbols.Store) symbols.FolderPage {
	t.Helper()
	page, err := store.ListFolders(t.Context(), symbols.Range{})
	must(t, err)
	return page
}
