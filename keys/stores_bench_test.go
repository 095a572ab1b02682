package keys_test

import (
	"database/sql"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"
	_ "modernc.org/sqlite"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/sqlite"
)

// issueMany returns keys that no database has yet, and their raw keys.
func issueMany(tb testing.TB, n int) (list []keys.Key, raws []string) {
	s := newService(tb, memory.New().Keys(), nil)
	for range n {
		issued := issue(tb, s, keys.Fields{})
		list, raws = append(list, issued.Key), append(raws, string(issued.Raw))
	}
	return list, raws
}

// openPostgres returns a store with its own pool.
func openPostgres(tb testing.TB, dsn string) keys.Store {
	is := is.New(tb)
	is.Helper()
	pool, err := pgxpool.New(tb.Context(), dsn)
	is.NoErr(err)
	tb.Cleanup(pool.Close)
	db, err := postgres.New(pool, nil)
	is.NoErr(err)
	is.NoErr(db.Migrate(tb.Context()))
	return db.Keys()
}

// openSQLite returns a store with its own pool.
func openSQLite(tb testing.TB, file string) keys.Store {
	is := is.New(tb)
	is.Helper()
	pool, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	is.NoErr(err)
	tb.Cleanup(func() { pool.Close() })
	pool.SetMaxOpenConns(3)
	db, err := sqlite.New(pool)
	is.NoErr(err)
	is.NoErr(db.Migrate(tb.Context()))
	return db.Keys()
}

// openers open an empty store of each database.
var openers = map[string]func(testing.TB) keys.Store{
	"memory":   func(testing.TB) keys.Store { return memory.New().Keys() },
	"sqlite":   func(tb testing.TB) keys.Store { return openSQLite(tb, filepath.Join(tb.TempDir(), "keys.db")) },
	"postgres": func(tb testing.TB) keys.Store { return openPostgres(tb, pgtest.Database(tb)) },
}

// fill adds keys to a store.
func fill(tb testing.TB, store keys.Store, list []keys.Key) {
	for part := range slices.Chunk(list, 1000) {
		_, err := store.Import(tb.Context(), part)
		is.New(tb).NoErr(err)
	}
}

func randomKey() keys.Key {
	key := keys.Key{Name: "key", Active: true, CreatedAt: testTime, UpdatedAt: testTime}
	for i := range key.Digest {
		key.Digest[i] = byte(rand.Uint32())
	}
	return key
}

// BenchmarkVerify_MoreKeysThanCache checks 100,000 keys in turn, of which the
// cache holds 65,536, and compares that with the store's own reads of them.
func BenchmarkVerify_MoreKeysThanCache(b *testing.B) {
	count := 100_000
	if testing.Short() {
		count = 1000 // to check that it runs
	}
	list, raws := issueMany(b, count)
	for name, open := range openers {
		b.Run(name, func(b *testing.B) {
			is := is.New(b)
			store := open(b)
			fill(b, store, list)
			s := startService(b, store, nil)
			waitForLease(s)
			for _, raw := range raws {
				_, err := s.Verify(b.Context(), raw)
				is.NoErr(err)
			}
			compareWithRead(b, s, store, list, raws)
		})
	}
}
