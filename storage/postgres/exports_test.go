package postgres_test

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
)

// Searches find exports from before the index, and those of statements run by hand.
func TestSchema_ExportIndexTracksManualStatements(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	execute(t, pool, `CREATE TABLE canvasback_migrations (version integer PRIMARY KEY, title text NOT NULL, applied_at timestamptz(3) NOT NULL DEFAULT now())`)
	for i, name := range []string{"0001_initial", "0002_key_changes", "0003_links", "0004_fact_revision"} {
		text, err := fs.ReadFile(postgres.Migrations, name+".sql")
		is.NoErr(err)
		execute(t, pool, string(text)+fmt.Sprintf(`; INSERT INTO canvasback_migrations (version, title) VALUES (%d, '%s')`, i+1, name))
	}
	insert := func(sources string) string {
		return `INSERT INTO canvasback_exports (source_digest, source_url, exported_url, file_name, created_at, updated_at)
			SELECT sha256(convert_to(source, 'UTF8')), source, '', '', now(), now() FROM (VALUES ` + sources + `) AS given (source)`
	}
	execute(t, pool, insert(`('https://cad.example/old')`))
	db := must(postgres.New(pool, nil))
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
	execute(t, pool, insert(`('https://cad.example/new'), ('https://cad.example/é')`))
	is.Equal(search("cad.example/"), []int64{1, 2, 3})
	is.Equal(search("example/é"), []int64{3})
	execute(t, pool, `UPDATE canvasback_exports SET source_url = 'https://cad.example/changed',
		source_digest = sha256('https://cad.example/changed') WHERE id = 2`)
	is.Equal(search("le/changed"), []int64{2})
	is.Equal(search("example/new"), nil)
	execute(t, pool, `DELETE FROM canvasback_exports WHERE id = 2`)
	is.Equal(search("le/changed"), nil)
	execute(t, pool, `TRUNCATE canvasback_exports`)
	is.Equal(search("cad.example/"), nil)
	var left int
	is.NoErr(pool.QueryRow(t.Context(), `SELECT count(*) FROM canvasback_export_chunks`).Scan(&left))
	is.Equal(left, 0)
}
