package fence

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Mode selects on which servers statements are fenced. It is the parameter $1 of [Server].
type Mode int32

const (
	Auto Mode = iota // on servers that have synchronous_standby_names
	Always
	Never
)

// timeout bounds a fenced read. It is much longer than the read takes, and short
// enough to find a new primary while the caller waits.
const timeout = time.Second

// Options configure a [Fence].
type Options struct {
	Mode      Mode
	Prepare   bool // statements that read, once per connection
	ReadWrite bool // statements that read reject a server that is read-only
}

// Fence executes the statements of one database. It is safe for concurrent use.
type Fence struct {
	options     Options
	synchronous atomic.Bool // the server last read has synchronous_standby_names
}

// New returns a Fence.
func New(options Options) *Fence { return &Fence{options: options} }

// Parameter returns the parameter $1 of a statement that pgx executes in a transaction. If
// the statement returns true for the column fenced of [Server], the transaction must be
// ended by [Commit].
func (f *Fence) Parameter() int32 { return int32(f.options.Mode) }

// Statement is what [Fence.Exec] executes: [Commit], or a statement outside a
// transaction, whose table [Server] takes the parameter $1.
type Statement struct {
	Text string // its columns begin with [Columns]
	Arg  any    // the parameter $2, an int64 or []byte
	Read bool   // Text does not write
}

// Commit ends a transaction. It has no row.
var Commit = Statement{Text: "commit"}

// Exec executes a statement in one round trip and scans its row, without [Columns],
// into dest. It returns [pgx.ErrNoRows] if there is none. Errors for which
// [IsNotPrimary] reports true mean that conn leads to the wrong server. If ctx ends, Exec
// closes the connection. Tracers of pgx do not see the statement.
//
// A statement that reads is a query of pgx while it need not be fenced.
func (f *Fence) Exec(ctx context.Context, conn *pgx.Conn, s Statement, dest ...any) error {
	switch {
	case s.Arg == nil: // Commit
		result, err := exchange(ctx, conn.PgConn(), request{text: s.Text})
		if err == nil && result.tag != "COMMIT" {
			err = pgx.ErrTxCommitRollback
		}
		return err
	case s.Read:
		return f.read(ctx, conn, s, dest)
	default:
		var server server
		return query(ctx, conn, f.options.Mode, s, server.dest(dest), false)
	}
}

// read is Exec for a statement that reads.
func (f *Fence) read(ctx context.Context, conn *pgx.Conn, s Statement, dest []any) error {
	mode := f.options.Mode
	if mode == Auto && !f.synchronous.Load() {
		mode = Never
	}
	for {
		var server server
		err := f.readOnce(ctx, conn, mode, s, server.dest(dest))
		if err == nil {
			err = server.check(f.options.ReadWrite)
		}
		if err != nil {
			return err
		}
		f.synchronous.Store(server.synchronous)
		fences := f.options.Mode == Always || f.options.Mode == Auto && server.synchronous
		if mode != Never || !fences {
			return nil
		}
		mode = f.options.Mode
	}
}

func (f *Fence) readOnce(ctx context.Context, conn *pgx.Conn, mode Mode, s Statement, dest []any) error {
	if mode == Never {
		return conn.QueryRow(ctx, s.Text, int32(mode), s.Arg).Scan(dest...)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return query(ctx, conn, mode, s, dest, f.options.Prepare)
}

// query exchanges the messages of a statement with a row. Preparing it once saves four
// times the CPU time of the execution, for parsing and planning.
func query(ctx context.Context, conn *pgx.Conn, mode Mode, s Statement, dest []any, prepare bool) error {
	q := request{text: s.Text, args: []any{mode, s.Arg}}
	if prepare {
		description, err := conn.Prepare(ctx, s.Text, s.Text)
		switch {
		case ctx.Err() != nil:
			return contextError(ctx)
		case err != nil:
			return err
		}
		q.prepared = description.Name
	}
	result, err := exchange(ctx, conn.PgConn(), q)
	if err != nil {
		return err
	}
	return result.scan(conn.TypeMap(), dest)
}

// Validate returns an error unless conn leads to a writable primary that can commit with
// its standby, if it has synchronous_standby_names.
func Validate(ctx context.Context, conn *pgconn.PgConn) error {
	result, err := exchange(ctx, conn, request{text: `SELECT ` + Columns + ` FROM ` + Server, args: []any{Auto}})
	if err != nil {
		return err
	}
	var server server
	if err := result.scan(pgtype.NewMap(), server.dest(nil)); err != nil {
		return err
	}
	return server.check(true)
}
