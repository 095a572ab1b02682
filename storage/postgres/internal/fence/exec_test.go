package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/storage/postgres/internal/fence"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

// connect opens a pool that is closed at the end of the test.
func connect(t *testing.T, dsn string, configure func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config := must(pgxpool.ParseConfig(dsn))(t)
	if configure != nil {
		configure(config)
	}
	pool := must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

func execute(t *testing.T, pool *pgxpool.Pool, statements string) {
	t.Helper()
	must(pool.Exec(t.Context(), statements))(t)
}

// newFence returns a Fence for the connections of a pool.
func newFence(pool *pgxpool.Pool, mode fence.Mode) *fence.Fence {
	prepare := pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	return fence.New(fence.Options{Mode: mode, Prepare: prepare, Table: "shared", Logger: slog.New(slog.DiscardHandler)})
}

// createItems creates the table of the statements below.
const createItems = `CREATE TABLE items (id bigint, name varchar); INSERT INTO items VALUES (1, 'one'), (2, '')`

const (
	readItem   = `SELECT id, name FROM items WHERE id = $1`
	renameItem = `UPDATE items SET name = name WHERE id = $1 RETURNING id, name`
	lockItem   = `SELECT FROM items WHERE id = $1 FOR UPDATE`
)

// scanItem executes a statement and scans its row. It returns no error if there is none.
func scanItem(ctx context.Context, f *fence.Fence, conn *pgx.Conn, s fence.Statement) (id int64, name string, err error) {
	result, err := f.Exec(ctx, conn, s)
	if err == nil && len(result.Rows) > 0 {
		err = result.Scan(&id, &name)
	}
	return id, name, err
}

// transact locks an item and commits.
func transact(ctx context.Context, f *fence.Fence, conn *pgx.Conn, id int64) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, lockItem, id); err != nil {
		return err
	}
	return errorOf(f.Exec(ctx, conn, fence.Commit))
}

// callAll makes all kinds of calls at once, each for an item that exists and one that
// does not, and returns their errors.
func callAll(t *testing.T, pool *pgxpool.Pool, timeout time.Duration) []error {
	errs := make([]error, 6)
	f := newFence(pool, fence.Auto)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var calling sync.WaitGroup
	for i := range errs {
		calling.Go(func() {
			errs[i] = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
				id := int64(1 + 98*(i%2))
				statement := fence.Statement{Text: readItem, Args: []any{id}, Read: true}
				switch i / 2 {
				case 0:
				case 1:
					statement = fence.Statement{Text: renameItem, Args: []any{id}}
				default:
					return transact(ctx, f, c.Conn(), id)
				}
				_, _, err := scanItem(ctx, f, c.Conn(), statement)
				return err
			})
		})
	}
	calling.Wait()
	return errs
}

