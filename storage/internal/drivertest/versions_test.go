package drivertest

import (
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// Statements run by hand change the versions of what they change, and no others.
func TestVersions_FollowManualStatements(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is, ctx, store := is.New(t), t.Context(), db.migrated().Symbols()
		folder := must(store.InsertFolder(ctx, symbols.Folder{Name: "folder"}))(t)
		must(store.InsertSymbols(ctx, folder.ID, []symbols.Symbol{{Name: "a"}, {Name: "b"}}))(t)
		state := func() (versions [4]symbols.Version) {
			is.Helper()
			var errs [4]error
			versions[0], errs[0] = store.FolderListVersion(ctx)
			folder, err := store.GetFolder(ctx, folder.ID)
			versions[1], errs[1] = folder.Version, err
			versions[2], errs[2] = store.ContentsVersion(ctx, folder.ID)
			info, err := store.GetSymbolInfo(ctx, 1)
			versions[3], errs[3] = info.Version, err
			is.Equal(errs, [4]error{})
			return versions
		}
		for _, test := range []struct {
			statement string
			changed   [4]bool // folder list, folder, contents, symbol
		}{
			{`UPDATE canvasback_folders SET name = name`, [4]bool{}},
			{`UPDATE canvasback_folders SET name = upper(name)`, [4]bool{0: true, 1: true}},
			{`INSERT INTO canvasback_folders (name) VALUES ('another')`, [4]bool{0: true}},
			{`UPDATE canvasback_symbols SET name = 'renamed' WHERE id = 1`, [4]bool{2: true, 3: true}},
			{`UPDATE canvasback_symbols SET folder_id = 2 WHERE id = 1`, [4]bool{2: true, 3: true}},
			{`UPDATE canvasback_symbols SET folder_id = 1 WHERE id = 1`, [4]bool{2: true, 3: true}},
			{`DELETE FROM canvasback_symbols WHERE id = 2`, [4]bool{2: true}},
			{`DELETE FROM canvasback_folders WHERE id = 2`, [4]bool{0: true}},
		} {
			before := state()
			db.execute(test.statement)
			after := state()
			for i := range before {
				if (after[i] != before[i]) != test.changed[i] {
					t.Errorf("%s: version %d changed: %v", test.statement, i, !test.changed[i])
				}
			}
		}
	})
}
