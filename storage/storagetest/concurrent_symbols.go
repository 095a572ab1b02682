package storagetest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"example.com/canvasback/symbols"
)

func raceFolderName(t *testing.T, handles []Storage) {
	wantOne(t, together(handles, 24, func(s Storage, _ int) error {
		_, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "wanted"})
		return err
	}), symbols.ErrFolderNameTaken)
	list, err := handles[0].Symbols().ListFolders(t.Context())
	must(t, err)
	if len(list.Folders) != 1 {
		t.Errorf("ListFolders returns %+v, want one folder", list.Folders)
	}
}

func raceRename(t *testing.T, handles []Storage) {
	var folders []symbols.Folder
	for i := range 12 {
		folders = append(folders, insertFolder(t, handles[0], strconv.Itoa(i)))
	}
	wantOne(t, together(handles, len(folders), func(s Storage, i int) error {
		_, err := renameFolder(t, s, folders[i].ID, "wanted")
		return err
	}), symbols.ErrFolderNameTaken)
}

func raceSymbolUpdates(t *testing.T, handles []Storage) {
	const workers = 8
	rounds := rounds(10, 500)
	symbol := insertSymbol(t, handles[0], "symbol")
	folder, err := handles[0].Symbols().GetFolder(t.Context(), symbol.FolderID)
	must(t, err)
	for _, err := range together(handles, workers, func(s Storage, _ int) error {
		for range rounds {
			_, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(symbol *symbols.Symbol) error {
				appendTo(&symbol.Data)
				return nil
			})
			if err != nil {
				return err
			}
			_, err = s.Symbols().UpdateFolder(t.Context(), folder.ID, func(folder *symbols.Folder) error {
				appendTo(&folder.Name)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	for _, s := range handles {
		gotSymbol, err := s.Symbols().GetSymbol(t.Context(), symbol.ID)
		must(t, err)
		gotFolder, err := s.Symbols().GetFolder(t.Context(), folder.ID)
		must(t, err)
		if len(gotSymbol.Data)-len(symbol.Data) != workers*rounds || len(gotFolder.Name)-len(folder.Name) != workers*rounds {
			t.Errorf("symbol and folder are %+v and %+v, want %d updates of each", gotSymbol, gotFolder, workers*rounds)
		}
		wantVersions(t, s)
	}
}

func raceFolderDelete(t *testing.T, handles []Storage) {
	store := handles[0].Symbols()
	home := insertFolder(t, handles[0], "home")
	for round := range rounds(100, 3000) {
		folder := insertFolder(t, handles[0], strconv.Itoa(round))
		movers := insertSymbols(t, handles[0], home.ID, newSymbols("a", "b", "c")...)
		inserted := make([][]symbols.Symbol, 3)
		errs := together(handles, 7, func(s Storage, i int) error {
			if i == 3 {
				return s.Symbols().DeleteFolder(t.Context(), folder.ID)
			}
			var err error
			if i < 3 {
				inserted[i], err = s.Symbols().InsertSymbols(t.Context(), folder.ID, newSymbols("x", "y"))
			} else {
				_, err = moveSymbol(t, s, movers[i-4].ID, folder.ID)
			}
			return err
		})
		must(t, errs[3])
		for i, list := range inserted {
			if errs[i] != nil {
				wantError(t, errs[i], symbols.ErrFolderNotFound)
				continue
			}
			for _, symbol := range list { // it came before the deletion
				_, err := store.GetSymbol(t.Context(), symbol.ID)
				wantError(t, err, symbols.ErrSymbolNotFound)
			}
		}
		for i, mover := range movers {
			got, err := store.GetSymbol(t.Context(), mover.ID)
			if errs[4+i] == nil {
				wantError(t, err, symbols.ErrSymbolNotFound)
				continue
			}
			wantError(t, errs[4+i], symbols.ErrFolderNotFound)
			must(t, err)
			if got != mover {
				t.Errorf("the symbol that did not move is %+v, want %+v", got, mover)
			}
		}
	}
	for _, s := range handles {
		wantVersions(t, s)
	}
}

func raceMoves(t *testing.T, handles []Storage) {
	rounds := rounds(11, 1001)
	folders := []symbols.Folder{insertFolder(t, handles[0], "one"), insertFolder(t, handles[0], "other")}
	var list []symbols.Symbol
	for _, folder := range folders {
		list = append(list, insertSymbols(t, handles[0], folder.ID, newSymbols("a", "b", "c")...)...)
	}
	for _, err := range together(handles, len(list), func(s Storage, i int) error {
		for range rounds {
			_, err := s.Symbols().UpdateSymbol(t.Context(), list[i].ID, func(symbol *symbols.Symbol) error {
				symbol.FolderID = folders[0].ID + folders[1].ID - symbol.FolderID
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
	for _, symbol := range list { // an odd number of moves changes sides
		got, err := handles[0].Symbols().GetSymbol(t.Context(), symbol.ID)
		must(t, err)
		if got.FolderID == symbol.FolderID {
			t.Errorf("after %d moves symbol %d is where it was", rounds, symbol.ID)
		}
	}
	for _, s := range handles {
		wantVersions(t, s)
	}
}

// raceReaders lets readers compare all they see under one version while
// writers change it.
func raceReaders(t *testing.T, handles []Storage) {
	folder := insertFolder(t, handles[0], "folder")
	list := insertSymbols(t, handles[0], folder.ID, newSymbols("a", "b", "c")...)
	var mu sync.Mutex
	seen := make(map[symbols.Version]string)
	note := func(version symbols.Version, content any) error {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprint(content)
		if former, ok := seen[version]; ok && former != text {
			return fmt.Errorf("version %d is %s and %s", version, former, text)
		}
		seen[version] = text
		return nil
	}
	for _, err := range together(handles, 8, func(s Storage, i int) error {
		for round := range rounds(20, 500) {
			var err error
			switch {
			case i < 2:
				_, err = s.Symbols().UpdateSymbol(t.Context(), list[i].ID, func(symbol *symbols.Symbol) error {
					appendTo(&symbol.Data)
					return nil
				})
			case i == 2:
				_, err = renameFolder(t, s, folder.ID, strconv.Itoa(round))
			case i < 6:
				var page symbols.Page
				if page, err = s.Symbols().ListSymbols(t.Context(), folder.ID, 0, wholeFolder); err == nil {
					err = note(page.Version, page.Symbols)
				}
			default:
				var list symbols.FolderList
				if list, err = s.Symbols().ListFolders(t.Context()); err == nil {
					err = note(list.Version, list.Folders)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}) {
		must(t, err)
	}
}
