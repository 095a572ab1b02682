// Package sqlite is a storage in a SQLite database file, for one machine. It
// speaks to any SQLite driver of database/sql and imports none; SQLite itself
// must be 3.51.3 or newer.
//
// The host opens the database, and sets on every connection what SQLite does
// not do by itself. With modernc.org/sqlite this is the data source name:
//
//	file:PATH?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//
// [DB.Check] refuses a database that is opened otherwise. Of a database in
// memory each connection has its own, so allow one connection only and never
// let it expire; the package memory does better.
//
// # Concurrency
//
// There is one writer at a time and any number of readers, which neither wait
// for it nor hold it up. Writers of one process queue in Go and give up when
// their context ends. Writers of different processes wait for each other in
// SQLite, no longer than busy_timeout says, whatever their context says.
//
// A connection for each core and one for the writer are enough, and are best
// kept open:
//
//	db.SetMaxOpenConns(runtime.NumCPU() + 1)
//	db.SetMaxIdleConns(runtime.NumCPU() + 1)
//
// # Tables
//
// The names of all tables, indexes and triggers begin with canvasback_, so the
// database may hold other things. Triggers keep the epoch and all versions: a
// statement by another hand counts as a change too.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// DB is a storage in a SQLite database. It is safe for concurrent use.
type DB struct {
	pool   *sql.DB
	writer chan struct{} // full while a writer is at work

	prepared sync.Map // of *sql.Stmt, by their text
}

// New returns a storage over db, which stays the host's to close. Make one for
// each database: it is where writers queue.
func New(db *sql.DB) *DB {
	return &DB{pool: db, writer: make(chan struct{}, 1)}
}

// Keys returns the store of client keys.
func (db *DB) Keys() keys.Store { return keyStore{db} }

// Symbols returns the store of folders and symbols.
func (db *DB) Symbols() symbols.Store { return symbolStore{db} }

// Exports returns the store of registered exports.
func (db *DB) Exports() exports.Store { return exportStore{db} }

// query runs a statement that reads. It prepares each but once, so the text of
// a statement must be a constant.
func (db *DB) query(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	prepared, err := db.prepare(ctx, statement)
	if err != nil {
		return nil, err
	}
	return prepared.QueryContext(ctx, args...)
}

// queryRow is query for a statement that returns one row at most.
func (db *DB) queryRow(ctx context.Context, statement string, args ...any) *sql.Row {
	prepared, err := db.prepare(ctx, statement)
	if err != nil {
		return db.pool.QueryRowContext(ctx, statement, args...) // a row that tells why
	}
	return prepared.QueryRowContext(ctx, args...)
}

// prepare returns a statement that is closed with the pool.
func (db *DB) prepare(ctx context.Context, statement string) (*sql.Stmt, error) {
	if prepared, ok := db.prepared.Load(statement); ok {
		return prepared.(*sql.Stmt), nil
	}
	prepared, err := db.pool.PrepareContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	if former, ok := db.prepared.LoadOrStore(statement, prepared); ok {
		prepared.Close()
		return former.(*sql.Stmt), nil
	}
	return prepared, nil
}

// write runs change in a transaction that is the only writing one from its
// first statement on, so that nothing it reads can become stale before it
// writes. The transaction is rolled back if change fails or panics.
func (db *DB) write(ctx context.Context, change func(*sql.Conn) error) error {
	select {
	case db.writer <- struct{}{}:
		defer func() { <-db.writer }()
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	committed := false
	defer func() {
		if !committed {
			rollback(conn)
		}
	}()
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	if err := change(conn); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Broken off in the middle, a commit may have happened or not.
	_, err = conn.ExecContext(context.WithoutCancel(ctx), `COMMIT`)
	committed = err == nil
	return err
}

// rollback leaves conn without a transaction, or the pool without conn.
func rollback(conn *sql.Conn) {
	ctx := context.Background() // that of the caller may be why
	if _, err := conn.ExecContext(ctx, `ROLLBACK`); err == nil {
		return
	}
	// SQLite has rolled back by itself if it broke off a statement. In that
	// case a transaction can begin.
	if _, err := conn.ExecContext(ctx, `BEGIN`); err == nil {
		if _, err := conn.ExecContext(ctx, `ROLLBACK`); err == nil {
			return
		}
	}
	conn.Raw(func(any) error { return driver.ErrBadConn })
}

// wantRow turns the success of a statement that met no row into none.
func wantRow(result sql.Result, err, none error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return none
	}
	return err
}

// milli is a time as it is stored.
func milli(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// fromMilli is a stored time.
func fromMilli(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMilli(n.Int64).UTC()
}
