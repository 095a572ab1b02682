package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

func concurrentFolderNames(t *testing.T, handles []Storage) {
	wantOne(t, parallel(handles, 24, func(s Storage, _ int) error {
		_, err := s.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "name"})
		return err
	}), symbols.ErrFolderNameTaken)
	list := listFolders(t, handles[0].Symbols())
	if len(list.Folders) != 1 {
		t.Errorf("ListFolders returns %+v, want one folder", list.Folders)
	}
}

func concurrentRenames(t *testing.T, handles []Storage) {
	var folders []symbols.Folder
	for i := range 12 {
		folders = append(folders, insertFolder(t, handles[0], strconv.Itoa(i)))
	}
	wantOne(t, parallel(handles, len(folders), func(s Storage, i int) error {
		_, err := renameFolder(t, s, folders[i].ID, "name")
		return err
	}), symbols.ErrFolderNameTaken)
}

func concurrentSymbolUpdates(t *testing.T, handles []Storage) {
	const workers = 8
	rounds := iterations(10, 500)
	symbol := insertSymbol(t, handles[0], "symbol")
	folder, err := handles[0].Symbols().GetFolder(t.Context(), symbol.FolderID)
	must(t, err)
	for _, err := range parallel(handles, workers, func(s Storage, _ int) error {
		for range rounds {
			_, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(symbol *symbols.Symbol) error {
				appendMark(&symbol.Data)
				return nil
			})
			if err != nil {
				return err
			}
			_, err = s.Symbols().UpdateFolder(t.Context(), folder.ID, func(folder *symbols.Folder) error {
				appendMark(&folder.Name)
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

// contendedSymbolUpdate changes a symbol while others do. Only once may they be faster.
func contendedSymbolUpdate(t *testing.T, handles []Storage) {
	symbol := insertSymbol(t, handles[0], "symbol")
	update := func(s Storage, before func() error) error {
		_, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(symbol *symbols.Symbol) error {
			appendMark(&symbol.Data)
			return before()
		})
		return err
	}
	updates, overtaken := 1, 0
	var others sync.WaitGroup
	must(t, update(handles[0], func() error {
		if overtaken > 1 {
			return errors.New("storagetest: an update starts over again and again")
		}
		updates++
		done := make(chan error, 1)
		others.Go(func() { done <- update(handles[len(handles)-1], func() error { return nil }) })
		select {
		case err := <-done:
			overtaken++
			return err
		case <-time.After(200 * time.Millisecond): // the symbol is locked
			return nil
		}
	}))
	others.Wait()
	got, err := handles[0].Symbols().GetSymbol(t.Context(), symbol.ID)
	must(t, err)
	if n := len(got.Data) - len(symbol.Data); n != updates {
		t.Errorf("the symbol has %d of %d updates", n, updates)
	}
}

// contendedChanges makes another change while a function is being called.
func contendedChanges(t *testing.T, handles []Storage) {
	s, other := handles[0], handles[len(handles)-1]
	during := func(name string, call func(function func() error) error, change func() error) []error {
		t.Helper()
		done := make(chan error, 1)
		start := sync.OnceFunc(func() {
			go func() { done <- change() }()
			time.Sleep(200 * time.Millisecond)
		})
		errs := []error{call(func() error { start(); return nil })}
		select {
		case err := <-done:
			return append(errs, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s leaves a lock", name)
		}
		return nil
	}

	key := insertKey(t, s, "key")
	during("keys.Delete", func(function func() error) error {
		var checked []keys.Key
		got, err := s.Keys().Delete(t.Context(), []int64{key.ID}, func(list []keys.Key) error {
			checked = list
			return function()
		})
		must(t, err)
		wantList(t, "Delete returns", got, checked)
		return err
	}, func() error {
		_, err := UpdateKey(t.Context(), other.Keys(), key.ID, func(key *keys.Key) error { key.Name = "new"; return nil })
		return err
	})

	symbol := insertSymbol(t, s, "symbol")
	tag := func(s Storage, name string, function func() error) error {
		_, err := s.Symbols().UpdateSymbols(t.Context(), []int64{symbol.ID}, restorer, func(info *symbols.SymbolInfo) error {
			info.Tags = newTags(append(info.Tags.List(), name)...)
			return function()
		})
		return err
	}
	for _, err := range during("symbols.UpdateSymbols", func(function func() error) error {
		return tag(s, "one", function)
	}, func() error {
		return tag(other, "other", func() error { return nil })
	}) {
		must(t, err)
	}
	got, err := s.Symbols().GetSymbol(t.Context(), symbol.ID)
	must(t, err)
	wantEqual(t, "the number of tags is", len(got.Tags.List()), 3)

	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, deletion))
	entry := listTrash(t, s.Symbols()).Entries[0]
	restore := func(s Storage, function func() error) error {
		_, err := s.Symbols().RestoreTrash(t.Context(), entry.ID, longAgo, restorer, func(entry symbols.TrashEntry) (int64, error) {
			return entry.FolderID, function()
		})
		return err
	}
	wantOne(t, during("symbols.RestoreTrash", func(function func() error) error {
		return restore(s, function)
	}, func() error {
		return restore(other, func() error { return nil })
	}), symbols.ErrTrashNotFound)
}

// concurrentMatches deletes folders and symbols of a version while others change them.
func concurrentMatches(t *testing.T, handles []Storage) {
	for round := range iterations(30, 300) {
		symbol := insertSymbol(t, handles[0], strconv.Itoa(round))
		folder, err := handles[0].Symbols().GetFolder(t.Context(), symbol.FolderID)
		must(t, err)
		for _, calls := range [][2]func(s symbols.Store) error{
			{
				func(s symbols.Store) error {
					return s.DeleteSymbols(t.Context(), []int64{symbol.ID}, symbols.Deletion{Match: symbols.IfMatch(symbol.Version)})
				},
				func(s symbols.Store) error {
					_, err := s.UpdateSymbol(t.Context(), symbol.ID, func(symbol *symbols.Symbol) error { symbol.Name = "new"; return nil })
					return err
				},
			},
			{
				func(s symbols.Store) error {
					return s.DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.IfMatch(folder.Version)})
				},
				func(s symbols.Store) error {
					_, err := s.UpdateFolder(t.Context(), folder.ID, func(folder *symbols.Folder) error { folder.Name += " new"; return nil })
					return err
				},
			},
		} {
			errs := parallel(handles, 2, func(s Storage, i int) error { return calls[i^round&1](s.Symbols()) })
			errs[0], errs[1] = errs[round&1], errs[1^round&1]
			changed := errors.Is(errs[0], symbols.ErrChanged) && errs[1] == nil
			gone := errors.Is(errs[1], symbols.ErrSymbolNotFound) || errors.Is(errs[1], symbols.ErrFolderNotFound)
			if !changed && (errs[0] != nil || !gone) {
				t.Errorf("the deletion returns %v, the change %v", errs[0], errs[1])
			}
		}
	}
}

func concurrentFolderDeletes(t *testing.T, handles []Storage) {
	store := handles[0].Symbols()
	home := insertFolder(t, handles[0], "home")
	for round := range iterations(50, 3000) {
		folder := insertFolder(t, handles[0], strconv.Itoa(round))
		movers := insertSymbols(t, handles[0], home.ID, newSymbols("a", "b", "c")...)
		inserted := make([][]symbols.Symbol, 3)
		errs := parallel(handles, 7, func(s Storage, i int) error {
			if i == 3 {
				return s.Symbols().DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any})
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
			for _, symbol := range list { // inserted before the deletion
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
			wantEqual(t, "a symbol whose move failed is", got, mover)
		}
	}
	for _, s := range handles {
		wantVersions(t, s)
	}
}

func concurrentMoves(t *testing.T, handles []Storage) {
	rounds := iterations(10, 1000) | 1 // odd
	folders := []symbols.Folder{insertFolder(t, handles[0], "one"), insertFolder(t, handles[0], "other")}
	var list []symbols.Symbol
	for _, folder := range folders {
		list = append(list, insertSymbols(t, handles[0], folder.ID, newSymbols("a", "b", "c")...)...)
	}
	for _, err := range parallel(handles, len(list), func(s Storage, i int) error {
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
	for _, symbol := range list { // the number of moves is odd
		got, err := handles[0].Symbols().GetSymbol(t.Context(), symbol.ID)
		must(t, err)
		if got.FolderID == symbol.FolderID {
			t.Errorf("after %d moves symbol %d is in the same folder", rounds, symbol.ID)
		}
	}
	for _, s := range handles {
		wantVersions(t, s)
	}
}

// concurrentReads checks that all readers get the same data for the same version
// while writers change it.
func concurrentReads(t *testing.T, handles []Storage) {
	folder := insertFolder(t, handles[0], "folder")
	list := insertSymbols(t, handles[0], folder.ID, newSymbols("a", "b", "c")...)
	var mu sync.Mutex
	seen := make(map[symbols.Version]string)
	record := func(version symbols.Version, content any) error {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprint(content)
		if previous, ok := seen[version]; ok && previous != text {
			return fmt.Errorf("version %d has data %s and %s", version, previous, text)
		}
		seen[version] = text
		return nil
	}
	var readers atomic.Int64
	readers.Store(7)
	for _, err := range parallel(handles, 10, func(s Storage, i int) error {
		if i >= 3 {
			defer readers.Add(-1)
		}
		for round := 0; i < 3 && readers.Load() > 0 || i >= 3 && round < iterations(20, 500); round++ {
			var err error
			if i < 3 { // several readers see each version
				time.Sleep(rand.N(time.Millisecond))
			}
			switch {
			case i < 2:
				_, err = s.Symbols().UpdateSymbol(t.Context(), list[i].ID, func(symbol *symbols.Symbol) error {
					appendMark(&symbol.Data)
					return nil
				})
			case i == 2:
				_, err = renameFolder(t, s, folder.ID, strconv.Itoa(round))
			case i < 6:
				var page symbols.Page
				if page, err = s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{}, unlimited, true); err == nil {
					err = record(page.Version, page.Symbols)
				}
			case i < 8:
				var page symbols.InfoPage
				if page, err = s.Symbols().ListSymbolInfos(t.Context(), folder.ID, symbols.Range{}); err == nil {
					err = record(-page.Version, page.Symbols) // beside what ListSymbols returns
				}
			default:
				var list symbols.FolderPage
				if list, err = s.Symbols().ListFolders(t.Context(), symbols.Range{}); err == nil {
					err = record(list.Version, list.Folders)
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
