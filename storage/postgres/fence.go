package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Fence selects on which servers the calls that decide about keys are fenced: Find,
// Changes, Update and Delete. A fenced call returns only after a commit that
// includes its reads and writes has reached the synchronous standby. See the
// section Failover of the package comment.
type Fence int

const (
	// FenceAuto fences calls on a server that has synchronous_standby_names.
	FenceAuto Fence = iota

	// FenceAlways fences calls on every server. It is meant for servers that
	// replicate synchronously by other means, such as shared storage.
	FenceAlways

	// FenceNever fences nothing.
	FenceNever
)

// fenceTimeout bounds a fenced read. It is much longer than the read takes, and
// short enough to find a new primary while the caller waits.
const fenceTimeout = time.Second

var (
	errStandby     = errors.New("postgres: the server is a standby")
	errReadOnly    = errors.New("postgres: the server is read-only")
	errUnconfirmed = errors.New("postgres: the synchronous standby has not confirmed a commit")
)

// fencedServer is a table of one row for a FROM clause: the columns of server. The
// parameter $1 is a Fence. If it applies, the statement writes to the WAL, so that
// the commit of its transaction waits for the standby too, even if the role has
// synchronous_commit=off.
const fencedServer = `
	(
		SELECT
			standby, read_only, synchronous,
			CASE WHEN NOT standby AND ($1 = 1 OR $1 = 0 AND synchronous) THEN concat(
				CASE WHEN current_setting('synchronous_commit') <> 'remote_apply' THEN
					set_config('synchronous_commit', 'on', true)
				END,
				set_config('client_min_messages', 'warning', true), -- see execConfirmed
				pg_logical_emit_message(true, 'canvasback', '')
			) END
		FROM (
			SELECT
				pg_is_in_recovery() AS standby,
				current_setting('transaction_read_only') = 'on' AS read_only,
				current_setting('synchronous_standby_names') <> '' AS synchronous
		) AS settings
	) AS server`

// server is the row of fencedServer.
type server struct {
	standby     bool
	readOnly    bool
	synchronous bool // its commits wait for a standby
}

// serverColumns are the columns of fencedServer.
const serverColumns = `server.standby, server.read_only, server.synchronous`

// dest returns the destinations of a row that begins with serverColumns.
func (s *server) dest(others ...any) []any {
	return append([]any{&s.standby, &s.readOnly, &s.synchronous}, others...)
}

// readFenced returns the row of a query, which runs when the row is scanned. The
// query selects serverColumns before the columns of the row. Its parameter $2 is
// arg, an int64 or []byte.
func (db *database) readFenced(ctx context.Context, statement string, arg any) pgx.Row {
	return row(func(dest ...any) error {
		return db.withConn(ctx, func(conn *pgx.Conn) (bool, error) {
			fence := db.fence
			if fence == FenceAuto && !db.synchronous.Load() {
				fence = FenceNever // as a query of pgx, until the server is synchronous
			}
			for {
				s, err := db.queryFenced(ctx, conn, fence, statement, arg, dest)
				if err != nil {
					return true, err
				}
				db.synchronous.Store(s.synchronous)
				if fence != FenceNever || !db.fences(s) {
					return true, nil
				}
				fence = db.fence
			}
		})
	})
}

// queryFenced executes the query of readFenced.
func (db *database) queryFenced(ctx context.Context, conn *pgx.Conn, fence Fence, statement string, arg any, dest []any) (s server, err error) {
	statement, dest = db.sql(statement), s.dest(dest...)
	if fence == FenceNever {
		err = conn.QueryRow(ctx, statement, int32(fence), arg).Scan(dest...)
	} else {
		ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
		defer cancel()
		confirmed := confirmedStatement{text: statement, args: []any{int32(fence), arg}}
		if db.prepares {
			err = confirmed.prepare(ctx, conn)
		}
		if err == nil {
			err = confirmed.query(ctx, conn).Scan(dest...)
		}
	}
	switch {
	case err != nil:
		return s, err
	case s.standby:
		return s, errStandby
	case s.readOnly && db.readWrite:
		return s, errReadOnly
	}
	return s, nil
}

// writeFenced is readFenced for a statement that writes.
func (db *database) writeFenced(ctx context.Context, statement string, arg any) pgx.Row {
	return row(func(dest ...any) error {
		return db.write(ctx, func(conn *pgx.Conn) error {
			var s server
			confirmed := confirmedStatement{text: db.sql(statement), args: []any{int32(db.fence), arg}}
			return confirmed.query(ctx, conn).Scan(s.dest(dest...)...)
		})
	})
}

// fences reports whether calls on the server are fenced.
func (db *database) fences(s server) bool {
	return db.fence == FenceAlways || db.fence == FenceAuto && s.synchronous
}

// isNotPrimary reports whether err means that the server is not, or no longer, the
// primary.
func isNotPrimary(err error) bool {
	const readOnlyTransaction = "25006"
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == readOnlyTransaction ||
		errors.Is(err, errStandby) || errors.Is(err, errReadOnly) || errors.Is(err, errUnconfirmed)
}
