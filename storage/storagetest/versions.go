package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"example.com/canvasback/symbols"
)

var versionChecks = []check{
	{"a version is replaced if and only if its data changes", versionSteps},
	{"DeleteFolder returns ErrChanged if no version matches", versionOfDeletedFolder},
	{"DeleteSymbol returns ErrChanged if no version matches", versionOfDeletedSymbol},
	{"versions persist", versionPersists},
}

// resource is a folder list, folder, folder contents or symbol.
type resource struct {
	name    string
	version func(ctx context.Context, store symbols.Store) (symbols.Version, error)
}

func ofFolderList() resource {
	return resource{"folder list", func(ctx context.Context, store symbols.Store) (symbols.Version, error) {
		return store.FolderListVersion(ctx)
	}}
}

func ofFolder(id int64) resource {
	return resource{fmt.Sprint("folder ", id), func(ctx context.Context, store symbols.Store) (symbols.Version, error) {
		folder, err := store.GetFolder(ctx, id)
		return folder.Version, err
	}}
}

func ofContents(folderID int64) resource {
	return resource{fmt.Sprint("contents of folder ", folderID), func(ctx context.Context, store symbols.Store) (symbols.Version, error) {
		return store.ContentsVersion(ctx, folderID)
	}}
}

func ofSymbol(id int64) resource {
	return resource{fmt.Sprint("symbol ", id), func(ctx context.Context, store symbols.Store) (symbols.Version, error) {
		info, err := store.GetSymbolInfo(ctx, id)
		return info.Version, err
	}}
}

// version returns a version, or 0 if the folder or symbol does not exist.
func version(t testing.TB, s Storage, r resource) symbols.Version {
	t.Helper()
	v, err := r.version(t.Context(), s.Symbols())
	switch {
	case errors.Is(err, symbols.ErrFolderNotFound), errors.Is(err, symbols.ErrSymbolNotFound):
		return 0
	case err != nil:
		t.Fatalf("unexpected error: %v", err)
	case v <= 0:
		t.Errorf("%s has version %d, want a positive number", r.name, v)
	}
	return v
}

// wantVersions checks that all records and lists have their current version.
func wantVersions(t testing.TB, s Storage) {
	t.Helper()
	wantVersion := func(r resource, got symbols.Version) {
		t.Helper()
		if want := version(t, s, r); got != want {
			t.Errorf("%s has version %d, want %d", r.name, got, want)
		}
	}
	list := listFolders(t, s.Symbols())
	wantVersion(ofFolderList(), list.Version)
	for _, folder := range list.Folders {
		wantVersion(ofFolder(folder.ID), folder.Version)
		for _, size := range []int{1, unlimited} {
			page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{}, size, true)
			must(t, err)
			wantVersion(ofContents(folder.ID), page.Version)
			for _, symbol := range page.Symbols {
				wantVersion(ofSymbol(symbol.ID), symbol.Version)
			}
		}
	}
}

