package fence

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

// suspend makes a time one that was read before the machine was suspended for an hour: the
// monotonic clock stood still.
func suspend(at *time.Time) { (*struct{ wall uint64 })(unsafe.Pointer(at)).wall -= 3600 << 30 }

// A process that was suspended while the standby was promoted takes no old confirmation for a
// new one.
func TestAsk_AfterSuspend(t *testing.T) {
	is := is.New(t)
	pair := pgtest.StartPair(t)
	connect := func(settings string) *pgx.Conn {
		conn := testflag.Must(pgx.Connect(t.Context(), pair.Primary.DSN()+settings))(t)
		t.Cleanup(func() { conn.Close(context.Background()) })
		return conn
	}
	operator, conn := connect("&synchronous_commit=local"), connect("")
	execute := func(statement string) { testflag.Must(operator.Exec(t.Context(), statement))(t) }
	migration := testflag.Must(os.ReadFile("../../migrations/0012_fence.sql"))(t)
	statements, _, _ := strings.Cut(string(migration), "-- Roles")
	execute(strings.ReplaceAll(statements, "canvasback_fence", "shared"))

	f := New(Options{Mode: Auto, Table: "shared", Logger: slog.New(slog.DiscardHandler)})
	ask := func() (time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, age, err := f.Ask(ctx, conn, Statement{Text: `SELECT 1`, Read: true})
		return age, err
	}
	for range 2 {
		testflag.Must(ask())(t)
	}
	// Another process publishes a confirmation, and then all is lost for an hour.
	execute(`SELECT pg_logical_emit_message(true, 'canvasback', 'x')`)
	execute(`UPDATE shared SET publisher = 1, started = pg_postmaster_start_time(),
		confirmed = (pg_current_wal_insert_lsn() - '0/0')::bigint, published_at = clock_timestamp() - interval '1 hour'`)
	for i := range f.questions.list {
		suspend(&f.questions.list[i].began)
	}
	pair.Standby.Pause()
	defer pair.Standby.Resume()
	execute(`SELECT pg_advisory_lock(hashtext('canvasback fence'), 'shared'::regclass::oid::integer)`) // of a question that waits
	age, err := ask()
	t.Log(age, err)
	is.True(err != nil)
}
