package sqlite_test

import (
	"database/sql"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// file returns the data source name of a new database file.
func file(t testing.TB) string {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "test.db")
}

// schema returns the names and definitions of all tables, indexes and triggers.
func schema(t testing.TB, db *sql.DB) []string {
	t.Helper()
	is := is.New(t)
	rows, err := db.QueryContext(t.Context(), `
		SELECT name || ': ' || coalesce(sql, '')
		FROM sqlite_schema
		WHERE name NOT LIKE 'sqlite_%'
		ORDER BY name`)
	is.NoErr(err)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var line string
		is.NoErr(rows.Scan(&line))
		list = append(list, line)
	}
	is.NoErr(rows.Err())
	return list
}

func TestMigrate_IsIdempotent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := connect(t, file(t)+pragmas)
	db := must(sqlite.New(conn))

	pending, err := db.Pending(t.Context())
	is.NoErr(err)
	is.Equal(pending, []string{"0001_initial", "0002_key_changes", "0003_links", "0004_fact_revision", "0005_exports_admin", "0006_id_bounds", "0007_key_fields", "0008_symbol_segments", "0009_export_scan"}) // an empty database has none
	is.Equal(len(schema(t, conn)), 0)                                                                                                                                                                          // Pending has changed nothing

	is.NoErr(db.Migrate(t.Context()))
	pending, err = db.Pending(t.Context())
	is.NoErr(err)
	is.Equal(len(pending), 0)
	migrated := schema(t, conn)
	for _, line := range migrated {
		is.True(strings.HasPrefix(line, "canvasback_")) // all names have the prefix
	}

	before, err := db.Symbols().ListFolders(t.Context(), symbols.Range{})
	is.NoErr(err)
	is.NoErr(db.Migrate(t.Context()))
	is.Equal(schema(t, conn), migrated) // unchanged
	after, err := db.Symbols().ListFolders(t.Context(), symbols.Range{})
	is.NoErr(err)
	is.Equal(after, before)
}

func TestMigrate_RunsConcurrently(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := file(t) + pragmas
	errs := make([]error, 8)
	var group sync.WaitGroup
	for i := range errs {
		conn := connect(t, dsn) // a pool each, as if in several processes
		group.Go(func() { errs[i] = must(sqlite.New(conn)).Migrate(t.Context()) })
	}
	group.Wait()
	for _, err := range errs {
		is.NoErr(err)
	}
	conn := connect(t, dsn)
	var applied int
	is.NoErr(conn.QueryRowContext(t.Context(), `SELECT count(*) FROM canvasback_migrations`).Scan(&applied))
	files, err := fs.ReadDir(sqlite.Migrations, ".")
	is.NoErr(err)
	is.Equal(applied, len(files)) // each once
}

func TestMigrate_RejectsNewerSchema(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := connect(t, file(t)+pragmas)
	db := must(sqlite.New(conn))
	is.NoErr(db.Migrate(t.Context()))
	_, err := conn.ExecContext(t.Context(), `
		INSERT INTO canvasback_migrations (version, title, applied_at)
		VALUES (9999, 'from_the_future', 0)`)
	is.NoErr(err)

	is.True(db.Migrate(t.Context()) != nil)
	_, err = db.Pending(t.Context())
	is.True(err != nil)
}

// TestBaseline_RecordsMigrationsOfOtherTool applies each file as one script, as other
// tools do.
func TestBaseline_RecordsMigrationsOfOtherTool(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := connect(t, file(t)+pragmas)
	db := must(sqlite.New(conn))
	is.True(db.Baseline(t.Context()) != nil) // no tables
	names, err := db.Pending(t.Context())
	is.NoErr(err)
	for _, name := range names {
		if name <= "0008_symbol_segments" { // the last that creates a table
			is.True(db.Baseline(t.Context()) != nil)
		}
		text, err := fs.ReadFile(sqlite.Migrations, name+".sql")
		is.NoErr(err)
		_, err = conn.ExecContext(t.Context(), "-- +goose Up\n-- +goose StatementBegin\n"+string(text)+"-- +goose StatementEnd\n")
		is.NoErr(err)
	}
	for range 2 {
		is.NoErr(db.Baseline(t.Context()))
		pending, err := db.Pending(t.Context())
		is.NoErr(err)
		is.Equal(len(pending), 0)
		is.NoErr(db.Migrate(t.Context()))
	}
}
