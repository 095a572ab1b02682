package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// outage is a failure of the server or of its connections.
type outage struct {
	name  string
	begin func()
	end   func()

	repeat       bool          // begin, until a request fails
	readsSucceed bool          // throughout the outage
	duration     time.Duration // after the first request has failed
}

// TestStorage_RecoversFromOutages causes outages while two processes serve
// clients. All responses arrive in time, soon after each outage all requests
// succeed again, and no acknowledged write is lost or applied twice.
func TestStorage_RecoversFromOutages(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	server := pgtest.Start(t)
	// The operator can write during the read-only outage.
	operator := connect(t, server.DSN()+"&default_transaction_read_only=off&pool_max_conns=2")
	migrate(t, operator)
	execute(t, operator, `ALTER SYSTEM SET max_connections = 20`) // after the restart
	execute(t, operator, `CREATE ROLE viewer LOGIN PASSWORD 'viewer'`)
	const grantAll = `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO viewer`
	grant := func() { execute(t, operator, grantAll) }
	grant()
	// A crash must not lose acknowledged writes.
	dsn := must(url.Parse(server.DSN() + "&synchronous_commit=on&pool_max_conns=4"))(t)
	dsn.User = url.UserPassword("viewer", "viewer")
	pools := []*pgxpool.Pool{connect(t, dsn.String()), connectWith(t, dsn.String(), sendCancelRequests)}
	load := startLoad(t, serve(t, pools[0], storeTimeout), serve(t, pools[1], storeTimeout))

	held := &heldConns{t: t, dsn: server.DSN()}
	outages := []outage{
		{name: "restart", begin: server.Stop, end: server.Restart},
		{name: "crash", begin: server.Kill, end: server.Restart},
		{name: "frozen server", begin: server.Pause, end: server.Resume, duration: freezeDuration()},
		{name: "terminated sessions", repeat: true, readsSucceed: true, begin: func() {
			is.True(terminate(t, operator) > 0)
			time.Sleep(500 * time.Millisecond) // a read must not lose three connections in a row
		}, end: func() {}},
		{name: "pools exhausted", begin: func() { held.takePools(pools) }, end: held.release},
		{name: "server out of connections", repeat: true, begin: func() {
			held.takeServer() // the pools may have reconnected first
			execute(t, operator, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'viewer'`)
		}, end: held.release},
		{name: "no rights", end: grant,
			begin: func() { execute(t, operator, `REVOKE ALL ON ALL TABLES IN SCHEMA public FROM viewer`) }},
		{name: "no tables",
			begin: func() { execute(t, operator, `ALTER SCHEMA public RENAME TO away; CREATE SCHEMA public`) },
			end:   func() { execute(t, operator, `DROP SCHEMA public; ALTER SCHEMA away RENAME TO public`) }},
		{name: "read-only", readsSucceed: true,
			begin: func() { alterSystem(t, operator, `SET default_transaction_read_only = on`) },
			end:   func() { alterSystem(t, operator, `RESET default_transaction_read_only`) }},
	}
	for range testflag.Rounds(1, 1, 10) {
		for _, o := range outages {
			o.run(t, load)
		}
	}
	load.check(must(postgres.New(operator, nil))(t).Symbols())
}

// freezeDuration is how long a server is frozen after the first request has
// timed out.
func freezeDuration() time.Duration {
	if *testflag.Long {
		return 10 * time.Second
	}
	return 3 * time.Second
}

// run causes the outage, ends it, and waits until clients have recovered.
func (o outage) run(t *testing.T, load *load) {
	t.Helper()
	failedWrites := load.writes.failed.Load
	writesBefore, readsBefore := failedWrites(), load.reads.failed.Load()
	load.outageEnded.Store(0)
	o.begin()
	began := time.Now()
	for failedWrites() == writesBefore {
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: no write fails", o.name)
		}
		time.Sleep(time.Millisecond)
		if o.repeat {
			o.begin()
		}
	}
	time.Sleep(o.duration)
	o.end()
	ended := time.Now()
	load.outageEnded.Store(ended.UnixMilli())

	// Wait until clients succeed again.
	reads, writes := load.reads.succeeded.Load(), load.writes.succeeded.Load()
	for load.reads.succeeded.Load() < reads+10 || load.writes.succeeded.Load() < writes+10 {
		if time.Since(ended) > time.Minute {
			t.Fatalf("%s: no recovery", o.name)
		}
		time.Sleep(time.Millisecond)
	}
	load.waitForSteps() // they may have begun during the outage
	failedReads := load.reads.failed.Load() - readsBefore
	t.Logf("%s: %d writes and %d reads unavailable, recovered after %v",
		o.name, failedWrites()-writesBefore, failedReads, time.Since(ended).Round(time.Millisecond))
	if o.readsSucceed && failedReads > 0 {
		t.Errorf("%s: %d reads failed", o.name, failedReads)
	}
}

// sendCancelRequests makes a pool cancel the statements of calls whose context
// ends.
func sendCancelRequests(config *pgxpool.Config) {
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
}

// heldConns holds connections, so that others get none.
type heldConns struct {
	t      *testing.T
	dsn    string
	pooled []*pgxpool.Conn
	direct []*pgx.Conn
}

func (h *heldConns) takePools(pools []*pgxpool.Pool) {
	h.t.Helper()
	for _, pool := range pools {
		for range pool.Stat().MaxConns() {
			h.pooled = append(h.pooled, must(pool.Acquire(h.t.Context()))(h.t))
		}
	}
}

// takeServer opens connections until the server accepts no more.
func (h *heldConns) takeServer() {
	h.t.Helper()
	for {
		conn, err := pgx.Connect(h.t.Context(), h.dsn)
		if err != nil {
			const tooManyConnections = "53300"
			rejected, ok := errors.AsType[*pgconn.PgError](err)
			is.New(h.t).True(ok && rejected.Code == tooManyConnections)
			return
		}
		h.direct = append(h.direct, conn)
	}
}

func (h *heldConns) release() {
	for _, conn := range h.pooled {
		conn.Release()
	}
	for _, conn := range h.direct {
		conn.Close(context.Background())
	}
	h.pooled, h.direct = nil, nil
}

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
