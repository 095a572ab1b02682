package postgres

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/storage/internal/sqlstore"
	"example.com/canvasback/storage/postgres/internal/fence"
)

// database runs statements on the connections of a pool.
type database struct {
	pool   *pgxpool.Pool
	schema string // quoted; empty to use the search_path
	fence  *fence.Fence
	log    *slog.Logger

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

// withConn calls f with a connection of the pool, up to ten times if PostgreSQL aborts it in
// favor of another transaction. If serializable is the default isolation level, PostgreSQL
// aborts all but one of the writers of a row.
func (db *database) withConn(ctx context.Context, f func(*pgx.Conn) (safeToRetry bool, err error)) error {
	const attempts = 10
	for attempt := 1; ; attempt++ {
		err := db.withLiveConn(ctx, f)
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

// withLiveConn calls f with a connection of the pool. If the connection is dead, the
// others are probably dead or dying too: withLiveConn makes the pool replace them, and
// retries on a new one if f reported safeToRetry. It also retries without prepared
// statements if a pooler has lost one, because no statement was executed then.
func (db *database) withLiveConn(ctx context.Context, f func(*pgx.Conn) (safeToRetry bool, err error)) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		began := time.Now()
		conn, err := db.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		safeToRetry, dead, err := callAndRelease(conn, f)
		if db.fence.LosesStatements(ctx, err) && attempt < attempts {
			continue
		}
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
	defer release(conn)
	safeToRetry, err = f(conn.Conn())
	if fence.IsNotPrimary(err) {
		conn.Conn().Close(context.Background())
	}
	return safeToRetry, conn.Conn().IsClosed(), err
}

// release returns conn to the pool. pgx cleans up a closed one for 15 s if its server does not
// respond: after a second another connection may take its place.
func release(conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	go func() {
		select {
		case <-conn.Conn().PgConn().CleanupDone():
		case <-time.After(time.Second):
		}
		conn.Hijack()
	}()
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

// read calls f, which must not write. It may call f more than once: PostgreSQL aborts
// reads too if serializable is the default.
func (db *database) read(ctx context.Context, f func(*pgx.Conn) error) error {
	return db.withConn(ctx, func(conn *pgx.Conn) (bool, error) { return true, f(conn) })
}

// QueryRow returns the first row of a query, which runs when the row is scanned.
func (db *database) QueryRow(ctx context.Context, statement string, args ...any) sqlstore.Row {
	return sqlstore.RowFunc(func(dest ...any) error {
		return db.read(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, db.sql(statement), db.fence.QueryArgs(args)...).Scan(dest...)
		})
	})
}

// QueryCurrent is QueryRow for a fenced query.
func (db *database) QueryCurrent(ctx context.Context, statement string, args ...any) sqlstore.Row {
	return sqlstore.RowFunc(func(dest ...any) error {
		return db.read(ctx, func(conn *pgx.Conn) error {
			result, err := db.fence.Exec(ctx, conn, fence.Statement{Text: db.sql(statement), Args: args, Read: true})
			if err != nil {
				return err
			}
			return result.Scan(dest...)
		})
	})
}

// ask is QueryCurrent for a question that all processes repeat. The result is that of a
// primary at some time after age before the call.
func (db *database) ask(ctx context.Context, statement string, args ...any) (result fence.Result, age time.Duration, err error) {
	err = db.read(ctx, func(conn *pgx.Conn) error {
		result, age, err = db.fence.Ask(ctx, conn, fence.Statement{Text: db.sql(statement), Args: args, Read: true})
		return err
	})
	return result, age, err
}

func (db *database) Query(ctx context.Context, read func(sqlstore.Rows) error, statement string, args ...any) error {
	return db.read(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, db.sql(statement), db.fence.QueryArgs(args)...)
		return readRows(rows, read)
	})
}

