package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"
	"time"
)

// database runs statements on the connections of a pool.
type database struct {
	pool      *sql.DB
	writeLock chan struct{} // holds an element during a write
	joining   chan *insertion
	prepared  sync.Map // of *sql.Stmt, by their text
}

// query runs a statement that reads. The text must be a constant, because each
// prepared statement is kept.
func (db *database) query(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	prepared, err := db.prepare(ctx, statement) //nolint:sqlclosecheck // kept for later calls
	if err != nil {
		return nil, err
	}
	return prepared.QueryContext(ctx, args...)
}

// queryAll returns all rows of a query.
func queryAll[T any](ctx context.Context, db *database, scan func(*sql.Rows) (T, error), statement string, args ...any) (list []T, err error) {
	rows, err := db.query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		value, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
}

// queryRow is query for a statement that returns at most one row.
func (db *database) queryRow(ctx context.Context, statement string, args ...any) *sql.Row {
	prepared, err := db.prepare(ctx, statement) //nolint:sqlclosecheck // kept for later calls
	if err != nil {
		return db.pool.QueryRowContext(ctx, statement, args...) // an error can be returned only in a Row
	}
	return prepared.QueryRowContext(ctx, args...)
}

// prepare returns a statement that is closed with the pool.
func (db *database) prepare(ctx context.Context, statement string) (*sql.Stmt, error) {
	if prepared, ok := db.prepared.Load(statement); ok {
		return prepared.(*sql.Stmt), nil
	}
	prepared, err := db.pool.PrepareContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	if existing, ok := db.prepared.LoadOrStore(statement, prepared); ok {
		prepared.Close() //nolint:sqlclosecheck // only this copy
		return existing.(*sql.Stmt), nil
	}
	return prepared, nil
}

// write calls transact while it holds the write lock of this process.
func (db *database) write(ctx context.Context, change func(*sql.Conn) error) error {
	select {
	case db.writeLock <- struct{}{}:
		defer func() { <-db.writeLock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return db.transact(ctx, change)
}

// transact calls change in a transaction that holds SQLite's write lock from the
// start, so nothing that it reads can become stale before it writes. The
// transaction is rolled back if change returns an error or panics.
func (db *database) transact(ctx context.Context, change func(*sql.Conn) error) error {
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
	// The outcome of an interrupted COMMIT would be unknown.
	_, err = conn.ExecContext(context.WithoutCancel(ctx), `COMMIT`)
	committed = err == nil
	return err
}

// rollback ends the transaction of conn, or makes the pool discard conn.
func rollback(conn *sql.Conn) {
	ctx := context.Background() // the caller's may have ended
	if _, err := conn.ExecContext(ctx, `ROLLBACK`); err == nil {
		return
	}
	// SQLite itself rolls back when it interrupts a statement. A transaction
	// can then begin.
	if _, err := conn.ExecContext(ctx, `BEGIN`); err == nil {
		if _, err := conn.ExecContext(ctx, `ROLLBACK`); err == nil {
			return
		}
	}
	conn.Raw(func(any) error { return driver.ErrBadConn })
}

// requireRow returns the error none if a statement succeeded without affecting
// a row.
func requireRow(result sql.Result, err, none error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return none
	}
	return err
}

// jsonArray returns numbers as the argument of json_each.
func jsonArray(numbers []int64) string {
	return strings.ReplaceAll(fmt.Sprint(numbers), " ", ",")
}

// toMillis returns the column value of t: NULL for the zero time.
func toMillis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// fromMillis reverses toMillis.
func fromMillis(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMilli(n.Int64).UTC()
}
