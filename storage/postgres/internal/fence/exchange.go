package fence

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

// result is the result of a statement.
type result struct {
	types  []uint32 // of the columns
	values [][]byte // of the last row, in binary format; nil if there is none
	tag    string
}

func (r result) scan(types *pgtype.Map, dest []any) error {
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

// request is a statement to be executed, with arguments of type [Mode], int64 and
// []byte.
type request struct {
	prepared string // name; empty to parse the text for each execution
	text     string
	args     []any
}

// exchange executes a statement in one round trip. It returns errUnconfirmed if the
// standby has not confirmed the commit when ctx ends, and closes the connection.
func exchange(ctx context.Context, conn *pgconn.PgConn, q request) (result, error) {
	stop := context.AfterFunc(ctx, func() { expire(conn) })
	r, err := roundTrip(conn, q)
	if ended := !stop(); ended {
		drop(conn)
		return result{}, contextError(ctx)
	}
	if isInvalidStatement(err) {
		drop(conn)
	}
	return r, err
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

// roundTrip sends a statement and receives its result.
func roundTrip(conn *pgconn.PgConn, q request) (r result, err error) {
	if err := q.send(conn.Frontend()); err != nil {
		drop(conn)
		return result{}, lostError(err)
	}
	for {
		message, receiveErr := conn.ReceiveMessage(context.Background())
		if receiveErr != nil {
			drop(conn)
			return result{}, lostError(receiveErr)
		}
		switch message := message.(type) {
		case *pgproto3.RowDescription:
			for _, field := range message.Fields {
				r.types = append(r.types, field.DataTypeOID)
			}
		case *pgproto3.DataRow:
			r.values = nil
			for _, value := range message.Values {
				r.values = append(r.values, bytes.Clone(value)) // NULL stays nil
			}
		case *pgproto3.CommandComplete:
			r.tag = string(message.CommandTag)
		case *pgproto3.NoticeResponse:
			if message.File == "syncrep.c" { // its text is localized and its code not specific
				err = errUnconfirmed
			}
		case *pgproto3.ErrorResponse:
			err = pgconn.ErrorResponseToPgError(message)
		case *pgproto3.ReadyForQuery:
			return r, err
		}
	}
}

// send sends the messages that execute the statement. Without a name, it is
// prepared for this execution only, which all poolers support.
func (q request) send(frontend *pgproto3.Frontend) error {
	parse := pgproto3.Parse{Query: q.text}
	bind := pgproto3.Bind{
		PreparedStatement:    q.prepared,
		ParameterFormatCodes: []int16{pgx.BinaryFormatCode},
		ResultFormatCodes:    []int16{pgx.BinaryFormatCode},
	}
	for _, arg := range q.args {
		oid, value := encode(arg)
		parse.ParameterOIDs = append(parse.ParameterOIDs, oid)
		bind.Parameters = append(bind.Parameters, value)
	}
	if q.prepared == "" {
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
	case Mode:
		return pgtype.Int4OID, binary.BigEndian.AppendUint32(nil, uint32(arg))
	case int64:
		return pgtype.Int8OID, binary.BigEndian.AppendUint64(nil, uint64(arg))
	case []byte:
		return pgtype.ByteaOID, arg
	}
	panic(fmt.Sprintf("postgres: argument of type %T", arg))
}
