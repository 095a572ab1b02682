package postgres_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"
)

// fault is something that happens to a server.
type fault struct {
	name  string
	begin func()
	end   func()

	reads bool          // they go on all the while
	lasts time.Duration // after it is felt
}

// TestFaults disturbs a server in all ways while two processes serve clients.
// All requests are answered in time, soon after each fault all are carried out
// again, and nothing that was acknowledged is lost or there twice.
func TestFaults(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server := pgtest.Start(t)
	// A server that crashes must not lose what it has acknowledged, and an
	// operator may write where others may not.
	operator := connect(t, server.DSN()+"&default_transaction_read_only=off&pool_max_conns=2")
	is.NoErr(postgres.New(operator, nil).Migrate(t.Context()))
	execute(t, operator, `ALTER SYSTEM SET max_connections = 20`) // from the restart on
	execute(t, operator, `CREATE ROLE viewer LOGIN PASSWORD 'viewer'`)
	grant := func() {
		execute(t, operator, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO viewer`)
	}
	grant()
	address, err := url.Parse(server.DSN() + "&synchronous_commit=on&pool_max_conns=4")
	is.NoErr(err)
	address.User = url.UserPassword("viewer", "viewer")
	pools := []*pgxpool.Pool{connect(t, address.String()), connectCanceling(t, address.String())}
	load := startLoad(t, serve(t, pools[0], storeTimeout), serve(t, pools[1], storeTimeout))

	h := &hog{t: t, dsn: server.DSN()}
	faults := []fault{
		{name: "restart", begin: server.Stop, end: server.Restart},
		{name: "crash", begin: server.Kill, end: server.Restart},
		{name: "standstill", begin: server.Pause, end: server.Resume, lasts: standstill()},
		{name: "terminated sessions", reads: true, begin: func() {
			for before := load.writes.bad.Load(); load.writes.bad.Load() == before; {
				is.True(terminate(t, operator) > 0)
				time.Sleep(500 * time.Millisecond) // no read is to meet this time and again
			}
		}, end: func() {}},
		{name: "pools exhausted", begin: func() { h.pools(pools) }, end: h.letGo},
		{name: "no connection left", begin: func() { h.server(operator) }, end: h.letGo},
		{name: "no rights", begin: func() {
			execute(t, operator, `REVOKE ALL ON ALL TABLES IN SCHEMA public FROM viewer`)
		}, end: grant},
		{name: "no tables", begin: func() {
			execute(t, operator, `ALTER SCHEMA public RENAME TO away; CREATE SCHEMA public`)
		}, end: func() {
			execute(t, operator, `DROP SCHEMA public; ALTER SCHEMA away RENAME TO public`)
		}},
		{name: "read-only", reads: true, begin: func() {
			execute(t, operator, `ALTER SYSTEM SET default_transaction_read_only = on`)
			execute(t, operator, `SELECT pg_reload_conf()`)
		}, end: func() {
			execute(t, operator, `ALTER SYSTEM RESET default_transaction_read_only`)
			execute(t, operator, `SELECT pg_reload_conf()`)
		}},
	}
	rounds := 1
	if storagetest.Long() {
		rounds = 10
	}
	for range rounds {
		for _, f := range faults {
			f.happen(t, load)
		}
	}
	load.check(postgres.New(operator, nil).Symbols())
}

// standstill is how long a server stands still after the first request has
// timed out.
func standstill() time.Duration {
	if storagetest.Long() {
		return 10 * time.Second
	}
	return 3 * time.Second
}

// happen makes a fault begin and end, and waits until it is not felt any more.
func (f fault) happen(t *testing.T, load *load) {
	t.Helper()
	felt := load.writes.bad.Load
	before, readsBefore := felt(), load.reads.bad.Load()
	load.ended.Store(0)
	f.begin()
	began := time.Now()
	for felt() == before {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%s: not felt", f.name)
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(f.lasts)
	f.end()
	ended := time.Now()
	load.ended.Store(ended.UnixMilli())

	// All clients have been served since.
	reads, writes := load.reads.good.Load(), load.writes.good.Load()
	for load.reads.good.Load() < reads+10 || load.writes.good.Load() < writes+10 {
		if time.Since(ended) > 20*time.Second {
			t.Fatalf("%s: no recovery", f.name)
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("%s: %d writes and %d reads unavailable, %v after it had ended all is well",
		f.name, felt()-before, load.reads.bad.Load()-readsBefore, time.Since(ended).Round(time.Millisecond))
	if n := load.reads.bad.Load() - readsBefore; f.reads && n > 0 {
		t.Errorf("%s: %d reads were not carried out", f.name, n)
	}
}

// connectCanceling opens a pool that cancels the statements of calls that give
// up, as standalone does.
func connectCanceling(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// hog takes connections away.
type hog struct {
	t      *testing.T
	dsn    string
	taken  []*pgxpool.Conn
	opened []*pgx.Conn
}

// pools takes all connections of the pools.
func (h *hog) pools(pools []*pgxpool.Pool) {
	h.t.Helper()
	for _, pool := range pools {
		for range pool.Stat().MaxConns() {
			conn, err := pool.Acquire(h.t.Context())
			if err != nil {
				h.t.Fatal(err)
			}
			h.taken = append(h.taken, conn)
		}
	}
}

// server takes all connections that the server has.
func (h *hog) server(operator *pgxpool.Pool) {
	h.t.Helper()
	for missed := 0; missed < 3; { // the others may have come first
		conn, err := pgx.Connect(h.t.Context(), h.dsn)
		if err == nil {
			h.opened = append(h.opened, conn)
			continue
		}
		missed++
		terminate(h.t, operator)
	}
}

func (h *hog) letGo() {
	for _, conn := range h.taken {
		conn.Release()
	}
	for _, conn := range h.opened {
		conn.Close(context.Background())
	}
	h.taken, h.opened = nil, nil
}
