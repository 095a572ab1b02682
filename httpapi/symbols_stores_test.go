package httpapi_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"
	_ "modernc.org/sqlite"

	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// symbolStores return a function that connects to a database of each driver as a
// process does, with a number of database connections.
var symbolStores = map[string]func(t *testing.T, connections int) (connect func() symbols.Store){
	"memory": func(*testing.T, int) func() symbols.Store {
		store := &hookedStore{Store: memory.New().Symbols()}
		return func() symbols.Store { return store }
	},
	"sqlite": func(t *testing.T, connections int) func() symbols.Store {
		name := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)"
		return func() symbols.Store {
			pool := must(sql.Open("sqlite", name))
			t.Cleanup(func() { pool.Close() })
			pool.SetMaxOpenConns(connections)
			db := must(sqlite.New(pool))
			is.New(t).NoErr(db.Migrate(t.Context()))
			return db.Symbols()
		}
	},
	"postgres": func(t *testing.T, connections int) func() symbols.Store {
		url := pgtest.Database(t)
		return func() symbols.Store {
			config := must(pgxpool.ParseConfig(url))
			config.MaxConns = int32(connections)
			pool := must(pgxpool.NewWithConfig(t.Context(), config))
			t.Cleanup(pool.Close)
			db := must(postgres.New(pool, nil))
			is.New(t).NoErr(db.Migrate(t.Context()))
			return db.Symbols()
		}
	},
}
