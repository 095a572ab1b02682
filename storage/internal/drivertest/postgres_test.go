package drivertest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

var postgresDriver = driver{
	open: func(t testing.TB, parameters string) *database {
		return openPostgres(t, pgtest.Database(t)+parameters)
	},
	migrations: postgres.Migrations,
	names: []string{
		"0001_initial", "0002_key_changes", "0003_links", "0004_fact_revision", "0005_exports_admin", "0006_id_bounds",
		"0007_key_fields", "0008_symbol_segments", "0009_trigger_plans", "0010_export_scan", "0011_key_tokens",
		"0012_fence", "0013_symbol_details", "0014_link_bounds", "0015_trash", "0016_key_usage",
		"0017_tenants", "0018_tenant_segments", "0019_tenant_source",
	},

	now:   `now()`,
	later: `now() + interval '1 s'`,
	blob:  func(text string) string { return `convert_to('` + text + `', 'UTF8')` },
	insertKeys: func(from, to int) string {
		return fmt.Sprintf(`
			INSERT INTO canvasback_keys (id, name, prefix, mask, digest, active, created_at, updated_at)
			OVERRIDING SYSTEM VALUE
			SELECT n, n, '', '', convert_to(lpad(n::text, 32, '0'), 'UTF8'), true, now(), now()
			FROM generate_series(%d, %d) AS n;`, from, to)
	},
	insertExports: func(from, to int) string {
		return fmt.Sprintf(`
			INSERT INTO canvasback_exports (source_digest, source_url, exported_url, file_name, created_at, updated_at)
			SELECT sha256(convert_to(source, 'UTF8')), source, '', '', now(), now()
			FROM (SELECT 'https://cad.example/' || n AS source FROM generate_series(%d, %d) AS n) AS series`, from, to)
	},
	createMigrations: `CREATE TABLE canvasback_migrations (
		version integer PRIMARY KEY, title text NOT NULL, applied_at timestamptz(3) NOT NULL DEFAULT now())`,
	schema: `
		SELECT coalesce(string_agg(name, E'\n' ORDER BY name), '')
		FROM (
			SELECT relname || ': ' || relkind::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace
			UNION ALL
			SELECT proname || ': ' || md5(prosrc) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		) AS names`,

	sixteen:  "&pool_max_conns=16",
	sessions: []string{"&session_replication_role=origin", "&session_replication_role=replica", "&session_replication_role=local"},
	manualChanges: func(d *driver) []manualChange {
		return []manualChange{
			{`ALTER TABLE canvasback_keys ALTER COLUMN id RESTART WITH 6; UPDATE canvasback_keys SET id = DEFAULT WHERE id = 5`, []int{5, 5}},
			{d.insertKeys(1001, 2000), numbers(1001, 2000)}, // the most that is logged
			{d.insertKeys(2001, 3001), incomplete},
			{d.insertKeys(4001, 4001), []int{4001}},
			{`UPDATE canvasback_keys SET digest = ` + d.digest(0) + ` WHERE digest = ` + d.digest(4001), []int{4001, 0}},
			{`UPDATE canvasback_keys SET digest = sha256(digest)`, incomplete},
			{`UPDATE canvasback_keys SET last_used_at = now()`, none},
			{`DELETE FROM canvasback_keys`, incomplete},
			{d.insertKeys(1, 1), []int{1}},
			{`TRUNCATE canvasback_keys`, incomplete},
			{`TRUNCATE canvasback_keys`, incomplete},
			{d.insertKeys(2, 2), []int{2}},
		}
	},
	epochChanges: map[string]epochChange{
		"raised":    {`UPDATE canvasback_key_epoch SET epoch = epoch + 1`, true},
		"truncated": {`TRUNCATE canvasback_key_epoch; INSERT INTO canvasback_key_epoch DEFAULT VALUES`, false},
	},
	rowsAfterMany: 1,
	loggedKeys:    3 * maxRows,
}

func openPostgres(t testing.TB, dsn string) *database {
	is := is.New(t)
	connect := func(dsn string) *pgxpool.Pool {
		pool := must(pgxpool.New(t.Context(), dsn))(t)
		t.Cleanup(pool.Close)
		return pool
	}
	operator := connect(dsn)
	pools := []*pgxpool.Pool{operator}
	return &database{
		connect: func() handle {
			pools = append(pools, connect(dsn))
			return must(postgres.New(pools[len(pools)-1], nil))(t)
		},
		exec: func(statements string) error { return errorOf(operator.Exec(t.Context(), statements)) },
		scan: func(query string, dest any) error { return operator.QueryRow(t.Context(), query).Scan(dest) },
		prepare: func(statement string) func() error {
			conn := must(operator.Acquire(t.Context()))(t)
			t.Cleanup(conn.Release)
			prepared := must(conn.Conn().Prepare(t.Context(), "prepared", statement))(t)
			return func() error { _, err := conn.Exec(t.Context(), prepared.Name); return err }
		},
		copy: func() *database {
			name := operator.Config().ConnConfig.Database
			for _, pool := range pools {
				pool.Reset() // PostgreSQL waits until the database is not in use
			}
			other := connect(pgtest.Database(t))
			must(other.Exec(t.Context(), `CREATE DATABASE `+name+`_copy TEMPLATE `+name))(t)
			t.Cleanup(func() {
				must(other.Exec(context.Background(), `DROP DATABASE `+name+`_copy WITH (FORCE)`))(t)
			})
			return openPostgres(t, strings.ReplaceAll(dsn, name, name+"_copy"))
		},
		plainInsert: func() func(int64, symbols.Symbol) error {
			_, err := operator.Exec(t.Context(), `
				CREATE TABLE plain (LIKE canvasback_symbols INCLUDING IDENTITY INCLUDING INDEXES INCLUDING STORAGE INCLUDING DEFAULTS);
				ALTER TABLE plain SET (toast_tuple_target = 8160)`)
			is.NoErr(err)
			return func(folderID int64, symbol symbols.Symbol) error {
				_, err := operator.Exec(t.Context(), `INSERT INTO plain (folder_id, name, type, data) VALUES ($1, $2, $3, $4)`,
					folderID, symbol.Name, symbol.Type, symbol.Data)
				return err
			}
		},
	}
}
