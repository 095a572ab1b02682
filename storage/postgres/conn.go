package postgres

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sql is a statement that looks for its tables in the schema. Nothing else in
// it may have a name with their prefix.
func (db *DB) sql(statement string) string {
	if db.schema == "" {
		return statement
	}
	return strings.ReplaceAll(statement, "canvasback_", db.schema+".canvasback_")
}

// on calls f with a connection of the pool. If that turns out to be lost, it
// had mostly died in the pool, unnoticed, and so had the others. The dead are
// sorted out then, and f is called with another connection if it says that it
// can have changed nothing.
func (db *DB) on(ctx context.Context, f func(*pgx.Conn) (harmless bool, err error)) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		conn, err := db.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		harmless, lost, err := call(conn, f)
		if !lost || ctx.Err() != nil {
			return err
		}
		db.sortOut(ctx)
		if !harmless || attempt == attempts {
			return err
		}
	}
}

// call calls f with a connection, gives that back, and reports whether it has
// been lost.
func call(conn *pgxpool.Conn, f func(*pgx.Conn) (bool, error)) (harmless, lost bool, err error) {
	defer conn.Release()
	harmless, err = f(conn.Conn())
	return harmless, conn.Conn().IsClosed(), err
}

// sortOut drops the idle connections that are dead.
func (db *DB) sortOut(ctx context.Context) {
	for _, conn := range db.pool.AcquireAllIdle(ctx) {
		conn.Ping(ctx) // closes it where it fails, and the pool drops it
		conn.Release()
	}
}

// read calls f, which only reads.
func (db *DB) read(ctx context.Context, f func(*pgx.Conn) error) error {
	return db.on(ctx, func(conn *pgx.Conn) (bool, error) { return true, f(conn) })
}

// readRow reads one row at most.
func (db *DB) readRow(ctx context.Context, statement string, args ...any) pgx.Row {
	return row(func(dest ...any) error {
		return db.read(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, db.sql(statement), args...).Scan(dest...)
		})
	})
}

// row is a row that is read when it is scanned.
type row func(dest ...any) error

func (r row) Scan(dest ...any) error { return r(dest...) }

// readRows reads any number of rows.
func readRows[T any](ctx context.Context, db *DB, scan pgx.RowToFunc[T], statement string, args ...any) (list []T, err error) {
	err = db.read(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, db.sql(statement), args...) // its error is that of the rows
		list, err = pgx.CollectRows(rows, scan)
		return err
	})
	return list, err
}

// write calls f, which runs one statement that is a transaction of its own.
func (db *DB) write(ctx context.Context, f func(*pgx.Conn) error) error {
	return retry(ctx, func() error {
		return db.on(ctx, func(conn *pgx.Conn) (bool, error) {
			err := f(conn)
			return unsent(err), err
		})
	})
}

// exec runs one statement that writes, and returns how many rows it has met.
func (db *DB) exec(ctx context.Context, statement string, args ...any) (met int64, err error) {
	err = db.write(ctx, func(conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, db.sql(statement), args...)
		met = tag.RowsAffected()
		return err
	})
	return met, err
}

// transact calls change in a transaction. Each statement of it sees what has
// been committed before that statement, whatever the pool's connections are
// set to.
func (db *DB) transact(ctx context.Context, change func(pgx.Tx) error) error {
	return retry(ctx, func() error {
		return db.on(ctx, func(conn *pgx.Conn) (bool, error) {
			begun := false
			err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
				begun = true
				return change(tx)
			})
			return !begun, err
		})
	})
}

// retry writes, and again if PostgreSQL breaks that off in favour of somebody
// else.
func retry(ctx context.Context, write func() error) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := write()
		if attempt == attempts || !brokenOff(err) {
			return translate(err)
		}
		select {
		case <-time.After(rand.N(time.Duration(attempt) * 20 * time.Millisecond)):
		case <-ctx.Done():
			return err
		}
	}
}
