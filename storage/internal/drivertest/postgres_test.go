package drivertest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
)

var postgresDriver = driver{
	open: func(t testing.TB) *database {
		dsn := pgtest.Database(t)
		connect := func() *pgxpool.Pool {
			pool, err := pgxpool.New(t.Context(), dsn)
			is.New(t).NoErr(err)
			t.Cleanup(pool.Close)
			return pool
		}
		operator := connect()
		return &database{
			connect: func() handle { return must(postgres.New(connect(), nil)) },
			exec: func(statements string) error {
				_, err := operator.Exec(t.Context(), statements)
				return err
			},
			scan: func(query string, dest any) error { return operator.QueryRow(t.Context(), query).Scan(dest) },
		}
	},
	migrations: postgres.Migrations,

	now:  `now()`,
	blob: func(text string) string { return `convert_to('` + text + `', 'UTF8')` },
	createMigrations: `CREATE TABLE canvasback_migrations (
		version integer PRIMARY KEY, title text NOT NULL, applied_at timestamptz(3) NOT NULL DEFAULT now())`,
	insertExports: func(from, to int) string {
		return fmt.Sprintf(`
			INSERT INTO canvasback_exports (source_digest, source_url, exported_url, file_name, created_at, updated_at)
			SELECT sha256(convert_to(source, 'UTF8')), source, '', '', now(), now()
			FROM (SELECT 'https://cad.example/' || n AS source FROM generate_series(%d, %d) AS n) AS series`, from, to)
	},
}