// TestExec_WaitsForStandby checks that no statement succeeds while the standby is lost,
// whatever the settings of the session, and although waits are canceled.
func TestExec_WaitsForStandby(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	pair := pgtest.StartPair(t)
	operator := connect(t, pair.Primary.DSN()+"&synchronous_commit=local", nil)
	execute(t, operator, createItems)
	cancelRequests := func(config *pgxpool.Config) {
		config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
		}
	}
	const waiting = ` FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
	for _, test := range []struct {
		name      string
		settings  string
		configure func(*pgxpool.Config)
		statement string // that the operator runs meanwhile
	}{
		{name: "asynchronous", settings: "&synchronous_commit=off"},
		{name: "local, simple protocol", settings: "&synchronous_commit=local&default_query_exec_mode=simple_protocol"},
		{name: "remote write, exec mode", settings: "&synchronous_commit=remote_write&default_query_exec_mode=exec"},
		{name: "remote apply, serializable", settings: "&synchronous_commit=remote_apply&default_transaction_isolation=serializable"},
		{name: "short timeouts", settings: "&statement_timeout=100ms&idle_in_transaction_session_timeout=250ms"},
		{name: "context sends cancel request", settings: "&client_min_messages=error", configure: cancelRequests},
		{name: "operator cancels", settings: "&client_min_messages=error", statement: `SELECT count(pg_cancel_backend(pid))` + waiting},
		{name: "operator terminates", statement: `SELECT count(pg_terminate_backend(pid))` + waiting},
	} {
		t.Run(test.name, func(t *testing.T) {
			is := is.New(t)
			pool := connect(t, pair.Primary.DSN()+test.settings+"&pool_max_conns=10", test.configure)
			wantSuccess := func() {
				t.Helper()
				for began := time.Now(); ; { // the first calls after an outage get dead connections
					err := errors.Join(callAll(t, pool, 20*time.Second)...)
					if err == nil {
						return
					}
					if time.Since(began) > 30*time.Second {
						t.Fatal(err)
					}
				}
			}
			wantSuccess()
			pair.Standby.Pause()
			timeout := 300 * time.Millisecond
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			if test.statement != "" {
				timeout = 30 * time.Second
				running.Go(func() {
					for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
						execute(t, operator, test.statement)
					}
				})
			}
			for _, err := range callAll(t, pool, timeout) {
				is.True(err != nil)
			}
			stop()
			running.Wait()
			pair.Standby.Resume()
			wantSuccess()
		})
	}
}

// acquire returns a connection to a server without a standby.
func acquire(t *testing.T) (*pgxpool.Pool, *pgx.Conn) {
	t.Helper()
	pool := connect(t, pgtest.Database(t), nil)
	execute(t, pool, createItems)
	conn := must(pool.Acquire(t.Context()))(t)
	t.Cleanup(conn.Release)
	return pool, conn.Conn()
}

func TestExec_ScansRow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, conn := acquire(t)
	for _, mode := range []fence.Mode{fence.Auto, fence.Always, fence.Never} {
		f := newFence(pool, mode)
		for _, s := range []fence.Statement{{Text: readItem, Read: true}, {Text: renameItem}} {
			s.Args = []any{int64(1)}
			id, name, err := scanItem(t.Context(), f, conn, s)
			is.NoErr(err)
			is.Equal(id, int64(1))
			is.Equal(name, "one")
			s.Args = []any{int64(2)}
			_, name, err = scanItem(t.Context(), f, conn, s)
			is.NoErr(err)
			is.Equal(name, "") // not NULL
			s.Args = []any{int64(99)}
			is.True(errors.Is(must(f.Exec(t.Context(), conn, s))(t).Scan(&id, &name), pgx.ErrNoRows))
			s.Args = []any{int64(1)}
			result := must(f.Exec(t.Context(), conn, s))(t)
			is.Equal(len(result.Rows), 1)
			is.True(result.Scan(&id, new(int)) != nil) // not a number
			result, err = f.Exec(t.Context(), conn, fence.Statement{Text: `SELECT $1::bytea, NULL`, Args: []any{[]byte{0, 1, 255}}, Read: true})
			is.NoErr(err)
			var (
				bytes []byte
				null  *string
			)
			is.NoErr(result.Scan(&bytes, &null))
			is.Equal(bytes, []byte{0, 1, 255})
			is.Equal(null, nil)
		}
		result := must(f.Exec(t.Context(), conn, fence.Statement{Text: `UPDATE items SET name = name`}))(t)
		is.Equal(result.Tag.RowsAffected(), int64(2))
	}
}

type countingTracer struct{ started, ended int }

func (c *countingTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.started++
	return ctx
}

func (c *countingTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { c.ended++ }

func TestExec_CallsTracer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, conn := acquire(t)
	tracer := new(countingTracer)
	f := fence.New(fence.Options{Tracer: tracer, Logger: slog.New(slog.DiscardHandler)})
	must(f.Exec(t.Context(), conn, fence.Statement{Text: readItem, Args: []any{int64(1)}, Read: true}))(t)
	is.Equal(*tracer, countingTracer{1, 1})
}

// TestExec_DiscardsPreparedStatements uses more statements than a connection keeps.
func TestExec_DiscardsPreparedStatements(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, conn := acquire(t)
	f := newFence(pool, fence.Auto)
	for i := range 1200 {
		must(f.Exec(t.Context(), conn, fence.Statement{Text: fmt.Sprint(`SELECT `, i), Read: true}))(t)
	}
	var prepared int
	is.NoErr(conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_prepared_statements`).Scan(&prepared))
	is.True(prepared > 100 && prepared <= 513) // that of this query too
}

