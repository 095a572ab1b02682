package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"example.com/canvasback/symbols"
)

var versionPromises = []promise{
	{"a version is replaced with what it stands for and only then", versionSteps},
	{"a wanted version guards the deletion of a folder", versionOfDeletedFolder},
	{"a wanted version guards the deletion of a symbol", versionOfDeletedSymbol},
	{"versions outlive the process", versionLasting},
}

// versioned is something that has a version.
type versioned struct {
	name string
	read func(ctx context.Context, store symbols.Store) (symbols.Version, error)
}

func folderList() versioned {
	return versioned{"the folder list", func(ctx context.Context, store symbols.Store) (symbols.Version, error) {
		return store.FolderListVersion(ctx)
	}}
}

func folderAlone(id int64) versioned {
	return versioned{fmt.Sprintf("folder %d", id), func(ctx context.Context, store symbols.Store) (symbols.Version, error) {
		return store.FolderVersion(ctx, id)
	}}
}

func contentsOf(folderID int64) versioned {
	return versioned{fmt.Sprintf("contents of folder %d", folderID), func(ctx context.Context, store symbols.Store) (symbols.Version, error) {
		return store.ContentsVersion(ctx, folderID)
	}}
}

func oneSymbol(id int64) versioned {
	return versioned{fmt.Sprintf("symbol %d", id), func(ctx context.Context, store symbols.Store) (symbols.Version, error) {
		return store.SymbolVersion(ctx, id)
	}}
}

// version returns the version of a resource, or 0 if it does not exist.
func version(t testing.TB, s Storage, of versioned) symbols.Version {
	t.Helper()
	v, err := of.read(t.Context(), s.Symbols())
	switch {
	case errors.Is(err, symbols.ErrFolderNotFound), errors.Is(err, symbols.ErrSymbolNotFound):
		return 0
	case err != nil:
		t.Fatalf("unexpected error: %v", err)
	case v <= 0:
		t.Errorf("%s has version %d, want a positive number", of.name, v)
	}
	return v
}

// wantVersions reports records and lists that carry another version than the
// present one.
func wantVersions(t testing.TB, s Storage) {
	t.Helper()
	wantVersion := func(of versioned, carried symbols.Version) {
		t.Helper()
		if want := version(t, s, of); carried != want {
			t.Errorf("%s carries version %d, want %d", of.name, carried, want)
		}
	}
	list, err := s.Symbols().ListFolders(t.Context())
	must(t, err)
	wantVersion(folderList(), list.Version)
	for _, folder := range list.Folders {
		wantVersion(folderAlone(folder.ID), folder.Version)
		for _, size := range []int{1, wholeFolder} {
			page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, 0, size)
			must(t, err)
			wantVersion(contentsOf(folder.ID), page.Version)
			for _, symbol := range page.Symbols {
				wantVersion(oneSymbol(symbol.ID), symbol.Version)
			}
		}
	}
}

// versionSteps changes a storage step by step and looks at all versions after
// each.
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
	subjects := []versioned{
		folders:   folderList(),
		folderA:   folderAlone(a.ID),
		contentsA: contentsOf(a.ID),
		folderB:   folderAlone(b.ID),
		contentsB: contentsOf(b.ID),
		first:     oneSymbol(inA[0].ID),
		second:    oneSymbol(inA[1].ID),
		third:     oneSymbol(inB[0].ID),
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

	steps := []struct {
		name  string
		do    func() error
		err   error
		moved []int // of subjects; what is deleted has moved
	}{
		{name: "insert folder", do: insertFolder("c"), moved: []int{folders}},
		{name: "insert folder, name taken", do: insertFolder("b"), err: symbols.ErrFolderNameTaken},
		{name: "rename", do: rename(a.ID, "A"), moved: []int{folders, folderA}},
		{name: "rename back", do: rename(a.ID, "a"), moved: []int{folders, folderA}},
		{name: "rename to own name", do: rename(a.ID, "a")},
		{name: "rename to taken name", do: rename(a.ID, "b"), err: symbols.ErrFolderNameTaken},
		{name: "failing rename", do: func() error {
			_, err := store.UpdateFolder(ctx, a.ID, func(folder *symbols.Folder) error {
				folder.Name = "renamed"
				return errRefused
			})
			return err
		}, err: errRefused},

		{name: "insert symbol", do: insert(a.ID, "x"), moved: []int{contentsA}},
		{name: "insert symbols", do: insert(b.ID, "x", "y"), moved: []int{contentsB}},
		{name: "insert no symbols", do: insert(a.ID)},
		{name: "insert into missing folder", do: insert(a.ID+1000, "x"), err: symbols.ErrFolderNotFound},

		{name: "change name", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Name = "renamed"
			return nil
		}), moved: []int{contentsA, first}},
		{name: "change name back", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Name = inA[0].Name
			return nil
		}), moved: []int{contentsA, first}},
		{name: "change type", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Type = "image/png"
			return nil
		}), moved: []int{contentsA, first}},
		{name: "change data", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Data += "."
			return nil
		}), moved: []int{contentsA, first}},
		{name: "change nothing", do: update(inA[0].ID, func(*symbols.Symbol) error { return nil })},
		{name: "fail to change", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Name = "renamed"
			return errRefused
		}), err: errRefused},

		{name: "move", do: move(inA[0].ID, b.ID), moved: []int{contentsA, contentsB, first}},
		{name: "move to own folder", do: move(inA[0].ID, b.ID)},
		{name: "move to missing folder", do: move(inA[0].ID, b.ID+1000), err: symbols.ErrFolderNotFound},
		{name: "move back", do: move(inA[0].ID, a.ID), moved: []int{contentsA, contentsB, first}},
		{name: "move and change", do: update(inA[0].ID, func(symbol *symbols.Symbol) error {
			symbol.Name, symbol.FolderID = "moved", b.ID
			return nil
		}), moved: []int{contentsA, contentsB, first}},

		{name: "delete symbol", do: func() error {
			return store.DeleteSymbol(ctx, inA[1].ID)
		}, moved: []int{contentsA, second}},
		{name: "delete missing symbol", do: func() error {
			return store.DeleteSymbol(ctx, inA[1].ID)
		}, err: symbols.ErrSymbolNotFound},
		{name: "delete changed symbol", do: func() error {
			return store.DeleteSymbol(ctx, inA[0].ID, inA[0].Version)
		}, err: symbols.ErrChanged},
		{name: "delete changed folder", do: func() error {
			return store.DeleteFolder(ctx, a.ID, a.Version)
		}, err: symbols.ErrChanged},
		{name: "delete folder", do: func() error {
			return store.DeleteFolder(ctx, b.ID)
		}, moved: []int{folders, folderB, contentsB, first, third}},
		{name: "delete missing folder", do: func() error {
			return store.DeleteFolder(ctx, b.ID)
		}, err: symbols.ErrFolderNotFound},
		{name: "insert folder again", do: insertFolder("b"), moved: []int{folders}},
	}

	before := make([]symbols.Version, len(subjects))
	seen := make([]map[symbols.Version]bool, len(subjects))
	for i, subject := range subjects {
		before[i] = version(t, s, subject)
		seen[i] = map[symbols.Version]bool{before[i]: true}
	}
	for _, step := range steps {
		wantError(t, step.do(), step.err)
		for i, subject := range subjects {
			after := version(t, s, subject)
			moved, want := after != before[i], slices.Contains(step.moved, i)
			if moved != want {
				t.Errorf("%s: version of %s moved: %v, want %v", step.name, subject.name, moved, want)
			}
			if moved && seen[i][after] {
				t.Errorf("%s: %s has a version that it had before", step.name, subject.name)
			}
			seen[i][after] = true
			before[i] = after
		}
		wantVersions(t, s)
	}
}

