// Package sqlstore has what stores in SQL databases have in common: the statements that
// PostgreSQL and SQLite both execute, and how records are read from rows. A driver embeds
// [Keys], [Symbols] and [Exports], and adds the methods whose statements differ.
//
// Statements are those of PostgreSQL. The driver for SQLite translates what SQLite calls
// otherwise. So they use no more than these:
//
//   - parameters $1, $2; each has the same type wherever it occurs
//   - a list of ids or digests as "= ANY ($1::bigint[])", "digest = ANY ($1::bytea[])"
//   - FOR UPDATE and FOR NO KEY UPDATE, because SQLite has one writer anyway
//   - OVERRIDING SYSTEM VALUE, strpos for source URLs, and (tenant, name) of folders
//   - CAST and coalesce; LIMIT of an expression, because SQLite prepares a statement again
//     whenever a parameter that is a LIMIT by itself is bound
//
// Columns of symbols have the qualifier s. The driver for SQLite reads their tags and times
// in another way.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Row is a row of a result.
type Row interface{ Scan(dest ...any) error }

// RowFunc is a Row that runs a statement when it is scanned.
type RowFunc func(dest ...any) error

func (f RowFunc) Scan(dest ...any) error { return f(dest...) }

// Rows are the rows of a result.
type Rows interface {
	Row
	Next() bool
}

// querier runs statements that read. Arguments and columns are those that the database
// takes, and times, ids and digests: time.Time, *time.Time, []int64, [][]byte.
type querier interface {
	// QueryRow returns the first row. The statement may run when the row is scanned, and
	// Scan returns [sql.ErrNoRows], which may be wrapped, if there is none.
	QueryRow(ctx context.Context, statement string, args ...any) Row

	// Query calls read, once for each attempt to run the statement.
	Query(ctx context.Context, read func(Rows) error, statement string, args ...any) error
}

// Tx runs statements in a transaction. No other transaction changes a row that it has read
// with FOR UPDATE.
type Tx interface {
	querier

	// Exec returns how many rows the statement has affected.
	Exec(ctx context.Context, statement string, args ...any) (affected int64, err error)

	// ExecAll executes a statement once for each list of arguments.
	ExecAll(ctx context.Context, statement string, list [][]any) (affected int64, err error)
}

// DB runs statements in a database, each in a transaction of its own. Calls that write
// return an error unless the write is durable.
type DB interface {
	querier

	// QueryCurrent is QueryRow for a statement that must not read from a server which is
	// no longer the primary.
	QueryCurrent(ctx context.Context, statement string, args ...any) Row

	// WriteRow is QueryRow for a statement that writes.
	WriteRow(ctx context.Context, statement string, args ...any) Row

	Exec(ctx context.Context, statement string, args ...any) (affected int64, err error)

	// Transact calls change in a transaction, which is rolled back if change returns an
	// error. It may call change more than once. It returns another error if what change has
	// read is not durable.
	Transact(ctx context.Context, change func(Tx) error) error
}

// List returns all rows of a query.
func List[T any](ctx context.Context, q querier, scan func(Row, *T) error, statement string, args ...any) (list []T, err error) {
	err = q.Query(ctx, func(rows Rows) error {
		list = nil
		for rows.Next() {
			list = append(list, *new(T))
			if err := scan(rows, &list[len(list)-1]); err != nil {
				return err
			}
		}
		return nil
	}, statement, args...)
	return list, err
}

// One scans a row. The value is incomplete if there is an error.
func One[T any](row Row, scan func(Row, *T) error) (value T, err error) {
	err = scan(row, &value)
	return value, err
}

func scanID(row Row, id *int64) error { return row.Scan(id) }

// orMissing returns the error missing if err means that there is no row.
func orMissing(err, missing error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return missing
	}
	return err
}

// require returns the error missing if a statement has affected no row.
func require(affected int64, err, missing error) error {
	if err == nil && affected == 0 {
		return missing
	}
	return err
}

// nullTime returns the argument for a time that may be zero, which is NULL.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// notNull returns an empty value instead of NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Time and digest implement [sql.Scanner]. NULL is the zero value.
type (
	Time   time.Time
	digest [32]byte
)

// Scan takes a time or milliseconds since 1970.
func (t *Time) Scan(column any) error {
	switch value := column.(type) {
	case nil:
		*t = Time{}
	case time.Time:
		*t = Time(value.UTC())
	case int64:
		*t = Time(time.UnixMilli(value).UTC())
	default:
		return fmt.Errorf("storage: time of type %T", column)
	}
	return nil
}

func (d *digest) Scan(column any) error {
	value, ok := column.([]byte)
	if !ok && column != nil {
		return fmt.Errorf("storage: bytes of type %T", column)
	}
	*d = digest{}
	copy(d[:], value)
	return nil
}
