package fence

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Mode selects on which servers statements are fenced. It is the parameter of
// selectServer.
type Mode int32

const (
	Auto Mode = iota // on servers that have synchronous_standby_names
	Always
	Never
	Strict // as Auto, and reject a server whose state is not Complete
)

const (
	// timeout bounds a fenced read. It is much longer than the read takes, and short
	// enough to find a new primary while the caller waits.
	timeout = time.Second

	// maxPrepared bounds the prepared statements of a connection: each schema has its
	// own.
	maxPrepared = 512
)

// Options configure a [Fence].
type Options struct {
	Mode      Mode
	Table     string          // name of canvasback_fence
	Prepare   bool            // statements, once per connection
	Text      bool            // results are in text unless a query has another mode
	ReadWrite bool            // reject a server that is read-only
	Tracer    pgx.QueryTracer // or nil
	Logger    *slog.Logger
}

// Fence executes the statements of one database. It is safe for concurrent use.
type Fence struct {
	options   Options
	last      atomic.Pointer[setting] // of the last server; nil at first
	process   int64                   // random
	pooled    atomic.Bool             // see LosesStatements
	questions questions
}

// setting is synchronous_standby_names of a server.
type setting struct {
	names string
	state State
}

// New returns a Fence.
func New(options Options) *Fence { return &Fence{options: options, process: rand.Int64()} }

// Statement is a statement outside a transaction, or [Commit].
type Statement struct {
	Text string
	Args []any
	Read bool // Text does not write
}

// Commit ends a transaction.
var Commit = Statement{Text: "commit"}

// Exec executes a statement in one round trip. Errors for which [IsNotPrimary] reports
// true mean that conn leads to the wrong server. If ctx ends, Exec closes the connection.
func (f *Fence) Exec(ctx context.Context, conn *pgx.Conn, s Statement) (Result, error) {
	result, _, err := f.exec(ctx, conn, s, Statement{Text: selectServer, Args: []any{int32(f.options.Mode)}})
	return result, err
}

// exec is Exec with a first statement that returns the server.
func (f *Fence) exec(ctx context.Context, conn *pgx.Conn, s, first Statement) (result Result, server server, err error) {
	if tracer := f.options.Tracer; tracer != nil {
		ctx = tracer.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: s.Text, Args: s.Args})
		defer func() { tracer.TraceQueryEnd(ctx, conn, pgx.TraceQueryEndData{CommandTag: result.Tag, Err: err}) }()
	}
	if s.Read && f.State() != Off {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	requests, err := f.requests(ctx, conn, first, s)
	if err != nil {
		return Result{}, server, err
	}
	results, err := exchange(ctx, conn.PgConn(), conn.TypeMap(), requests...)
	if err != nil {
		return Result{}, server, err
	}
	if err := server.scan(results[0]); err != nil {
		return Result{}, server, err
	}
	f.observe(ctx, server.names)
	if s.Text == Commit.Text && results[1].Tag.String() != "COMMIT" {
		return Result{}, server, pgx.ErrTxCommitRollback
	}
	err = server.check(f.options.ReadWrite)
	if err == nil && f.options.Mode == Strict && stateOf(server.names) != Complete {
		err = fmt.Errorf("postgres: not all standbys confirm commits: synchronous_standby_names = %q", server.names)
	}
	return results[1], server, err
}

// State returns the state of the last server, or an empty text before the first
// statement.
func (f *Fence) State() State {
	if last := f.last.Load(); last != nil {
		return last.state
	}
	return ""
}

// observe logs a setting that differs from the last one.
func (f *Fence) observe(ctx context.Context, names string) {
	last := f.last.Load()
	if last != nil && last.names == names {
		return
	}
	state := stateOf(names)
	switch {
	case f.options.Mode == Never:
		state = Off
	case f.options.Mode == Always && state == Off: // the application knows better
		state = Complete
	}
	if !f.last.CompareAndSwap(last, &setting{names, state}) {
		return
	}
	level := slog.LevelWarn
	if state == Complete || state == Off && last == nil && f.options.Mode != Strict {
		level = slog.LevelInfo
	}
	f.options.Logger.Log(ctx, level, "failover fence", "state", state, "synchronous_standby_names", names)
}

// LosesStatements reports whether err means that a pooler does not keep the prepared
// statements of a connection, so that the call can be repeated. From the first such error
// on, Exec prepares nothing.
func (f *Fence) LosesStatements(ctx context.Context, err error) bool {
	if !f.options.Prepare || !hasCode(err, noSuchStatement, duplicateStatement) {
		return false
	}
	if !f.pooled.Swap(true) {
		f.options.Logger.WarnContext(ctx, "pooler loses prepared statements, using none from now on", "error", err)
	}
	return true
}

// Args returns the arguments for a statement of pgx, after an option to keep no
// prepared statement on the server behind such a pooler.
func (f *Fence) Args(args []any) []any {
	if !f.pooled.Load() {
		return args
	}
	return append([]any{pgx.QueryExecModeCacheDescribe}, args...)
}

// QueryArgs is Args for a query. Its results are binary: those in text depend on settings of
// the session.
func (f *Fence) QueryArgs(args []any) []any {
	if f.options.Text {
		return append([]any{pgx.QueryExecModeCacheDescribe}, args...)
	}
	return f.Args(args)
}

// requests prepares the statements of one exchange. Doing so once saves four times the CPU
// time of the execution, for parsing and planning.
func (f *Fence) requests(ctx context.Context, conn *pgx.Conn, statements ...Statement) (list []*request, err error) {
	var prepared map[string]*pgconn.StatementDescription
	if f.options.Prepare && !f.pooled.Load() {
		if prepared, err = prepare(ctx, conn, statements); err != nil {
			return nil, cmp.Or(contextError(ctx), err)
		}
	}
	list = make([]*request, len(statements))
	for i, s := range statements {
		if list[i], err = newRequest(conn.TypeMap(), s.Text, prepared[s.Text], s.Args); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// prepare prepares statements, and returns the prepared ones of the connection by text. If
// there would be too many, it first discards all.
func prepare(ctx context.Context, conn *pgx.Conn, list []Statement) (map[string]*pgconn.StatementDescription, error) {
	const key = "canvasback prepared statements"
	prepared, ok := conn.PgConn().CustomData()[key].(map[string]*pgconn.StatementDescription)
	if !ok {
		prepared = make(map[string]*pgconn.StatementDescription)
		conn.PgConn().CustomData()[key] = prepared
	}
	isNew := func(s Statement) bool { return prepared[s.Text] == nil }
	if len(prepared)+len(list) > maxPrepared && slices.ContainsFunc(list, isNew) {
		if err := conn.DeallocateAll(ctx); err != nil {
			return nil, err
		}
		clear(prepared)
	}
	for _, s := range list {
		if isNew(s) {
			description, err := conn.Prepare(ctx, s.Text, s.Text)
			if err != nil {
				return nil, err
			}
			prepared[s.Text] = description
		}
	}
	return prepared, nil
}

// Validate returns an error unless conn leads to a writable primary that can commit with
// its standby, if it has synchronous_standby_names.
func Validate(ctx context.Context, conn *pgconn.PgConn) error {
	types := pgtype.NewMap()
	settings, err := newRequest(types, selectServer, nil, []any{int32(Auto)})
	if err != nil {
		return err
	}
	results, err := exchange(ctx, conn, types, settings)
	if err != nil {
		return err
	}
	var server server
	if err := server.scan(results[0]); err != nil {
		return err
	}
	return server.check(true)
}
