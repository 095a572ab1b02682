package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
)

// TestMain runs four tests at a time, because most wait for servers.
func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		flag.Set("test.parallel", "4")
	}
	goleak.VerifyTestMain(m)
}

// connect opens a pool that is closed at the end of the test.
func connect(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	return connectWith(t, dsn, func(*pgxpool.Config) {})
}

func connectWith(t testing.TB, dsn string, configure func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config := must(pgxpool.ParseConfig(dsn))(t)
	configure(config)
	pool := must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

// traced returns a function for connectWith that calls trace before each statement.
func traced(trace func(conn *pgx.Conn, data pgx.TraceQueryStartData)) func(*pgxpool.Config) {
	return func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer(trace) }
}

type tracer func(conn *pgx.Conn, data pgx.TraceQueryStartData)

func (trace tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	trace(conn, data)
	return ctx
}

func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// newDatabase returns a migrated database, and a pool for its operator.
func newDatabase(t testing.TB) (operator *pgxpool.Pool, db *postgres.DB) {
	t.Helper()
	dsn := pgtest.Database(t)
	return connect(t, dsn), migrate(t, connect(t, dsn))
}

// alterSystem changes a setting of a server: "SET x = 1" or "RESET x".
func alterSystem(t testing.TB, operator *pgxpool.Pool, change string) {
	t.Helper()
	execute(t, operator, `ALTER SYSTEM `+change)
	execute(t, operator, `SELECT pg_reload_conf()`)
}

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

// migrate returns a DB whose schema it brings to the latest version.
func migrate(t testing.TB, pool *pgxpool.Pool) *postgres.DB {
	t.Helper()
	db := must(postgres.New(pool, nil))(t)
	is.New(t).NoErr(db.Migrate(t.Context()))
	return db
}

// begin executes a statement in a transaction that ends with the test at the latest.
func begin(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) pgx.Tx {
	t.Helper()
	tx := must(pool.Begin(t.Context()))(t)
	t.Cleanup(func() { tx.Rollback(context.Background()) })
	must(tx.Exec(t.Context(), statement, args...))(t)
	return tx
}

func TestNew_RejectsInvalidOptions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.True(errorOf(postgres.New(nil, nil)) != nil)
	pool := connect(t, "postgres://127.0.0.1:1/unused")
	for _, options := range []*postgres.Options{
		{Schema: strings.Repeat("s", 64)}, {Schema: "a\x00b"}, {Fence: -1}, {Fence: postgres.FenceStrict + 1},
	} {
		is.True(errorOf(postgres.New(pool, options)) != nil)
	}
	for _, options := range []*postgres.Options{nil, {}, {Schema: strings.Repeat("s", 63), Fence: postgres.FenceStrict}} {
		must(postgres.New(pool, options))(t)
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	s := newSchemas(connect(t, dsn))
	var poolsOf sync.Map // *[]*pgxpool.Pool of each schema, which its next test uses as well
	open := func(test testing.TB) storagetest.Harness {
		options := s.take(test)
		value, _ := poolsOf.LoadOrStore(options.Schema, new([]*pgxpool.Pool))
		pools, opened := value.(*[]*pgxpool.Pool), 0
		reopen := func() storagetest.Storage {
			if opened++; opened > len(*pools) {
				*pools = append(*pools, connect(t, dsn))
			}
			return must(postgres.New((*pools)[opened-1], options))(test)
		}
		inUse := func() (n int) {
			for _, pool := range *pools {
				n += int(pool.Stat().AcquiredConns())
			}
			return n
		}
		return storagetest.Harness{Storage: reopen(), Reopen: reopen, InUse: inUse}
	}
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}

// TestStorage_PassesInEachQueryMode runs the contracts without prepared
// statements, as behind a pooler, with a stricter default isolation level, other forms of
// times and bytes in text, and fenced.
func TestStorage_PassesInEachQueryMode(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	for _, test := range []struct {
		name, settings string
		fence          postgres.Fence
	}{
		{"exec mode, serializable", "&default_query_exec_mode=exec&default_transaction_isolation=serializable&DateStyle=German", postgres.FenceAuto},
		{"simple protocol, fenced", "&default_query_exec_mode=simple_protocol&bytea_output=escape", postgres.FenceAlways},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSchemas(connect(t, pgtest.Database(t)+test.settings))
			s.fence = test.fence
			storagetest.Run(t, s.open)
		})
	}
}

// schemas provides storages in the schemas of one database. A test reuses the
// schema of a finished one, because a migration takes longer than most tests.
type schemas struct {
	pool    *pgxpool.Pool
	fence   postgres.Fence
	created atomic.Int64
	unused  chan string
}

func newSchemas(pool *pgxpool.Pool) *schemas {
	return &schemas{pool: pool, unused: make(chan string, 100)}
}

func (s *schemas) open(t testing.TB) storagetest.Harness {
	t.Helper()
	options := s.take(t)
	reopen := func() storagetest.Storage { return must(postgres.New(s.pool, options))(t) }
	return storagetest.Harness{Storage: reopen(), Reopen: reopen}
}

// take returns the options for a migrated schema with empty tables.
func (s *schemas) take(t testing.TB) *postgres.Options {
	t.Helper()
	options := postgres.Options{Fence: s.fence}
	select {
	case options.Schema = <-s.unused:
	default:
		options.Schema = fmt.Sprintf(`schema "%d"`, s.created.Add(1))
		if err := must(postgres.New(s.pool, &options))(t).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		prefix, statements := pgx.Identifier{options.Schema}.Sanitize()+".canvasback_", ""
		for _, table := range strings.Fields("keys symbols folders trash trash_symbols exports key_usage links facts") {
			statements += `DELETE FROM ` + prefix + table + `;`
		}
		if _, err := s.pool.Exec(context.Background(), statements); err != nil {
			t.Error(err)
		}
		s.unused <- options.Schema
	})
	return &options
}
