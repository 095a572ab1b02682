package fence

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	errStandby     = errors.New("postgres: the server is a standby")
	errReadOnly    = errors.New("postgres: the server is read-only")
	errUnconfirmed = errors.New("postgres: the synchronous standby has not confirmed a commit")
)

// IsNotPrimary reports whether err means that the server is not, or no longer, the
// primary.
func IsNotPrimary(err error) bool {
	const readOnlyTransaction = "25006"
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == readOnlyTransaction ||
		errors.Is(err, errStandby) || errors.Is(err, errReadOnly) || errors.Is(err, errUnconfirmed)
}

// Server is a table of one row for a FROM clause. The parameter $1 is a [Mode]. If
// server.fenced, the commit of the transaction waits for the standby, even if the
// role has synchronous_commit=off.
const Server = `
	(
		SELECT
			*,
			CASE WHEN fenced THEN concat(
				CASE WHEN current_setting('synchronous_commit') <> 'remote_apply' THEN
					set_config('synchronous_commit', 'on', true)
				END,
				set_config('client_min_messages', 'warning', true),
				pg_logical_emit_message(true, 'canvasback', '')
			) END
		FROM (
			SELECT *, NOT standby AND ($1 = 1 OR $1 = 0 AND synchronous) AS fenced
			FROM (
				SELECT
					pg_is_in_recovery() AS standby,
					current_setting('transaction_read_only') = 'on' AS read_only,
					current_setting('synchronous_standby_names') <> '' AS synchronous
			) AS settings
		) AS decision
	) AS server`

// Columns are the columns of [Server] with which the row of a [Statement] begins.
const Columns = `server.standby, server.read_only, server.synchronous`

// server has the values of Columns.
type server struct {
	standby     bool
	readOnly    bool
	synchronous bool // its commits wait for a standby
}

// dest returns the destinations of a row that begins with Columns.
func (s *server) dest(others []any) []any {
	return append([]any{&s.standby, &s.readOnly, &s.synchronous}, others...)
}

// check returns an error if the server is not the primary, or if it is read-only and
// must not be.
func (s *server) check(readWrite bool) error {
	switch {
	case s.standby:
		return errStandby
	case s.readOnly && readWrite:
		return errReadOnly
	}
	return nil
}