// TestExec_IgnoresOutputSettings reads values whose text another application has changed by
// settings, with and without prepared statements.
func TestExec_IgnoresOutputSettings(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, conn := acquire(t)
	must(conn.Exec(t.Context(), `SET bytea_output = escape`))(t)
	must(conn.Exec(t.Context(), `SET DateStyle = German`))(t)
	for _, prepare := range []bool{true, false} {
		f := fence.New(fence.Options{Prepare: prepare, Table: "shared", Logger: slog.New(slog.DiscardHandler)})
		var digest []byte
		var at time.Time
		result, err := f.Exec(t.Context(), conn, fence.Statement{Text: `SELECT '\xc80102'::bytea, to_timestamp(1)`, Read: true})
		is.NoErr(err)
		is.NoErr(result.Scan(&digest, &at))
		is.Equal(digest, []byte{200, 1, 2})
		is.Equal(at.Unix(), int64(1))
	}
}

// prepareMany prepares as many statements as a connection keeps, without the last few.
func prepareMany(t *testing.T, f *fence.Fence, conn *pgx.Conn, without int) {
	t.Helper()
	for i := range 511 - without { // and one that reads the role of the server
		must(f.Exec(t.Context(), conn, fence.Statement{Text: fmt.Sprint(`SELECT `, i), Read: true}))(t)
	}
}

// TestAsk_KeepsItsStatement prepares another first statement than Exec when there is room
// for one only.
func TestAsk_KeepsItsStatement(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, conn := acquire(t)
	createShared(t, pool)
	f := newFence(pool, fence.Auto)
	prepareMany(t, f, conn, 1)
	_, _, err := f.Ask(t.Context(), conn, fence.Statement{Text: readItem, Args: []any{int64(1)}, Read: true})
	is.NoErr(err)
}

// TestExec_FailureAfterDiscard checks that the discarded statements are prepared again.
func TestExec_FailureAfterDiscard(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, conn := acquire(t)
	f := newFence(pool, fence.Auto)
	prepareMany(t, f, conn, 0)
	is.True(errorOf(f.Exec(t.Context(), conn, fence.Statement{Text: `SELECT FROM missing`, Read: true})) != nil)
	must(f.Exec(t.Context(), conn, fence.Statement{Text: `SELECT 1`, Read: true}))(t)
}

func TestExec_CommitReportsRollback(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, conn := acquire(t)
	f := newFence(pool, fence.Always)
	for _, fails := range []bool{false, true} {
		tx := must(conn.Begin(t.Context()))(t)
		must(tx.Exec(t.Context(), `UPDATE items SET name = 'new' WHERE id = 1`))(t)
		if fails {
			is.True(errorOf(tx.Exec(t.Context(), `SELECT 1 / 0`)) != nil)
		}
		is.Equal(errorOf(f.Exec(t.Context(), conn, fence.Commit)) != nil, fails)
		is.NoErr(tx.Rollback(t.Context()))
	}
}

// If the context ends, the connection is closed, and the server ends the statement.
func TestExec_ContextClosesConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, conn := acquire(t)
	f := newFence(pool, fence.Always)
	sleep := func(ctx context.Context, seconds float64) error {
		return errorOf(f.Exec(ctx, conn, fence.Statement{Text: `SELECT pg_sleep($1)`, Args: []any{seconds}}))
	}
	is.NoErr(sleep(t.Context(), 0)) // prepares it
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := sleep(ctx, 3600)
	is.True(errors.Is(err, context.DeadlineExceeded))
	is.True(fence.IsNotPrimary(err))
	is.True(conn.IsClosed())
	for sleeping := 1; sleeping > 0; time.Sleep(5 * time.Millisecond) {
		is.NoErr(pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`).Scan(&sleeping))
	}
}

func TestExec_ContextEndsBeforePreparing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, conn := acquire(t)
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := newFence(pool, fence.Auto).Exec(ctx, conn, fence.Statement{Text: `SELECT 1`})
	is.True(errors.Is(err, context.DeadlineExceeded))
	is.True(fence.IsNotPrimary(err))
}

// TestExec_PreparesAgain invalidates the prepared statements of fenced reads.
func TestExec_PreparesAgain(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t)+"&pool_max_conns=1", nil)
	execute(t, pool, createItems)
	f := newFence(pool, fence.Always)
	read := func() error {
		return pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
			_, _, err := scanItem(t.Context(), f, c.Conn(), fence.Statement{Text: readItem, Args: []any{int64(1)}, Read: true})
			return err
		})
	}
	for _, statement := range []string{`ALTER TABLE items ALTER COLUMN name TYPE text`, `DEALLOCATE ALL`} {
		is.NoErr(read())
		execute(t, pool, statement)
		is.True(read() != nil) // closes the connection
		is.NoErr(read())
	}
}
