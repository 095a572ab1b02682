package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// Result is the result of a statement.
type Result struct {
	Tag  pgconn.CommandTag
	Rows []Row
}

// Scan implements [pgx.Row] by the first row.
func (r Result) Scan(dest ...any) error {
	if len(r.Rows) == 0 {
		return pgx.ErrNoRows
	}
	return r.Rows[0].Scan(dest...)
}

// Row implements [pgx.Row].
type Row struct {
	types  *pgtype.Map
	fields []pgproto3.FieldDescription
	values [][]byte // nil for NULL
}

// Scan implements [pgx.Row]. A nil destination skips its column. There may be more
// destinations than columns.
func (r Row) Scan(dest ...any) error {
	for i, value := range r.values {
		if dest[i] == nil {
			continue
		}
		if err := r.types.Scan(r.fields[i].DataTypeOID, r.fields[i].Format, value, dest[i]); err != nil {
			return fmt.Errorf("postgres: column %d: %w", i, err)
		}
	}
	return nil
}

// request is a statement with encoded arguments.
type request struct {
	prepared  string // name; empty to parse the text for each execution
	text      string
	arguments pgx.ExtendedQueryBuilder
}

// newRequest encodes arguments. The statement is prepared unless description is nil.
func newRequest(types *pgtype.Map, text string, description *pgconn.StatementDescription, args []any) (*request, error) {
	r := &request{text: text}
	if description != nil {
		r.prepared = description.Name
	}
	err := r.arguments.Build(types, description, args)
	if description == nil {
		r.arguments.ResultFormats = []int16{pgx.BinaryFormatCode} // text depends on bytea_output and DateStyle
	}
	return r, err
}

// exchange executes statements in one round trip and, outside a transaction, in one
// transaction. It returns errUnconfirmed if the standby has not confirmed the commit
// when ctx ends, and closes the connection.
func exchange(ctx context.Context, conn *pgconn.PgConn, types *pgtype.Map, requests ...*request) ([]Result, error) {
	stop := context.AfterFunc(ctx, func() { expire(conn) })
	results, err := roundTrip(conn, types, requests)
	if ended := !stop(); ended {
		drop(conn)
		return nil, contextError(ctx)
	}
	// The statement must be prepared again: a migration has changed its columns, or DEALLOCATE removed it.
	if hasCode(err, cachedPlanChanged, noSuchStatement) {
		drop(conn)
	}
	return results, err
}

// contextError returns the error of a call whose context has ended.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", errUnconfirmed, ctx.Err())
	}
	return ctx.Err()
}

const (
	cachedPlanChanged  = "0A000" // or another feature that is not supported
	noSuchStatement    = "26000"
	duplicateStatement = "42P05"
)

// hasCode reports whether the server has returned an error with one of the codes.
func hasCode(err error, codes ...string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, pgErr.Code)
}

// expire makes reads and writes of conn fail.
func expire(conn *pgconn.PgConn) { conn.Conn().SetDeadline(time.Unix(1, 0)) }

// drop closes conn. The response of the ping is not awaited. pgx then sends a cancel request
// and closes the connection, both in the background. The ping gets time because TLS writes
// nothing after a write that has timed out: without a Terminate message, pgx waits 15 s.
func drop(conn *pgconn.PgConn) {
	expire(conn)
	conn.Conn().SetWriteDeadline(time.Now().Add(time.Second))
	conn.Ping(context.Background())
}

// Ping reports whether the server responds within a second. If not, it closes the idle
// connection at once: after a ping of pgx, its pool would wait 15 s for the server.
func Ping(ctx context.Context, conn *pgconn.PgConn) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { expire(conn) })
	conn.Frontend().SendSync(&pgproto3.Sync{})
	conn.Frontend().Flush() // after an error ReceiveMessage fails, too
	message, _ := conn.ReceiveMessage(context.Background())
	if _, ok := message.(*pgproto3.ReadyForQuery); ok && stop() {
		return true
	}
	conn.Close(context.Background())
	return false
}

// roundTrip sends statements and receives their results.
func roundTrip(conn *pgconn.PgConn, types *pgtype.Map, requests []*request) (results []Result, err error) {
	for _, r := range requests {
		r.send(conn.Frontend())
	}
	conn.Frontend().SendSync(&pgproto3.Sync{})
	if err := conn.Frontend().Flush(); err != nil {
		drop(conn)
		return nil, lostError(err)
	}
	var result Result
	var fields []pgproto3.FieldDescription
	for {
		message, receiveErr := conn.ReceiveMessage(context.Background())
		if receiveErr != nil {
			drop(conn)
			return nil, lostError(receiveErr)
		}
		switch message := message.(type) {
		case *pgproto3.RowDescription:
			fields = slices.Clone(message.Fields)
		case *pgproto3.DataRow:
			values := make([][]byte, len(message.Values))
			for i, value := range message.Values {
				values[i] = bytes.Clone(value) // NULL stays nil
			}
			result.Rows = append(result.Rows, Row{types, fields, values})
		case *pgproto3.CommandComplete:
			result.Tag = pgconn.NewCommandTag(string(message.CommandTag))
			results, result = append(results, result), Result{}
		case *pgproto3.NoticeResponse:
			if message.File == "syncrep.c" { // its text is localized and its code not specific
				err = errUnconfirmed
			}
		case *pgproto3.ErrorResponse:
			err = pgconn.ErrorResponseToPgError(message)
		case *pgproto3.ReadyForQuery:
			return results, err
		}
	}
}

// send sends the messages that execute the statement. Without a name, it is
// prepared for this execution only, which all poolers support.
func (r *request) send(frontend *pgproto3.Frontend) {
	if r.prepared == "" {
		frontend.SendParse(&pgproto3.Parse{Query: r.text})
	}
	frontend.SendBind(&pgproto3.Bind{
		PreparedStatement:    r.prepared,
		ParameterFormatCodes: r.arguments.ParamFormats,
		Parameters:           r.arguments.ParamValues,
		ResultFormatCodes:    r.arguments.ResultFormats,
	})
	frontend.SendDescribe(&pgproto3.Describe{ObjectType: 'P'})
	frontend.SendExecute(&pgproto3.Execute{})
}

// lostError returns the error of a lost connection. It does not wrap the one of
// pgx, which may claim that the statement is safe to retry.
func lostError(err error) error {
	return fmt.Errorf("postgres: connection lost: %v", err) //nolint:errorlint // see above
}