// readRows calls read with the rows of a query, which return its error too.
func readRows(rows pgx.Rows, read func(sqlstore.Rows) error) error {
	defer rows.Close()
	err := read(rows)
	rows.Close()
	return cmp.Or(err, rows.Err())
}

// write runs a single statement outside a transaction. It returns an error if the
// standby has not confirmed the commit.
func (db *database) write(ctx context.Context, statement string, args ...any) (result fence.Result, err error) {
	err = db.withConn(ctx, func(conn *pgx.Conn) (bool, error) {
		result, err = db.fence.Exec(ctx, conn, fence.Statement{Text: db.sql(statement), Args: args})
		return pgconn.SafeToRetry(err), err
	})
	return result, err
}

// WriteRow is write for a statement that returns a row, which runs when the row is
// scanned.
func (db *database) WriteRow(ctx context.Context, statement string, args ...any) sqlstore.Row {
	return sqlstore.RowFunc(func(dest ...any) error {
		result, err := db.write(ctx, statement, args...)
		if err != nil {
			return err
		}
		return result.Scan(dest...)
	})
}

// Exec is write for a statement that returns the number of affected rows.
func (db *database) Exec(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	result, err := db.write(ctx, statement, args...)
	return result.Tag.RowsAffected(), err
}

// Transact calls change in a transaction with isolation level read committed,
// regardless of the default. Like write, it returns an error if the standby has not
// confirmed the commit. This holds for an error of change too: another transaction may have
// committed what change has read without the standby.
func (db *database) Transact(ctx context.Context, change func(sqlstore.Tx) error) error {
	return db.transact(ctx, db.sql, change)
}

// transact is Transact with a function that qualifies the names in statements.
func (db *database) transact(ctx context.Context, qualify func(string) string, change func(sqlstore.Tx) error) error {
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
		rejected := change(transaction{tx, db.fence, qualify})
		if rejected != nil {
			if _, ok := errors.AsType[*pgconn.PgError](mapConstraint(rejected)); ok || conn.IsClosed() {
				return false, explainCanceled(rejected)
			}
			if _, err := tx.Exec(ctx, `ROLLBACK AND CHAIN`); err != nil {
				return false, err
			}
		}
		committing = true
		_, err = db.fence.Exec(ctx, conn, fence.Commit)
		return false, cmp.Or(err, rejected)
	})
}

// transaction implements [sqlstore.Tx].
type transaction struct {
	tx    pgx.Tx
	fence *fence.Fence
	sql   func(statement string) string
}

func (t transaction) QueryRow(ctx context.Context, statement string, args ...any) sqlstore.Row {
	return t.tx.QueryRow(ctx, t.sql(statement), t.fence.QueryArgs(args)...)
}

func (t transaction) Query(ctx context.Context, read func(sqlstore.Rows) error, statement string, args ...any) error {
	rows, _ := t.tx.Query(ctx, t.sql(statement), t.fence.QueryArgs(args)...)
	return readRows(rows, read)
}

func (t transaction) Exec(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	tag, err := t.tx.Exec(ctx, t.sql(statement), t.fence.Args(args)...)
	return tag.RowsAffected(), err
}

// ExecAll sends the statements together. Behind a pooler that loses prepared statements it
// sends one after the other, because pgx prepares those of a batch.
func (t transaction) ExecAll(ctx context.Context, statement string, list [][]any) (affected int64, err error) {
	var batch pgx.Batch
	for _, args := range list {
		if len(t.fence.Args(nil)) > 0 || len(list) == 1 {
			n, err := t.Exec(ctx, statement, args...)
			if err != nil {
				return 0, err
			}
			affected += n
			continue
		}
		batch.Queue(t.sql(statement), args...).Exec(func(tag pgconn.CommandTag) error {
			affected += tag.RowsAffected()
			return nil
		})
	}
	if batch.Len() == 0 {
		return affected, nil
	}
	err = t.tx.SendBatch(ctx, &batch).Close()
	return affected, err
}