func versionOfDeletedFolder(t *testing.T, s Harness) {
	store, ctx := s.Symbols(), t.Context()
	former := insertFolder(t, s, "folder")
	folder, err := renameFolder(t, s, former.ID, "renamed")
	must(t, err)
	list := insertSymbols(t, s, folder.ID, newSymbols("symbol")...)

	wantError(t, store.DeleteFolder(ctx, folder.ID, former.Version), symbols.ErrChanged)
	wantError(t, store.DeleteFolder(ctx, folder.ID, former.Version, former.Version), symbols.ErrChanged)
	wantError(t, store.DeleteFolder(ctx, folder.ID+1, folder.Version), symbols.ErrFolderNotFound)
	wantFolders(t, s, folder)
	wantSymbols(t, s, folder.ID, list...)

	must(t, store.DeleteFolder(ctx, folder.ID, former.Version, folder.Version))
	wantFolders(t, s)
	wantError(t, store.DeleteFolder(ctx, folder.ID, folder.Version), symbols.ErrFolderNotFound)
}

func versionOfDeletedSymbol(t *testing.T, s Harness) {
	store, ctx := s.Symbols(), t.Context()
	former := insertSymbol(t, s, "symbol")
	symbol, err := store.UpdateSymbol(ctx, former.ID, func(symbol *symbols.Symbol) error {
		symbol.Name = "renamed"
		return nil
	})
	must(t, err)

	wantError(t, store.DeleteSymbol(ctx, symbol.ID, former.Version), symbols.ErrChanged)
	wantError(t, store.DeleteSymbol(ctx, symbol.ID, former.Version, former.Version), symbols.ErrChanged)
	wantError(t, store.DeleteSymbol(ctx, symbol.ID+1, symbol.Version), symbols.ErrSymbolNotFound)
	wantSymbols(t, s, symbol.FolderID, symbol)

	must(t, store.DeleteSymbol(ctx, symbol.ID, former.Version, symbol.Version))
	wantSymbols(t, s, symbol.FolderID)
	wantError(t, store.DeleteSymbol(ctx, symbol.ID, symbol.Version), symbols.ErrSymbolNotFound)
}

func versionLasting(t *testing.T, s Harness) {
	again := s.reopen(t)
	symbol := insertSymbol(t, s, "symbol")
	subjects := []versioned{
		folderList(),
		folderAlone(symbol.FolderID),
		contentsOf(symbol.FolderID),
		oneSymbol(symbol.ID),
	}
	for _, subject := range subjects {
		if one, other := version(t, s, subject), version(t, again, subject); one != other {
			t.Errorf("%s has version %d here, %d there", subject.name, one, other)
		}
	}
	before := version(t, s, contentsOf(symbol.FolderID))
	insertSymbols(t, again, symbol.FolderID, newSymbols("another")...)
	if version(t, s, contentsOf(symbol.FolderID)) == before {
		t.Error("a change of the contents there is not seen here")
	}
	wantVersions(t, s)
	wantVersions(t, again)
}

// newStorageVersions tells apart a storage and one that takes its place: with
// the same content they must not have the same versions.
func newStorageVersions(t *testing.T, former, next Storage) {
	a, b := insertSymbol(t, former, "symbol"), insertSymbol(t, next, "symbol")
	for _, pair := range [][2]versioned{
		{folderList(), folderList()},
		{folderAlone(a.FolderID), folderAlone(b.FolderID)},
		{contentsOf(a.FolderID), contentsOf(b.FolderID)},
		{oneSymbol(a.ID), oneSymbol(b.ID)},
	} {
		if version(t, former, pair[0]) == version(t, next, pair[1]) {
			t.Errorf("%s has the same version in two storages", pair[0].name)
		}
	}
}
