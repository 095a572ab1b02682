package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"

	"example.com/canvasback/storage/internal/sqlstore"
)

// database runs statements on the connections of a pool.
type database struct {
	pool      *sql.DB
	writeLock chan struct{} // holds an element during a write
	large     chan struct{} // the same during the read of a large symbol; see Memory in the package comment
	joining   chan *insertion
	prepared  sync.Map // of *sql.Stmt, by their text
}

// Query runs a statement that reads. The text must be a constant, because each
// prepared statement is kept.
func (db *database) Query(ctx context.Context, read func(sqlstore.Rows) error, statement string, args ...any) error {
	prepared, err := db.prepare(ctx, statement) //nolint:sqlclosecheck // kept for later calls
	if err != nil {
		return err
	}
	rows, err := prepared.QueryContext(ctx, arguments(args)...)
	return readRows(rows, err, read)
}

func readRows(rows *sql.Rows, err error, read func(sqlstore.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	return cmp.Or(read(rows), rows.Err())
}

func (db *database) QueryRow(ctx context.Context, statement string, args ...any) sqlstore.Row {
	prepared, err := db.prepare(ctx, statement) //nolint:sqlclosecheck // kept for later calls
	if err != nil {
		return sqlstore.RowFunc(func(...any) error { return err })
	}
	return prepared.QueryRowContext(ctx, arguments(args)...)
}

func (db *database) QueryCurrent(ctx context.Context, statement string, args ...any) sqlstore.Row {
	return db.QueryRow(ctx, statement, args...)
}

func (db *database) WriteRow(ctx context.Context, statement string, args ...any) sqlstore.Row {
	return sqlstore.RowFunc(func(dest ...any) error {
		return db.Transact(ctx, func(tx sqlstore.Tx) error { return tx.QueryRow(ctx, statement, args...).Scan(dest...) })
	})
}

func (db *database) Exec(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	err = db.Transact(ctx, func(tx sqlstore.Tx) error {
		affected, err = tx.Exec(ctx, statement, args...)
		return err
	})
	return affected, err
}

func (db *database) Transact(ctx context.Context, change func(sqlstore.Tx) error) error {
	return db.write(ctx, func(tx transaction) error { return change(tx) })
}

type transaction struct{ conn *sql.Conn }

func (t transaction) Query(ctx context.Context, read func(sqlstore.Rows) error, statement string, args ...any) error {
	rows, err := t.conn.QueryContext(ctx, dialect.Replace(statement), arguments(args)...) //nolint:rowserrcheck,sqlclosecheck // readRows does
	return readRows(rows, err, read)
}

func (t transaction) QueryRow(ctx context.Context, statement string, args ...any) sqlstore.Row {
	return t.conn.QueryRowContext(ctx, dialect.Replace(statement), arguments(args)...)
}

func (t transaction) Exec(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	return t.ExecAll(ctx, statement, [][]any{args})
}

func (t transaction) ExecAll(ctx context.Context, statement string, list [][]any) (affected int64, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	prepared, err := t.conn.PrepareContext(ctx, dialect.Replace(statement))
	if err != nil {
		return 0, err
	}
	defer prepared.Close()
	for _, args := range list {
		result, err := prepared.ExecContext(ctx, arguments(args)...)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, err
		}
		affected += n
	}
	return affected, nil
}

// prepare returns a statement that is closed with the pool.
func (db *database) prepare(ctx context.Context, statement string) (*sql.Stmt, error) {
	if prepared, ok := db.prepared.Load(statement); ok {
		return prepared.(*sql.Stmt), nil
	}
	prepared, err := db.pool.PrepareContext(ctx, dialect.Replace(statement))
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
func (db *database) write(ctx context.Context, change func(transaction) error) error {
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
func (db *database) transact(ctx context.Context, change func(transaction) error) error {
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
	if err := cmp.Or(change(transaction{conn}), ctx.Err()); err != nil {
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
