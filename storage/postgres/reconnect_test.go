package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// fillPool opens n connections of a pool and leaves them idle.
func fillPool(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	for range n {
		conn := must(pool.Acquire(t.Context()))(t)
		defer conn.Release()
	}
}

// otherSessions selects the sessions of the database except the current one.
const otherSessions = `
	FROM pg_stat_activity
	WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`

// count runs a query for a number.
func count(t testing.TB, pool *pgxpool.Pool, query string, args ...any) (n int) {
	t.Helper()
	is.New(t).NoErr(pool.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// terminate ends the other sessions of the database and returns their number.
func terminate(t testing.TB, operator *pgxpool.Pool) int {
	t.Helper()
	return count(t, operator, `SELECT count(pg_terminate_backend(pid))`+otherSessions)
}

// A call that gets a dead connection succeeds with another one, unless it may
// already have changed something.
func TestStorage_ReconnectsAfterLostConnections(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	const connections = 8
	for name, test := range map[string]struct {
		call    func(*testing.T, *postgres.DB) error
		mayFail bool // because the outcome is unknown
	}{
		"a read of one row": {func(t *testing.T, db *postgres.DB) error {
			return errorOf(db.Symbols().GetFolder(t.Context(), 1))
		}, false},
		"a read of many rows": {func(t *testing.T, db *postgres.DB) error {
			return errorOf(db.Symbols().ListFolders(t.Context(), symbols.Range{}))
		}, false},
		"a transaction": {func(t *testing.T, db *postgres.DB) error {
			return errorOf(storagetest.UpdateKey(t.Context(), db.Keys(), 1, func(*keys.Key) error { return nil }))
		}, false},
		"a statement that writes": {func(t *testing.T, db *postgres.DB) error {
			return errorOf(db.Symbols().InsertSymbols(t.Context(), 1, make([]symbols.Symbol, 1)))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dsn := pgtest.Database(t)
			operator, pool := connect(t, dsn), connect(t, dsn+"&pool_max_conns=8")
			db := migrate(t, pool)
			must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
			must(db.Keys().Insert(t.Context(), keys.Key{CreatedAt: time.Now(), UpdatedAt: time.Now()}))(t)
			for range 3 {
				fillPool(t, pool, connections)
				is.Equal(terminate(t, operator), connections)
				eventually(t, 0, func() int { return count(t, operator, `SELECT count(*)`+otherSessions) })
				err := test.call(t, db)
				is.True(err == nil || test.mayFail)
				for range 2 * connections { // no dead connection is left
					is.NoErr(test.call(t, db))
				}
			}
		})
	}
}

// On a busy server, terminated connections die one after another: the next query may
// lose one that has just responded to a ping.
func TestStorage_RetriesOnNewConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	operator, doomed := connect(t, dsn), make(map[uint32]bool) // connections by process id
	pool := connectWith(t, dsn+"&pool_max_conns=8", traced(func(conn *pgx.Conn, data pgx.TraceQueryStartData) {
		if pid := conn.PgConn().PID(); doomed[pid] && data.SQL != "-- ping" {
			execute(t, operator, fmt.Sprintf(`SELECT pg_terminate_backend(%d, 60000)`, pid))
		}
	}))
	db := migrate(t, pool)
	fillPool(t, pool, 8)
	for _, conn := range pool.AcquireAllIdle(t.Context()) {
		doomed[conn.Conn().PgConn().PID()] = true
		conn.Release()
	}
	is.Equal(len(doomed), 8)
	must(db.Symbols().ListFolders(t.Context(), symbols.Range{}))(t)
}
