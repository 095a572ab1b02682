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

// queryConfirmed returns the row of a statement, which execConfirmed executes when
// the row is scanned.
func queryConfirmed(ctx context.Context, conn *pgx.Conn, statement string, args ...any) pgx.Row {
	return row(func(dest ...any) error {
		result, err := execConfirmed(ctx, conn.PgConn(), statement, args...)
		if err != nil {
			return err
		}
		return result.scan(conn.TypeMap(), dest)
	})
}

// commitConfirmed commits the transaction of conn, which has executed a statement
// with fencedServer.
func commitConfirmed(ctx context.Context, conn *pgx.Conn) error {
	result, err := execConfirmed(ctx, conn.PgConn(), "commit")
	if err == nil && result.tag != "COMMIT" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// execConfirmed executes a statement in one round trip. It returns errUnconfirmed
// if the standby has not confirmed the commit when ctx ends, and closes the
// connection. Args are of type int32, int64 or []byte.
//
// A cancel request, by pgx or by pg_cancel_backend, ends the wait of a commit for
// the standby: the server reports success, preceded by a warning. pgx passes
// warnings only to the OnNotice of the application, so execConfirmed exchanges the
// messages itself. Tracers of pgx do not see its statements.
func execConfirmed(ctx context.Context, conn *pgconn.PgConn, statement string, args ...any) (confirmedResult, error) {
	stop := context.AfterFunc(ctx, func() { expire(conn) })
	result, err := exchange(conn, statement, args)
	if ended := !stop(); ended {
		drop(conn)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return confirmedResult{}, fmt.Errorf("%w: %w", errUnconfirmed, ctx.Err())
		}
		return confirmedResult{}, ctx.Err()
	}
	return result, err
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
func exchange(conn *pgconn.PgConn, statement string, args []any) (result confirmedResult, err error) {
	if err := send(conn.Frontend(), statement, args); err != nil {
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

// send sends a statement as an unnamed prepared statement, which poolers support.
func send(frontend *pgproto3.Frontend, statement string, args []any) error {
	parse := pgproto3.Parse{Query: statement}
	bind := pgproto3.Bind{
		ParameterFormatCodes: []int16{pgx.BinaryFormatCode},
		ResultFormatCodes:    []int16{pgx.BinaryFormatCode},
	}
	for _, arg := range args {
		oid, value := encode(arg)
		parse.ParameterOIDs = append(parse.ParameterOIDs, oid)
		bind.Parameters = append(bind.Parameters, value)
	}
	frontend.SendParse(&parse)
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
