package storagetest

import (
	"math"
	"slices"
	"testing"

	"example.com/canvasback/symbols"
)

var folderPromises = []promise{
	{"insert gives new ids, ascending", folderIDs},
	{"folder names come back as they were stored and differ as they do", folderTexts},
	{"a folder name is taken once", folderNameTaken},
	{"a rename is refused for a taken name and only for that", folderRename},
	{"a failing function leaves the folder", folderUpdateFails},
	{"a missing folder is not found", folderMissing},
	{"deleting a folder deletes its symbols and no other", folderDelete},
	{"ids are never used again", folderIDsOnce},
}

func insertFolder(t testing.TB, s Storage, name string) symbols.Folder {
	t.Helper()
	folder, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: name})
	must(t, err)
	return folder
}

// wantFolders compares the list of folders, and each of them.
func wantFolders(t testing.TB, s Storage, want ...symbols.Folder) {
	t.Helper()
	list, err := s.Symbols().ListFolders(t.Context())
	must(t, err)
	if !slices.Equal(list.Folders, want) {
		t.Errorf("ListFolders returns %+v, want %+v", list.Folders, want)
	}
	for _, folder := range want {
		got, err := s.Symbols().GetFolder(t.Context(), folder.ID)
		must(t, err)
		if got != folder {
			t.Errorf("GetFolder returns %+v, want %+v", got, folder)
		}
	}
}

func folderIDs(t *testing.T, s Harness) {
	wantFolders(t, s)
	last := int64(0)
	var want []symbols.Folder
	for _, name := range []string{"zebra", "aardvark", "Mole"} {
		folder, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{ID: 1, Name: name, Version: 1})
		must(t, err)
		if folder.ID <= last {
			t.Errorf("InsertFolder gives id %d after %d", folder.ID, last)
		}
		last = folder.ID
		want = append(want, folder)
	}
	wantFolders(t, s, want...)
}

func folderTexts(t *testing.T, s Harness) {
	var want []symbols.Folder
	for _, name := range oddTexts {
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
	for _, name := range oddTexts {
		_, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: name})
		wantError(t, err, symbols.ErrFolderNameTaken)
	}
}

func folderNameTaken(t *testing.T, s Harness) {
	folder := insertFolder(t, s, "folder")
	_, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"})
	wantError(t, err, symbols.ErrFolderNameTaken)
	wantFolders(t, s, folder)

	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID))
	wantFolders(t, s, insertFolder(t, s, "folder"))
}

// renameFolder updates the name of a folder.
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
	_, err := s.Symbols().UpdateFolder(t.Context(), folder.ID, func(present *symbols.Folder) error {
		if *present != folder {
			t.Errorf("the function sees %+v, want %+v", *present, folder)
		}
		present.Name = "renamed"
		return errRefused
	})
	wantError(t, err, errRefused)
	wantFolders(t, s, folder)
}

func folderMissing(t *testing.T, s Harness) {
	symbol := insertSymbol(t, s, "symbol")
	for _, id := range []int64{symbol.FolderID + 1, 0, -1, math.MaxInt64} {
		_, err := s.Symbols().GetFolder(t.Context(), id)
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = renameFolder(t, s, id, "renamed")
		wantError(t, err, symbols.ErrFolderNotFound)
		wantError(t, s.Symbols().DeleteFolder(t.Context(), id), symbols.ErrFolderNotFound)
		_, err = s.Symbols().ListSymbols(t.Context(), id, 0, wholeFolder)
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = s.Symbols().InsertSymbols(t.Context(), id, newSymbols("stray"))
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = moveSymbol(t, s, symbol.ID, id)
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = s.Symbols().FolderVersion(t.Context(), id)
		wantError(t, err, symbols.ErrFolderNotFound)
		_, err = s.Symbols().ContentsVersion(t.Context(), id)
		wantError(t, err, symbols.ErrFolderNotFound)
	}
	wantSymbols(t, s, symbol.FolderID, symbol)
}

func folderDelete(t *testing.T, s Harness) {
	folder, other := insertFolder(t, s, "folder"), insertFolder(t, s, "other")
	gone := insertSymbols(t, s, folder.ID, newSymbols("a", "b")...)
	kept := insertSymbols(t, s, other.ID, newSymbols("a", "b")...)
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID))
	for _, symbol := range gone {
		_, err := s.Symbols().GetSymbol(t.Context(), symbol.ID)
		wantError(t, err, symbols.ErrSymbolNotFound)
	}
	_, err := s.Symbols().ListSymbols(t.Context(), folder.ID, 0, wholeFolder)
	wantError(t, err, symbols.ErrFolderNotFound)
	wantError(t, s.Symbols().DeleteFolder(t.Context(), folder.ID), symbols.ErrFolderNotFound)
	wantFolders(t, s, other)
	wantSymbols(t, s, other.ID, kept...)
}

func folderIDsOnce(t *testing.T, s Harness) {
	insertFolder(t, s, "stays")
	last := insertFolder(t, s, "newest").ID
	must(t, s.Symbols().DeleteFolder(t.Context(), last))
	folder := insertFolder(t, s, "next")
	if folder.ID <= last {
		t.Errorf("InsertFolder gives id %d, which is not above the deleted %d", folder.ID, last)
	}
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID))
	again := s.reopen(t)
	if id := insertFolder(t, again, "after a restart").ID; id <= folder.ID {
		t.Errorf("InsertFolder gives id %d after a restart, which is not above the deleted %d", id, folder.ID)
	}
}
