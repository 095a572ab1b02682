package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
	"github.com/matryer/is"
	modernc "modernc.org/sqlite"
)

func TestStorage_failing(t *testing.T) {
	t.Parallel()
	failures := map[string]error{"error": errDisk}
	if storagetest.Long() {
		failures["connection lost"] = driver.ErrBadConn
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.RunFaults(t, func(t testing.TB) storagetest.FaultHarness {
				opened, dsn := openFile(t)
				f := &failing{err: failure}
				pool := sql.OpenDB(connector{dsn, f})
				t.Cleanup(func() { pool.Close() })
				opened.Storage = sqlite.New(pool)
				opened.InUse = func() int { return pool.Stats().InUse }
				return storagetest.FaultHarness{Harness: opened, Inject: f.fail, Injected: f.failed}
			})
		})
	}
}

// Migrate is all or nothing too.
func TestMigrate_failing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	refused := 0
	for n := 1; ; n++ {
		dsn := file(t) + pragmas
		f := &failing{err: errDisk}
		pool := sql.OpenDB(connector{dsn, f})
		defer pool.Close()
		f.fail(storagetest.Rejected, n)
		err := sqlite.New(pool).Migrate(t.Context())
		if err != nil {
			refused++
			is.Equal(len(schema(t, connect(t, dsn))), 0) // nothing is left of it
		}
		failed := f.failed()
		f.fail(storagetest.Rejected, 0)
		is.NoErr(sqlite.New(pool).Migrate(t.Context()))
		if failed == 0 {
			is.NoErr(err)
			break
		}
	}
	is.True(refused > 5)
}

// A version of SQLite that can damage the file is refused before anything is
// written.
func TestMigrate_olderSQLite(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := &failing{rewrite: strings.NewReplacer("sqlite_version()", "'3.51.2'")}
	pool := sql.OpenDB(connector{file(t) + pragmas, f})
	defer pool.Close()
	db := sqlite.New(pool)
	for _, refuse := range []func(context.Context) error{db.Check, db.Migrate} {
		err := refuse(t.Context())
		is.True(err != nil && strings.Contains(err.Error(), "SQLite 3.51.2"))
	}
	is.Equal(len(schema(t, pool)), 0)
	f.rewrite = strings.NewReplacer("sqlite_version()", "'3.51.3'")
	is.NoErr(db.Migrate(t.Context()))
}

var errDisk = errors.New("disk I/O error")

// failing makes calls to SQLite fail. Closing is none: it always works.
type failing struct {
	err     error
	rewrite *strings.Replacer // of statements; may be nil

	mu    sync.Mutex
	fault storagetest.Fault
	at    int // 0: never
	calls int
	count int
}

// fail and failed are those of storagetest.FaultHarness.
func (f *failing) fail(fault storagetest.Fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.at, f.calls, f.count = fault, n, 0, 0
}

func (f *failing) failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// next counts a call, and says whether it is carried out and whether it fails.
func (f *failing) next() (carriedOut, fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.at == 0 || f.calls < f.at || f.calls > f.at && f.fault != storagetest.Down {
		return true, false
	}
	f.count++
	return f.fault == storagetest.ResponseLost, true
}

// try makes a call, which fails with err. What it returns although it fails is
// closed.
func try[T any](f *failing, err error, do func() (T, error), close func(T)) (none T, _ error) {
	carriedOut, fails := f.next()
	if !fails {
		return do()
	}
	if carriedOut {
		if out, err := do(); err == nil {
			close(out)
		}
	}
	return none, err
}

func (f *failing) statement(text string) string {
	if f.rewrite == nil {
		return text
	}
	return f.rewrite.Replace(text)
}

// connector opens connections whose calls may fail.
type connector struct {
	dsn string
	*failing
}

func (connector) Driver() driver.Driver { return &modernc.Driver{} }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	return try(c.failing, c.err, func() (driver.Conn, error) {
		open, err := c.Driver().Open(c.dsn)
		if err != nil {
			return nil, err
		}
		return conn{open.(sqliteConn), c.failing}, nil
	}, func(open driver.Conn) { open.Close() })
}

// sqliteConn is what database/sql makes use of.
type sqliteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type conn struct {
	sqliteConn
	f *failing
}

func (c conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	return try(c.f, c.f.err, func() (driver.Stmt, error) {
		prepared, err := c.sqliteConn.PrepareContext(ctx, c.f.statement(text))
		if err != nil {
			return nil, err
		}
		return statement{prepared.(sqliteStmt), c.f}, nil
	}, func(prepared driver.Stmt) { prepared.Close() })
}

func (c conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return try(c.f, c.f.err, func() (driver.Result, error) {
		return c.sqliteConn.ExecContext(ctx, c.f.statement(text), args)
	}, func(driver.Result) {})
}

func (c conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	return try(c.f, c.f.err, func() (driver.Rows, error) {
		read, err := c.sqliteConn.QueryContext(ctx, c.f.statement(text), args)
		return rows{read, c.f}, err
	}, func(read driver.Rows) { read.Close() })
}

// sqliteStmt is what database/sql makes use of. It closes a statement even if
// that has told it that the connection is lost, which modernc.org/sqlite does
// not survive, and does not tell either.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type statement struct {
	sqliteStmt
	f *failing
}

func (s statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return try(s.f, errDisk, func() (driver.Result, error) {
		return s.sqliteStmt.ExecContext(ctx, args)
	}, func(driver.Result) {})
}

func (s statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return try(s.f, errDisk, func() (driver.Rows, error) {
		read, err := s.sqliteStmt.QueryContext(ctx, args)
		return rows{read, s.f}, err
	}, func(read driver.Rows) { read.Close() })
}

type rows struct {
	driver.Rows
	f *failing
}

func (r rows) Next(values []driver.Value) error {
	_, err := try(r.f, errDisk, func() (struct{}, error) { return struct{}{}, r.Rows.Next(values) }, func(struct{}) {})
	return err
}
