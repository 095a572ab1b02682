package drivertest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/matryer/is"
	_ "modernc.org/sqlite"

	"example.com/canvasback/storage/sqlite"
)

var sqliteDriver = driver{
	open: func(t testing.TB) *database {
		dsn := "file:" + filepath.Join(t.TempDir(), "test.db") +
			"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
		connect := func() *sql.DB {
			pool, err := sql.Open("sqlite", dsn)
			is.New(t).NoErr(err)
			t.Cleanup(func() { pool.Close() })
			return pool
		}
		operator := connect()
		return &database{
			connect: func() handle { return must(sqlite.New(connect())) },
			exec: func(statements string) error {
				_, err := operator.ExecContext(t.Context(), statements)
				return err
			},
			scan: func(query string, dest any) error { return operator.QueryRowContext(t.Context(), query).Scan(dest) },
		}
	},
	migrations: sqlite.Migrations,

	now:              `1`,
	blob:             func(text string) string { return `CAST('` + text + `' AS BLOB)` },
	createMigrations: `CREATE TABLE canvasback_migrations (version INTEGER PRIMARY KEY, title TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`,
	insertExports: func(from, to int) string {
		return `
			INSERT INTO canvasback_exports (source_url, exported_url, file_name, created_at, updated_at)
			SELECT 'https://cad.example/' || n, '', '', 1, 1
			FROM ` + sqliteSeries(from, to)
	},
}

// sqliteSeries returns a table with the numbers in a column n.
func sqliteSeries(from, to int) string {
	return fmt.Sprintf(`(
		WITH RECURSIVE series (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM series WHERE n < %d)
		SELECT n
		FROM series
	)`, from, to)
}