// versionSteps changes a storage step by step and compares all versions after
// each step.
func versionSteps(t *testing.T, s Harness) {
	store, ctx := s.Symbols(), t.Context()
	wantVersions(t, s)

	a, b := insertFolder(t, s, "a"), insertFolder(t, s, "b")
	inA := insertSymbols(t, s, a.ID, newSymbols("first", "second")...)
	inB := insertSymbols(t, s, b.ID, newSymbols("third")...)
	const (
		folders = iota
		folderA
		contentsA
		folderB
		contentsB
		first
		second
		third
	)
	resources := []resource{
		folders:   ofFolderList(),
		folderA:   ofFolder(a.ID),
		contentsA: ofContents(a.ID),
		folderB:   ofFolder(b.ID),
		contentsB: ofContents(b.ID),
		first:     ofSymbol(inA[0].ID),
		second:    ofSymbol(inA[1].ID),
		third:     ofSymbol(inB[0].ID),
	}

	rename := func(id int64, name string) func() error {
		return func() error { _, err := renameFolder(t, s, id, name); return err }
	}
	update := func(id int64, change func(*symbols.Symbol) error) func() error {
		return func() error { _, err := store.UpdateSymbol(ctx, id, change); return err }
	}
	move := func(id, folderID int64) func() error {
		return func() error { _, err := moveSymbol(t, s, id, folderID); return err }
	}
	insert := func(folderID int64, names ...string) func() error {
		return func() error { _, err := store.InsertSymbols(ctx, folderID, newSymbols(names...)); return err }
	}
	insertFolder := func(name string) func() error {
		return func() error { _, err := store.InsertFolder(ctx, symbols.Folder{Name: name}); return err }
	}

	updateMany := func(change func(*symbols.SymbolInfo)) func() error {
		return func() error {
			_, err := store.UpdateSymbols(ctx, []int64{inA[1].ID, inB[0].ID}, restorer, func(info *symbols.SymbolInfo) error { change(info); return nil })
			return err
		}
	}
	restore := func(symbolID, folderID int64) func() error {
		return func() error { return restoreDeleted(t, store, symbolID, folderID) }
	}

	steps := []struct {
		name    string
		do      func() error
		err     error
		changed []int // indexes of resources; a deletion is a change
	}{
		{name: "insert folder", do: insertFolder("c"), changed: []int{folders}},
		{name: "insert folder, name taken", do: insertFolder("b"), err: symbols.ErrFolderNameTaken},
		{name: "rename", do: rename(a.ID, "A"), changed: []int{folders, folderA}},
		{name: "rename back", do: rename(a.ID, "a"), changed: []int{folders, folderA}},
		{name: "rename to own name", do: rename(a.ID, "a")},
		{name: "rename to taken name", do: rename(a.ID, "b"), err: symbols.ErrFolderNameTaken},
		{name: "failing rename", do: func() error {
			_, err := store.UpdateFolder(ctx, a.ID, func(folder *symbols.Folder) error {
				folder.Name = "renamed"
				return errCallback
			})
			return err
		}, err: errCallback},

		{name: "insert symbol", do: insert(a.ID, "x"), changed: []int{contentsA}},
		{name: "insert symbols", do: insert(b.ID, "x", "y"), changed: []int{contentsB}},
		{name: "insert no symbols", do: insert(a.ID)},
		{name: "insert into missing folder", do: insert(a.ID+1000, "x"), err: symbols.ErrFolderNotFound},

		{name: "change name", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Name = "renamed"
			return nil
		}), changed: []int{contentsA, first}},
		{name: "change name back", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Name = inA[0].Name
			return nil
		}), changed: []int{contentsA, first}},
		{name: "change type", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Type = "image/png"
			return nil
		}), changed: []int{contentsA, first}},
		{name: "change data", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Data += "."
			return nil
		}), changed: []int{contentsA, first}},
		{name: "change nothing", do: update(inA[0].ID, func(*symbols.Symbol) error { return nil })},
		{name: "fail to change", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Name = "renamed"
			return errCallback
		}), err: errCallback},

		{name: "move", do: move(inA[0].ID, b.ID), changed: []int{contentsA, contentsB, first}},
		{name: "move to own folder", do: move(inA[0].ID, b.ID)},
		{name: "move to missing folder", do: move(inA[0].ID, b.ID+1000), err: symbols.ErrFolderNotFound},
		{name: "move back", do: move(inA[0].ID, a.ID), changed: []int{contentsA, contentsB, first}},
		{name: "move and change", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Name, symbol.FolderID = "moved", b.ID
			return nil
		}), changed: []int{contentsA, contentsB, first}},

		{name: "change tags of symbols", do: updateMany(func(info *symbols.SymbolInfo) { info.Tags = newTags("x") }), changed: []int{contentsA, contentsB, second, third}},
		{name: "change no tags of symbols", do: updateMany(func(info *symbols.SymbolInfo) { info.Tags = newTags("x") })},
		{name: "move symbols", do: updateMany(func(info *symbols.SymbolInfo) { info.FolderID = b.ID }), changed: []int{contentsA, contentsB, second}},
		{name: "move symbols back", do: move(inA[1].ID, a.ID), changed: []int{contentsA, contentsB, second}},

		{name: "delete symbol", do: func() error {
			return store.DeleteSymbols(ctx, []int64{inA[1].ID}, deletion)
		}, changed: []int{contentsA, second}},
		{name: "delete missing symbol", do: func() error {
			return store.DeleteSymbols(ctx, []int64{inA[1].ID}, symbols.Deletion{Match: symbols.Any})
		}, err: symbols.ErrSymbolNotFound},
		{name: "delete changed symbol", do: func() error {
			return store.DeleteSymbols(ctx, []int64{inA[0].ID}, symbols.Deletion{Match: symbols.IfMatch(inA[0].Version)})
		}, err: symbols.ErrChanged},
		{name: "delete changed folder", do: func() error {
			return store.DeleteFolder(ctx, a.ID, symbols.Deletion{Match: symbols.IfMatch(a.Version)})
		}, err: symbols.ErrChanged},
		{name: "delete folder", do: func() error {
			return store.DeleteFolder(ctx, b.ID, deletion)
		}, changed: []int{folders, folderB, contentsB, first, third}},
		{name: "delete missing folder", do: func() error {
			return store.DeleteFolder(ctx, b.ID, symbols.Deletion{Match: symbols.Any})
		}, err: symbols.ErrFolderNotFound},
		{name: "restore folder", do: restore(0, b.ID), changed: []int{folders, folderB, contentsB, first, third}},
		{name: "restore symbol", do: restore(inA[1].ID, a.ID), changed: []int{contentsA, second}},
		{name: "delete symbols", do: func() error {
			return store.DeleteSymbols(ctx, []int64{inA[0].ID, inA[1].ID, inB[0].ID}, deletion)
		}, changed: []int{contentsA, contentsB, first, second, third}},
		{name: "delete folder finally", do: func() error {
			return store.DeleteFolder(ctx, b.ID, symbols.Deletion{Match: symbols.Any, Final: true})
		}, changed: []int{folders, folderB, contentsB}},
		{name: "insert folder again", do: insertFolder("b"), changed: []int{folders}},
	}

	before := make([]symbols.Version, len(resources))
	seen := make([]map[symbols.Version]bool, len(resources))
	for i, resource := range resources {
		before[i] = version(t, s, resource)
		seen[i] = map[symbols.Version]bool{before[i]: true}
	}
	for _, step := range steps {
		wantError(t, step.do(), step.err)
		for i, resource := range resources {
			after := version(t, s, resource)
			changed, want := after != before[i], slices.Contains(step.changed, i)
			if changed != want {
				t.Errorf("%s: version of %s changed: %v, want %v", step.name, resource.name, changed, want)
			}
			if changed && after != 0 && seen[i][after] {
				t.Errorf("%s: %s has a previous version", step.name, resource.name)
			}
			seen[i][after] = true
			before[i] = after
		}
		wantVersions(t, s)
	}
}

