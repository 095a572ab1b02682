package fence

import (
	"errors"
	"time"
)

var (
	errStandby     = errors.New("postgres: the server is a standby")
	errReadOnly    = errors.New("postgres: the server is read-only")
	errUnconfirmed = errors.New("postgres: the server, or its synchronous standby, has not confirmed a commit")
)

// IsNotPrimary reports whether err means that the server is not, or no longer, the
// primary.
func IsNotPrimary(err error) bool {
	const readOnlyTransaction = "25006"
	return hasCode(err, readOnlyTransaction) ||
		errors.Is(err, errStandby) || errors.Is(err, errReadOnly) || errors.Is(err, errUnconfirmed)
}

const (
	// settings is a table of one row.
	settings = `(
		SELECT
			pg_is_in_recovery() AS standby,
			current_setting('transaction_read_only') = 'on' AS read_only,
			current_setting('synchronous_standby_names') AS names
	) AS settings`

	// isFenced is a condition over the table settings and the parameter $1, a [Mode].
	isFenced = `NOT standby AND ($1::integer = 1 OR $1::integer <> 2 AND names <> '')`

	// setCommit makes the commit of the transaction wait for the standby, even if the
	// role has synchronous_commit=off, provided that it writes.
	setCommit = `concat(
		CASE WHEN current_setting('synchronous_commit') <> 'remote_apply' THEN
			set_config('synchronous_commit', 'on', true)
		END,
		set_config('client_min_messages', 'warning', true)
	)`

	// writeMessage writes an empty message and returns the position of its end in the WAL.
	writeMessage = `(pg_logical_emit_message(true, 'canvasback', '') - '0/0')::bigint`
)

// selectServer reads the role of the server. Its parameter is a [Mode]. On a fenced
// server it adds a message to the transaction, whose commit then waits for the standby.
const selectServer = `
	SELECT
		standby,
		read_only,
		names,
		CASE WHEN ` + isFenced + ` THEN ` + setCommit + ` END,
		CASE WHEN ` + isFenced + ` THEN ` + writeMessage + ` END
	FROM ` + settings

// server is the row of selectServer or selectQuestion.
type server struct {
	standby  bool
	readOnly bool
	names    string // synchronous_standby_names
	message  *int64 // position of the message; nil without one

	// Of selectQuestion.
	started   time.Time // of the server process
	position  *int64    // of the WAL; nil if the server is not fenced
	confirmed *int64    // position of a confirmed message of this process; nil without one
}

func (s *server) scan(result Result) error {
	return result.Scan(&s.standby, &s.readOnly, &s.names, nil, &s.message, &s.started, &s.position, &s.confirmed)
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
