package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
)

func TestStorage_FaultsLeaveNoPartialWrites(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	failures := map[string]error{"error": errInjected}
	if *testflag.Long {
		failures["connection lost"] = driver.ErrBadConn
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.RunFaults(t, func(t testing.TB) storagetest.FaultHarness {
				harness, dsn := openFile(t)
				f := &faultInjector{err: failure}
				pool := sql.OpenDB(faultyConnector{dsn, f})
				t.Cleanup(func() { pool.Close() })
				harness.Storage = must(sqlite.New(pool))(t)
				harness.InUse = func() int { return pool.Stats().InUse }
				return storagetest.FaultHarness{Harness: harness, Faults: &f.Faults}
			}, storagetest.Rejected, storagetest.ResponseLost, storagetest.Down)
		})
	}
}

func TestMigrate_FaultsLeaveNoPartialSchema(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	failures := 0
	for n := 1; ; n++ {
		dsn := file(t) + pragmas
		f := &faultInjector{err: errInjected}
		pool := sql.OpenDB(faultyConnector{dsn, f})
		defer pool.Close()
		f.Inject(storagetest.Rejected, n)
		err := must(sqlite.New(pool))(t).Migrate(t.Context())
		if err != nil {
			failures++
			is.Equal(len(schema(t, connect(t, dsn))), 0) // no table exists
		}
		_, injected := f.Injected()
		f.Inject(storagetest.Rejected, 0)
		migrate(t, pool)
		if injected == 0 {
			is.NoErr(err)
			break
		}
	}
	is.True(failures > 5)
}

// Versions of SQLite that can corrupt the file are rejected before the first
// write.
func TestMigrate_RejectsOldSQLiteVersion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := &faultInjector{rewrite: strings.NewReplacer("sqlite_version()", "'3.51.2'")}
	pool := sql.OpenDB(faultyConnector{file(t) + pragmas, f})
	defer pool.Close()
	db := must(sqlite.New(pool))(t)
	for _, call := range []func(context.Context) error{db.Check, db.Migrate} {
		err := call(t.Context())
		is.True(err != nil && strings.Contains(err.Error(), "SQLite 3.51.2"))
	}
	is.Equal(len(schema(t, pool)), 0)
	f.rewrite = strings.NewReplacer("sqlite_version()", "'3.51.3'")
	is.NoErr(db.Migrate(t.Context()))
}

var errInjected = errors.New("injected disk I/O error")

// faultInjector makes calls to SQLite fail, except Close.
type faultInjector struct {
	storagetest.Faults
	err     error
	rewrite *strings.Replacer // applied to statements, if not nil

	commits    atomic.Int32
	failCommit atomic.Int32 // the number of the COMMIT that fails, counted from 1; 0 for none
	panics     atomic.Bool  // panic instead
}

// runFaulty runs call, or returns err if a fault is injected. The result of a
// call that was executed nevertheless is closed.
func runFaulty[T any](f *faultInjector, err error, call func() (T, error), closeResult func(T)) (none T, _ error) {
	executed, fails := f.Next()
	if !fails {
		return call()
	}
	if executed {
		if result, err := call(); err == nil {
			closeResult(result)
		}
	}
	return none, err
}

func (f *faultInjector) statement(text string) string {
	if f.rewrite == nil {
		return text
	}
	return f.rewrite.Replace(text)
}

// faultyConnector opens connections whose calls may fail.
type faultyConnector struct {
	dsn string
	*faultInjector
}

func (faultyConnector) Driver() driver.Driver { return sqliteDriver() }

var sqliteDriver = sync.OnceValue(func() driver.Driver {
	pool, err := sql.Open("sqlite", "")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	return pool.Driver()
})

func (c faultyConnector) Connect(context.Context) (driver.Conn, error) {
	return runFaulty(c.faultInjector, c.err, func() (driver.Conn, error) {
		open, err := c.Driver().Open(c.dsn)
		if err != nil {
			return nil, err
		}
		return faultyConn{open.(sqliteConn), c.faultInjector}, nil
	}, func(open driver.Conn) { open.Close() })
}

// sqliteConn has the methods that database/sql uses.
type sqliteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type faultyConn struct {
	sqliteConn
	f *faultInjector
}

func (c faultyConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	return runFaulty(c.f, c.f.err, func() (driver.Stmt, error) {
		prepared, err := c.sqliteConn.PrepareContext(ctx, c.f.statement(text))
		if err != nil {
			return nil, err
		}
		return faultyStmt{prepared.(sqliteStmt), c.f}, nil
	}, func(prepared driver.Stmt) { prepared.Close() })
}

func (c faultyConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return runFaulty(c.f, c.f.err, func() (driver.Result, error) {
		if text == "COMMIT" && c.f.commits.Add(1) == c.f.failCommit.Load() {
			if c.f.panics.Load() {
				panic("injected")
			}
			_, err := c.sqliteConn.ExecContext(ctx, "ROLLBACK", nil)
			return nil, errors.Join(errInjected, err)
		}
		return c.sqliteConn.ExecContext(ctx, c.f.statement(text), args)
	}, func(driver.Result) {})
}

func (c faultyConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	return runFaulty(c.f, c.f.err, func() (driver.Rows, error) {
		read, err := c.sqliteConn.QueryContext(ctx, c.f.statement(text), args)
		return faultyRows{read, c.f}, err
	}, func(read driver.Rows) { read.Close() })
}

// sqliteStmt has the methods that database/sql uses. They return errInjected, not
// ErrBadConn: database/sql closes a statement even after ErrBadConn, which breaks
// modernc.org/sqlite. That driver never returns it from a statement.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type faultyStmt struct {
	sqliteStmt
	f *faultInjector
}

func (s faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return runFaulty(s.f, errInjected, func() (driver.Result, error) {
		return s.sqliteStmt.ExecContext(ctx, args)
	}, func(driver.Result) {})
}

func (s faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return runFaulty(s.f, errInjected, func() (driver.Rows, error) {
		read, err := s.sqliteStmt.QueryContext(ctx, args)
		return faultyRows{read, s.f}, err
	}, func(read driver.Rows) { read.Close() })
}

type faultyRows struct {
	driver.Rows
	f *faultInjector
}

func (r faultyRows) Next(values []driver.Value) error {
	_, err := runFaulty(r.f, errInjected, func() (struct{}, error) { return struct{}{}, r.Rows.Next(values) }, func(struct{}) {})
	return err
}
