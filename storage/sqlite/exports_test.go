package sqlite_test

import (
	"io/fs"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/sqlite"
)

// Searches find exports from before the index, and those of statements run by hand.
func TestSchema_ExportIndexTracksManualStatements(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := connect(t, file(t)+pragmas)
	exec := func(statement string) {
		is.Helper()
		_, err := conn.ExecContext(t.Context(), statement)
		is.NoErr(err)
	}
	exec(`CREATE TABLE canvasback_migrations (version INTEGER PRIMARY KEY, title TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`)
	for i, name := range []string{"0001_initial", "0002_key_changes", "0003_links", "0004_fact_revision"} {
		text, err := fs.ReadFile(sqlite.Migrations, name+".sql")
		is.NoErr(err)
		exec(string(text))
		_, err = conn.ExecContext(t.Context(), `INSERT INTO canvasback_migrations VALUES (?, ?, 0)`, i+1, name)
		is.NoErr(err)
	}
	const insert = `INSERT INTO canvasback_exports (source_url, exported_url, file_name, created_at, updated_at) VALUES `
	exec(insert + `('https://cad.example/old', '', '', 0, 0)`)
	db := must(sqlite.New(conn))
	is.NoErr(db.Migrate(t.Context()))

	search := func(text string) (ids []int64) {
		is.Helper()
		list, err := db.Exports().List(t.Context(), exports.Filter{Contains: text, Limit: 10})
		is.NoErr(err)
		for _, export := range list {
			ids = append(ids, export.ID)
		}
		return ids
	}
	is.Equal(search("cad.example/"), []int64{1})
	exec(insert + `('https://cad.example/new', '', '', 0, 0), ('https://cad.example/é', '', '', 0, 0)`)
	is.Equal(search("cad.example/"), []int64{1, 2, 3})
	is.Equal(search("example/é"), []int64{3})
	exec(`UPDATE canvasback_exports SET source_url = replace(source_url, 'new', 'changed'), id = 9 WHERE id = 2`)
	is.Equal(search("le/changed"), []int64{9})
	is.Equal(search("example/new"), nil)
	exec(`DELETE FROM canvasback_exports`)
	var left int
	is.NoErr(conn.QueryRowContext(t.Context(), `SELECT count(*) FROM canvasback_export_chunks`).Scan(&left))
	is.Equal(left, 0)
}
