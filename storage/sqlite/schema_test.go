package sqlite_test

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// Statements run by hand must change the epoch and the versions too.
func TestSchema_TriggersTrackManualStatements(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ctx := t.Context()
	conn := connect(t, file(t)+pragmas)
	db := must(sqlite.New(conn))
	is.NoErr(db.Migrate(ctx))
	_, err := db.Keys().Insert(ctx, keys.Key{Name: "key", Active: true})
	is.True(err != nil) // times are required
	folder, err := db.Symbols().InsertFolder(ctx, symbols.Folder{Name: "folder"})
	is.NoErr(err)
	_, err = db.Symbols().InsertSymbols(ctx, folder.ID, []symbols.Symbol{{Name: "a"}, {Name: "b"}})
	is.NoErr(err)

	state := func() (numbers [5]int64) {
		is.Helper()
		changes, err := db.Keys().Changes(ctx, 0)
		is.NoErr(err)
		numbers[0] = changes.Epoch
		store := db.Symbols()
		for i, read := range []func() (symbols.Version, error){
			func() (symbols.Version, error) { return store.FolderListVersion(ctx) },
			func() (symbols.Version, error) { return store.FolderVersion(ctx, folder.ID) },
			func() (symbols.Version, error) { return store.ContentsVersion(ctx, folder.ID) },
			func() (symbols.Version, error) { info, err := store.GetSymbolInfo(ctx, 1); return info.Version, err },
		} {
			version, err := read()
			is.NoErr(err)
			numbers[i+1] = int64(version)
		}
		return numbers
	}
	for _, test := range []struct {
		statement string
		changed   [5]bool // epoch, folders, folder, contents, symbol
	}{
		{`INSERT INTO canvasback_keys (name, prefix, mask, digest, active, created_at, updated_at)
			VALUES ('key', '', '', zeroblob(32), 1, 0, 0)`, [5]bool{0: true}},
		{`UPDATE canvasback_keys SET active = 1`, [5]bool{}},
		{`UPDATE canvasback_keys SET name = 'renamed', last_used_at = 1`, [5]bool{}},
		{`UPDATE canvasback_keys SET active = 0`, [5]bool{0: true}},
		{`UPDATE canvasback_keys SET expires_at = 0`, [5]bool{0: true}},
		{`UPDATE canvasback_keys SET expires_at = NULL`, [5]bool{0: true}},
		{`DELETE FROM canvasback_keys`, [5]bool{0: true}},
		{`UPDATE canvasback_folders SET name = name`, [5]bool{}},
		{`UPDATE canvasback_folders SET name = upper(name)`, [5]bool{1: true, 2: true}},
		{`INSERT INTO canvasback_folders (name) VALUES ('another')`, [5]bool{1: true}},
		{`UPDATE canvasback_symbols SET name = 'renamed' WHERE id = 1`, [5]bool{3: true, 4: true}},
		{`UPDATE canvasback_symbols SET name = 'renamed' WHERE id = 1`, [5]bool{}},
		{`UPDATE canvasback_symbols SET folder_id = 2 WHERE id = 1`, [5]bool{3: true, 4: true}},
		{`UPDATE canvasback_symbols SET folder_id = 1 WHERE id = 1`, [5]bool{3: true, 4: true}},
		{`DELETE FROM canvasback_symbols WHERE id = 2`, [5]bool{3: true}},
		{`DELETE FROM canvasback_folders WHERE id = 2`, [5]bool{1: true}},
	} {
		before := state()
		_, err := conn.ExecContext(ctx, test.statement)
		is.NoErr(err)
		var changed [5]bool
		for i, number := range state() {
			changed[i] = number != before[i]
		}
		if changed != test.changed {
			t.Errorf("%s: changed %v, want %v", test.statement, changed, test.changed)
		}
	}
}

func TestSchema_PreviousKeyEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := connect(t, file(t)+pragmas)
	db := must(sqlite.New(conn))
	is.NoErr(db.Migrate(t.Context()))
	now := time.UnixMilli(1)
	_, err := db.Keys().Insert(t.Context(), keys.Key{Name: "key", CreatedAt: now, UpdatedAt: now})
	is.NoErr(err)
	for _, half := range []string{"previous_digest = zeroblob(32)", "previous_expires_at = 1"} {
		_, err := conn.ExecContext(t.Context(), "UPDATE canvasback_keys SET "+half)
		is.True(err != nil)
	}
	_, err = conn.ExecContext(t.Context(), "UPDATE canvasback_keys SET previous_digest = zeroblob(32), previous_expires_at = 1")
	is.NoErr(err)
}
