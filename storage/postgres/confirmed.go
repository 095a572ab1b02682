package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// confirmedResult is the result of a statement.
type confirmedResult struct {
	types  []uint32 // of the columns
	values [][]byte // of the last row, in binary format; nil if there is none
	tag    string
}

func (r confirmedResult) scan(types *pgtype.Map, dest []any) error {
	if r.values == nil {
		return pgx.ErrNoRows
	}
	for i, value := range r.values {
		if err := types.Scan(r.types[i], pgx.BinaryFormatCode, value, dest[i]); err != nil {
			return fmt.Errorf("postgres: column %d: %w", i, err)
		}
	}
	return nil
}

// confirmedStatement is a statement to be executed, with arguments of type
// int32, int64 and []byte.
type confirmedStatement struct {
	prepared string // name; empty to parse the text for each execution
	text     string
	args     []any
}

// query returns the row of the statement, which execConfirmed executes when the row
// is scanned.
func (s confirmedStatement) query(ctx context.Context, conn *pgx.Conn) pgx.Row {
	return row(func(dest ...any) error {
		result, err := execConfirmed(ctx, conn.PgConn(), s)
		if err != nil {
			return err
		}
		return result.scan(conn.TypeMap(), dest)
	})
}

// prepare prepares the statement, unless conn has done so before. Parsing and
// planning take four times the CPU time of the execution.
func (s *confirmedStatement) prepare(ctx context.Context, conn *pgx.Conn) error {
	description, err := conn.Prepare(ctx, s.text, s.text)
	switch {
	case ctx.Err() != nil:
		return contextError(ctx)
	case err != nil:
		return err
	}
	s.prepared = description.Name
	return nil
}

// commitConfirmed commits the transaction of conn, which has executed a statement
// with fencedServer.
func commitConfirmed(ctx context.Context, conn *pgx.Conn) error {
	result, err := execConfirmed(ctx, conn.PgConn(), confirmedStatement{text: "commit"})
	if err == nil && result.tag != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// execConfirmed executes a statement in one round trip. It returns errUnconfirmed
// if the standby has not confirmed the commit when ctx ends, and closes the
// connection.
//
// A cancel request, by pgx or by pg_cancel_backend, ends the wait of a commit for
// the standby: the server reports success, preceded by a warning. pgx passes
// warnings only to the OnNotice of the application, so execConfirmed exchanges the
// messages itself. Tracers of pgx do not see its statements.
func execConfirmed(ctx context.Context, conn *pgconn.PgConn, statement confirmedStatement) (confirmedResult, error) {
	stop := context.AfterFunc(ctx, func() { expire(conn) })
	result, err := exchange(conn, statement)
	if ended := !stop(); ended {
		drop(conn)
		return confirmedResult{}, contextError(ctx)
	}
	if isInvalidStatement(err) {
		drop(conn)
	}
	return result, err
}

// contextError returns the error of a call whose context has ended.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errUnconfirmed, ctx.Err())
	}
	return ctx.Err()
}

// isInvalidStatement reports whether err means that a prepared statement must be
// prepared again: a migration has changed its columns, or DEALLOCATE removed it.
func isInvalidStatement(err error) bool {
	const (
		featureNotSupported     = "0A000" // of a cached plan
		invalidSQLStatementName = "26000"
	)
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == featureNotSupported || pgErr.Code == invalidSQLStatementName)
}

// expire makes reads and writes of conn fail.
func expire(conn *pgconn.PgConn) { conn.Conn().SetDeadline(time.Unix(1, 0)) }

// drop closes conn. The ping fails at once. pgx then sends a cancel request and
// closes the connection, both in the background. Without the request, the server
// process would wait until the standby is back, and hold its locks.
func drop(conn *pgconn.PgConn) {
	expire(conn)
	conn.Ping(context.Background())
}

// exchange sends a statement and receives its result.
func exchange(conn *pgconn.PgConn, statement confirmedStatement) (result confirmedResult, err error) {
	if err := statement.send(conn.Frontend()); err != nil {
		drop(conn)
		return confirmedResult{}, lostError(err)
	}
	for {
		message, receiveErr := conn.ReceiveMessage(context.Background())
		if receiveErr != nil {
			drop(conn)
			return confirmedResult{}, lostError(receiveErr)
		}
		switch message := message.(type) {
		case *pgproto3.RowDescription:
			for _, field := range message.Fields {
				result.types = append(result.types, field.DataTypeOID)
			}
		case *pgproto3.DataRow:
			result.values = nil
			for _, value := range message.Values {
				result.values = append(result.values, bytes.Clone(value)) // NULL stays nil
			}
		case *pgproto3.CommandComplete:
			result.tag = string(message.CommandTag)
		case *pgproto3.NoticeResponse:
			if message.File == "syncrep.c" { // its text is localized and its code not specific
				err = errUnconfirmed
			}
		case *pgproto3.ErrorResponse:
			err = pgconn.ErrorResponseToPgError(message)
		case *pgproto3.ReadyForQuery:
			return result, err
		}
	}
}

// send sends the messages that execute the statement. Without a name, it is
// prepared for this execution only, which all poolers support.
func (s confirmedStatement) send(frontend *pgproto3.Frontend) error {
	parse := pgproto3.Parse{Query: s.text}
	bind := pgproto3.Bind{
		PreparedStatement:    s.prepared,
		ParameterFormatCodes: []int16{pgx.BinaryFormatCode},
		ResultFormatCodes:    []int16{pgx.BinaryFormatCode},
	}
	for _, arg := range s.args {
		oid, value := encode(arg)
		parse.ParameterOIDs = append(parse.ParameterOIDs, oid)
		bind.Parameters = append(bind.Parameters, value)
	}
	if s.prepared == "" {
		frontend.SendParse(&parse)
	}
	frontend.SendBind(&bind)
	frontend.SendDescribe(&pgproto3.Describe{ObjectType: 'P'})
	frontend.SendExecute(&pgproto3.Execute{})
	frontend.SendSync(&pgproto3.Sync{})
	return frontend.Flush()
}

// lostError returns the error of a lost connection. It does not wrap the one of
// pgx, which may claim that the statement is safe to retry.
func lostError(err error) error {
	return fmt.Errorf("postgres: connection lost: %v", err) //nolint:errorlint // see above
}

// encode returns the type and the binary format of an argument.
func encode(arg any) (oid uint32, value []byte) {
	switch arg := arg.(type) {
	case int32:
		return pgtype.Int4OID, binary.BigEndian.AppendUint32(nil, uint32(arg))
	case int64:
		return pgtype.Int8OID, binary.BigEndian.AppendUint64(nil, uint64(arg))
	case []byte:
		return pgtype.ByteaOID, arg
	}
	panic(fmt.Sprintf("postgres: argument of type %T", arg))
}
