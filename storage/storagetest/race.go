package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// RunConcurrent holds a driver to its promises under contention, through one
// handle and, where the storage can be opened again, through two. It is worth
// most under the race detector.
func RunConcurrent(t *testing.T, open func(t testing.TB) Harness) {
	for _, race := range []struct {
		sentence string
		run      func(t *testing.T, handles []Storage)
	}{
		{"one of many folders gets the name", raceFolderName},
		{"one of many renames gets the name", raceRename},
		{"no update of a key is lost", raceKeyUpdates},
		{"no update of a folder or symbol is lost", raceSymbolUpdates},
		{"a rotated key is found by one digest", raceRotate},
		{"last use is the latest of all", raceTouch},
		{"no symbol outlives its folder", raceFolderDelete},
		{"opposite moves end well", raceMoves},
		{"one version is one state", raceReaders},
		{"one of many puts creates the export", racePut},
		{"rotations leave one raw key, and none of a dead key", raceRotations},
		{"contexts that end harm no other call", raceContexts},
	} {
		t.Run(race.sentence, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			race.run(t, []Storage{s, s})
			s.wantIdle(t)
			if s.Reopen == nil {
				return
			}
			s = open(t)
			race.run(t, []Storage{s, s.Reopen()})
			s.wantIdle(t)
		})
	}
}

// together calls do n times at once, spread over the handles, and returns the
// errors in the order of the calls.
func together(handles []Storage, n int, do func(s Storage, i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-start
			errs[i] = do(handles[i%len(handles)], i)
		})
	}
	close(start)
	group.Wait()
	return errs
}

// wantOne reports unless one error is nil and the others are as given.
func wantOne(t *testing.T, errs []error, others error) {
	t.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantError(t, err, others)
	}
	if won != 1 {
		t.Errorf("%d of %d succeeded, want 1", won, len(errs))
	}
}

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

// appendTo adds a mark to a text, so that updates can be counted.
func appendTo(text *string) { *text += "." }

func raceKeyUpdates(t *testing.T, handles []Storage) {
	const workers = 8
	rounds := rounds(15, 1000)
	key := insertKey(t, handles[0], "key")
	before := epoch(t, handles[0])
	for _, err := range together(handles, workers, func(s Storage, _ int) error {
		for range rounds {
			_, err := s.Keys().Update(t.Context(), key.ID, func(key *keys.Key) error {
				appendTo(&key.Name)
				key.Active = !key.Active
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
		got, err := s.Keys().Get(t.Context(), key.ID)
		must(t, err)
		if want := len(key.Name) + workers*rounds; len(got.Name) != want || got.Active != key.Active {
			t.Errorf("the key is %+v, want %d updates", got, workers*rounds)
		}
		if after := epoch(t, s); after-before < int64(workers*rounds) {
			t.Errorf("the epoch went from %d to %d in %d changes", before, after, workers*rounds)
		}
	}
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

func raceRotate(t *testing.T, handles []Storage) {
	key := insertKey(t, handles[0], "key")
	for _, err := range together(handles, 8, func(s Storage, i int) error {
		for round := range rounds(10, 1000) {
			var former keys.Digest
			rotated, err := s.Keys().Update(t.Context(), key.ID, func(key *keys.Key) error {
				former = key.Digest
				key.Digest = newKey(fmt.Sprint(i, round)).Digest
				return nil
			})
			if err != nil {
				return err
			}
			if _, err := s.Keys().Find(t.Context(), former); !errors.Is(err, keys.ErrNotFound) {
				return fmt.Errorf("the former digest is still looked up with: %v", err)
			}
			// Another rotation may have come between.
			found, err := s.Keys().Find(t.Context(), rotated.Digest)
			if err != nil && !errors.Is(err, keys.ErrNotFound) {
				return err
			}
			if err == nil && found != rotated {
				return fmt.Errorf("found %+v, want %+v", found, rotated)
			}
		}
		return nil
	}) {
		must(t, err)
	}
}

func raceTouch(t *testing.T, handles []Storage) {
	const workers = 8
	var uses []keys.Use
	for i := range 20 {
		uses = append(uses, keys.Use{ID: insertKey(t, handles[0], strconv.Itoa(i)).ID})
	}
	for _, err := range together(handles, workers, func(s Storage, i int) error {
		batch := slices.Clone(uses)
		for j := range batch {
			batch[j].At = noon.Add(time.Duration((i+j)%workers) * time.Second)
		}
		if i%2 == 0 {
			slices.Reverse(batch)
		}
		return s.Keys().Touch(t.Context(), batch)
	}) {
		must(t, err)
	}
	list, err := handles[0].Keys().List(t.Context())
	must(t, err)
	for _, key := range list {
		if want := noon.Add((workers - 1) * time.Second); !key.LastUsedAt.Equal(want) {
			t.Errorf("key %d was last used %v, want %v", key.ID, key.LastUsedAt, want)
		}
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

func racePut(t *testing.T, handles []Storage) {
	const workers = 16
	stored, created := make([]exports.Export, workers), make([]bool, workers)
	for _, err := range together(handles, workers, func(s Storage, i int) error {
		export := newExport("source")
		export.FileName = strconv.Itoa(i)
		var err error
		stored[i], created[i], err = s.Exports().Put(t.Context(), export)
		return err
	}) {
		must(t, err)
	}
	won := 0
	for i, export := range stored {
		if created[i] {
			won++
		}
		if export.ID != stored[0].ID || export.FileName != strconv.Itoa(i) {
			t.Errorf("Put returns %+v, want id %d and name %d", export, stored[0].ID, i)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d created the export, want 1", won, workers)
	}
	for _, s := range handles {
		found, err := s.Exports().Find(t.Context(), "source")
		must(t, err)
		if len(found) != 1 || !slices.Contains(stored, found[0]) {
			t.Errorf("Find returns %+v, want one of %+v", found, stored)
		}
	}
}