// matchingNot returns conditions that do not match a folder or symbol which once had
// the previous version.
func matchingNot(previous symbols.Version) []symbols.Match {
	return []symbols.Match{{}, symbols.IfMatch(), symbols.IfMatch(previous), symbols.IfMatch(previous, previous)}
}

func versionOfDeletedFolder(t *testing.T, s Harness) {
	store, ctx := s.Symbols(), t.Context()
	previous := insertFolder(t, s, "folder")
	folder, err := renameFolder(t, s, previous.ID, "renamed")
	must(t, err)
	list := insertSymbols(t, s, folder.ID, newSymbols("symbol")...)

	for _, match := range matchingNot(previous.Version) {
		wantError(t, store.DeleteFolder(ctx, folder.ID, symbols.Deletion{Match: match}), symbols.ErrChanged)
	}
	wantError(t, store.DeleteFolder(ctx, folder.ID+1, symbols.Deletion{Match: symbols.IfMatch(folder.Version)}), symbols.ErrFolderNotFound)
	wantFolders(t, s, folder)
	wantSymbols(t, s, folder.ID, list...)

	must(t, store.DeleteFolder(ctx, folder.ID, symbols.Deletion{Match: symbols.IfMatch(previous.Version, folder.Version)}))
	wantFolders(t, s)
	wantError(t, store.DeleteFolder(ctx, folder.ID, symbols.Deletion{Match: symbols.IfMatch(folder.Version)}), symbols.ErrFolderNotFound)
}

func versionOfDeletedSymbol(t *testing.T, s Harness) {
	store, ctx := s.Symbols(), t.Context()
	previous := insertSymbol(t, s, "symbol")
	symbol, err := store.UpdateSymbol(ctx, previous.ID, func(symbol *symbols.Symbol) error {
		symbol.Name = "renamed"
		return nil
	})
	must(t, err)

	for _, match := range matchingNot(previous.Version) {
		wantError(t, store.DeleteSymbols(ctx, []int64{symbol.ID}, symbols.Deletion{Match: match}), symbols.ErrChanged)
	}
	wantError(t, store.DeleteSymbols(ctx, []int64{symbol.ID + 1}, symbols.Deletion{Match: symbols.IfMatch(symbol.Version)}), symbols.ErrSymbolNotFound)
	wantSymbols(t, s, symbol.FolderID, symbol)

	must(t, store.DeleteSymbols(ctx, []int64{symbol.ID}, symbols.Deletion{Match: symbols.IfMatch(previous.Version, symbol.Version)}))
	wantSymbols(t, s, symbol.FolderID)
	wantError(t, store.DeleteSymbols(ctx, []int64{symbol.ID}, symbols.Deletion{Match: symbols.IfMatch(symbol.Version)}), symbols.ErrSymbolNotFound)
}

func versionPersists(t *testing.T, s Harness) {
	second := s.reopen(t)
	symbol := insertSymbol(t, s, "symbol")
	resources := []resource{
		ofFolderList(),
		ofFolder(symbol.FolderID),
		ofContents(symbol.FolderID),
		ofSymbol(symbol.ID),
	}
	for _, resource := range resources {
		if one, other := version(t, s, resource), version(t, second, resource); one != other {
			t.Errorf("%s has version %d on one handle and %d on the other", resource.name, one, other)
		}
	}
	before := version(t, s, ofContents(symbol.FolderID))
	insertSymbols(t, second, symbol.FolderID, newSymbols("another")...)
	if version(t, s, ofContents(symbol.FolderID)) == before {
		t.Error("a change through one handle is not visible through the other")
	}
	wantVersions(t, s)
	wantVersions(t, second)
}

// newStorageVersions checks that two storages with the same content have
// different versions, as one may replace the other.
func newStorageVersions(t *testing.T, previous, next Storage) {
	a, b := insertSymbol(t, previous, "symbol"), insertSymbol(t, next, "symbol")
	for _, pair := range [][2]resource{
		{ofFolderList(), ofFolderList()},
		{ofFolder(a.FolderID), ofFolder(b.FolderID)},
		{ofContents(a.FolderID), ofContents(b.FolderID)},
		{ofSymbol(a.ID), ofSymbol(b.ID)},
	} {
		if version(t, previous, pair[0]) == version(t, next, pair[1]) {
			t.Errorf("%s has the same version in two storages", pair[0].name)
		}
	}
}
