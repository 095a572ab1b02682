package postgres

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/storage/postgres/internal/fence"
)

// database runs statements on the connections of a pool.
type database struct {
	pool   *pgxpool.Pool
	schema string // quoted; empty to use the search_path
	fence  *fence.Fence

	mu        sync.Mutex
	lastReset time.Time // of the pool

	inserter inserter
}

// sql qualifies the tables in a statement with the schema. The prefix
// canvasback_ must not occur elsewhere in the statement.
func (db *database) sql(statement string) string {
	if db.schema == "" {
		return statement
	}
	return strings.ReplaceAll(statement, "canvasback_", db.schema+".canvasback_")
}

// withConn calls f with a connection of the pool. If the connection is dead, the
// others are probably dead or dying too: withConn makes the pool replace them, and
// retries on a new one if f reported safeToRetry.
func (db *database) withConn(ctx context.Context, f func(*pgx.Conn) (safeToRetry bool, err error)) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		began := time.Now()
		conn, err := db.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		safeToRetry, dead, err := callAndRelease(conn, f)
		lost := dead && ctx.Err() == nil
		if lost || fence.IsNotPrimary(err) {
			db.reset(began)
		}
		if !lost || !safeToRetry || attempt == attempts {
			return err
		}
	}
}

// callAndRelease calls f with conn, releases conn, and reports whether it is
// dead. A connection to a server that is not the primary is closed.
func callAndRelease(conn *pgxpool.Conn, f func(*pgx.Conn) (bool, error)) (safeToRetry, dead bool, err error) {
	defer conn.Release()
	safeToRetry, err = f(conn.Conn())
	if fence.IsNotPrimary(err) {
		conn.Conn().Close(context.Background())
	}
	return safeToRetry, conn.Conn().IsClosed(), err
}

// reset makes the pool replace all connections, which may lead to another server,
// unless it has done so since began.
func (db *database) reset(began time.Time) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if began.After(db.lastReset) {
		db.pool.Reset()
		db.lastReset = time.Now()
	}
}

// read calls f, which must not write.
func (db *database) read(ctx context.Context, f func(*pgx.Conn) error) error {
	return db.withConn(ctx, func(conn *pgx.Conn) (bool, error) { return true, f(conn) })
}

// readRow returns the first row of a query, which runs when the row is scanned.
func (db *database) readRow(ctx context.Context, statement string, args ...any) pgx.Row {
	return row(func(dest ...any) error {
		return db.read(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, db.sql(statement), args...).Scan(dest...)
		})
	})
}

// row implements pgx.Row.
type row func(dest ...any) error

func (r row) Scan(dest ...any) error { return r(dest...) }

// readFenced is readRow for a fenced statement with the argument $2.
func (db *database) readFenced(ctx context.Context, statement string, arg any) pgx.Row {
	return row(func(dest ...any) error {
		return db.read(ctx, func(conn *pgx.Conn) error {
			return db.fence.Exec(ctx, conn, fence.Statement{Text: db.sql(statement), Arg: arg, Read: true}, dest...)
		})
	})
}

// writeFenced is readFenced for a statement that writes.
func (db *database) writeFenced(ctx context.Context, statement string, arg any) pgx.Row {
	return row(func(dest ...any) error {
		return db.write(ctx, func(conn *pgx.Conn) error {
			return db.fence.Exec(ctx, conn, fence.Statement{Text: db.sql(statement), Arg: arg}, dest...)
		})
	})
}

// readRows returns all rows of a query.
func readRows[T any](ctx context.Context, db *database, scan pgx.RowToFunc[T], statement string, args ...any) (list []T, err error) {
	err = db.read(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, db.sql(statement), args...) // rows return the error too
		list, err = pgx.CollectRows(rows, scan)
		return err
	})
	return list, err
}

// write calls f, which must run a single statement outside a transaction.
func (db *database) write(ctx context.Context, f func(*pgx.Conn) error) error {
	return retry(ctx, func() error {
		return db.withConn(ctx, func(conn *pgx.Conn) (bool, error) {
			err := f(conn)
			return pgconn.SafeToRetry(err), err
		})
	})
}

// exec runs a statement that writes, and returns the number of affected rows.
func (db *database) exec(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	err = db.write(ctx, func(conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, db.sql(statement), args...)
		affected = tag.RowsAffected()
		return err
	})
	return affected, err
}

// transact calls change in a transaction with isolation level read committed,
// regardless of the default.
func (db *database) transact(ctx context.Context, change func(pgx.Tx) error) error {
	return db.transactThen(ctx, change, func(_ *pgx.Conn, tx pgx.Tx) error { return tx.Commit(ctx) })
}

// transactThen is transact with another way to commit.
func (db *database) transactThen(ctx context.Context, change func(pgx.Tx) error, commit func(*pgx.Conn, pgx.Tx) error) error {
	return retry(ctx, func() error {
		return db.withConn(ctx, func(conn *pgx.Conn) (bool, error) {
			tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
			if err != nil {
				return true, err
			}
			committing := false
			defer func() {
				if !committing {
					tx.Rollback(ctx)
				}
			}()
			if err := change(tx); err != nil {
				return false, err
			}
			committing = true
			return false, commit(conn, tx)
		})
	})
}

// retry calls write, up to five times if PostgreSQL aborts it in favor of
// another transaction.
func retry(ctx context.Context, write func() error) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := write()
		if attempt == attempts || !isRetryable(err) {
			return mapConstraint(err)
		}
		select {
		case <-time.After(rand.N(time.Duration(attempt) * 20 * time.Millisecond)):
		case <-ctx.Done():
			return err
		}
	}
}
