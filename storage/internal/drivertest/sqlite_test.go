package drivertest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/matryer/is"
	_ "modernc.org/sqlite"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

var sqliteDriver = driver{
	open: func(t testing.TB, parameters string) *database {
		return openSQLite(t, filepath.Join(t.TempDir(), "test.db"), parameters)
	},
	migrations: sqlite.Migrations,
	names: []string{
		"0001_initial", "0002_key_changes", "0003_links", "0004_fact_revision", "0005_exports_admin", "0006_id_bounds",
		"0007_key_fields", "0008_symbol_segments", "0009_export_scan", "0010_key_tokens",
		"0011_symbol_details", "0012_link_bounds", "0013_trash", "0014_key_usage",
		"0015_tenants", "0016_single_writes", "0017_tenant_segments", "0018_restored_folders",
	},

	now:   `1`,
	later: `2`,
	blob:  func(text string) string { return `CAST('` + text + `' AS BLOB)` },
	insertKeys: func(from, to int) string {
		return `
			INSERT INTO canvasback_keys (id, name, prefix, mask, digest, active, created_at, updated_at)
			SELECT n, n, '', '', CAST(printf('%032d', n) AS BLOB), 1, 0, 0
			FROM ` + sqliteSeries(from, to) + `;`
	},
	insertExports: func(from, to int) string {
		return `
			INSERT INTO canvasback_exports (source_url, exported_url, file_name, created_at, updated_at)
			SELECT 'https://cad.example/' || n, '', '', 1, 1
			FROM ` + sqliteSeries(from, to)
	},
	createMigrations: `CREATE TABLE canvasback_migrations (version INTEGER PRIMARY KEY, title TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`,
	schema: `
		SELECT coalesce(group_concat(name || ': ' || replace(coalesce(sql, ''), char(10), ' '), char(10) ORDER BY name), '')
		FROM sqlite_schema
		WHERE name NOT LIKE 'sqlite_%'`,

	sessions: []string{"&_pragma=recursive_triggers(0)", "&_pragma=recursive_triggers(1)"},
	manualChanges: func(d *driver) []manualChange {
		insert := `INTO canvasback_keys (id, name, prefix, mask, digest, active, created_at, updated_at) `
		values := func(id, digest int) string {
			return fmt.Sprintf(`VALUES (%d, '', '', '', %s, 1, 0, 0)`, id, d.digest(digest))
		}
		return []manualChange{
			{`UPDATE canvasback_keys SET previous_digest = ` + d.digest(22) + `, previous_expires_at = 1 WHERE id = 2`, []int{2, 22}},
			{`UPDATE canvasback_keys SET id = 26 WHERE id = 2`, []int{2, 22}},
			{`UPDATE OR REPLACE canvasback_keys SET id = 2 WHERE id = 26`, []int{2, 22}},
			{`UPDATE OR REPLACE canvasback_keys SET digest = (SELECT digest FROM canvasback_keys WHERE id = 2) WHERE id = 1`, []int{1, 2, 22}},
			{`DELETE FROM canvasback_keys WHERE id = 1;` + d.insertKeys(1, 2), []int{1, 2}},
			{`UPDATE canvasback_keys SET id = 25 WHERE id = 5`, []int{5}},
			{d.insertKeys(7, 8), []int{7, 8}},
			{`INSERT ` + insert + values(0, 7) + ` ON CONFLICT (digest) DO UPDATE SET active = 0`, []int{7}},
			{`REPLACE ` + insert + values(7, 17), []int{7, 17}}, // the same id
			{`REPLACE ` + insert + values(27, 17), []int{17}},   // the same digest
			{`REPLACE ` + insert + values(27, 8), []int{17, 8}}, // both
			{`REPLACE ` + insert + values(27, 8), []int{8}},     // the same key
			{`UPDATE OR REPLACE canvasback_keys SET id = 4 WHERE id = 3`, []int{3, 4}},
			{`UPDATE OR REPLACE canvasback_keys SET digest = (SELECT digest FROM canvasback_keys WHERE id = 25) WHERE id = 4`, []int{3, 5}},
			{`DELETE FROM canvasback_keys`, []int{1, 2, 5, 8}},
		}
	},
	epochChanges:   map[string]epochChange{"raised": {`UPDATE canvasback_key_epoch SET epoch = epoch + 1`, false}},
	repeatsDigests: true,
	rowsAfterMany:  maxRows,
	loggedKeys:     maxRows + 2000, // with the race detector, a key takes 2 ms
}

// sqliteSeries returns a table with the numbers in a column n.
func sqliteSeries(from, to int) string {
	return fmt.Sprintf(`(
		WITH RECURSIVE series (n) AS (SELECT %d WHERE %[1]d <= %d UNION ALL SELECT n + 1 FROM series WHERE n < %[2]d)
		SELECT n
		FROM series
	)`, from, to)
}

func openSQLite(t testing.TB, file, parameters string) *database {
	is := is.New(t)
	connect := func() *sql.DB {
		pool, err := sql.Open("sqlite", "file:"+file+
			"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"+parameters)
		is.NoErr(err)
		t.Cleanup(func() { pool.Close() })
		return pool
	}
	operator := connect()
	exec := func(statements string) error { return errorOf(operator.ExecContext(t.Context(), statements)) }
	return &database{
		connect: func() handle { return must(sqlite.New(connect()))(t) },
		exec:    exec,
		scan:    func(query string, dest any) error { return operator.QueryRowContext(t.Context(), query).Scan(dest) },
		prepare: func(statement string) func() error {
			prepared := must(operator.PrepareContext(t.Context(), statement))(t)
			t.Cleanup(func() { prepared.Close() })
			return func() error { _, err := prepared.ExecContext(t.Context()); return err }
		},
		copy: func() *database {
			name := filepath.Join(t.TempDir(), "copy.db")
			is.NoErr(exec(`VACUUM INTO '` + name + `'`))
			return openSQLite(t, name, parameters)
		},
		plainInsert: func() func(int64, symbols.Symbol) error {
			is.NoErr(exec(`
				CREATE TABLE plain (id INTEGER PRIMARY KEY AUTOINCREMENT, folder_id INTEGER, version INTEGER, name TEXT, type TEXT, data TEXT) STRICT;
				CREATE INDEX plain_folder_id ON plain (folder_id)`))
			insert, err := operator.PrepareContext(t.Context(), `INSERT INTO plain (folder_id, version, name, type, data) VALUES (?, 1, ?, ?, ?)`)
			is.NoErr(err)
			t.Cleanup(func() { insert.Close() })
			var writer sync.Mutex
			return func(folderID int64, symbol symbols.Symbol) error {
				writer.Lock()
				defer writer.Unlock()
				return errorOf(insert.ExecContext(t.Context(), folderID, symbol.Name, symbol.Type, symbol.Data))
			}
		},
	}
}
