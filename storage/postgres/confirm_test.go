package postgres_test

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
)

// TestStorage_UnconfirmedWritesFail makes every call that writes while its commit cannot
// reach the standby.
func TestStorage_UnconfirmedWritesFail(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	const short = 300 * time.Millisecond
	for _, test := range []struct {
		name    string
		begin   func(*pgtest.Pair)
		cancels bool // an operator cancels all waits
		timeout time.Duration
	}{
		{"standby frozen", func(p *pgtest.Pair) { p.Standby.Pause() }, false, short},
		{"standby gone", func(p *pgtest.Pair) { p.Standby.Stop() }, false, short},
		{"standby promoted", (*pgtest.Pair).Promote, false, short},
		{"standby frozen, waits canceled", func(p *pgtest.Pair) { p.Standby.Pause() }, true, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair, operator := startFenced(t)
			pool := connectWith(t, pair.Primary.DSN()+"&pool_max_conns=10", sendCancelRequests)
			begin := func() {
				test.begin(pair)
				if test.cancels {
					cancelWaits(t, operator)
				}
			}
			storagetest.RunUnconfirmed(t, must(postgres.New(pool, nil))(t), begin, test.timeout)

			repeat(t, func(ctx context.Context) error { // PostgreSQL reports success, so the test can fail
				return errorOf(pool.Exec(ctx, `CREATE OR REPLACE VIEW control AS SELECT 1`))
			})
			pair.Primary.Kill() // so that its processes do not wait for the standby when they end
		})
	}
}

// cancelWaits cancels all waits for the standby until stop is called, or the test ends.
func cancelWaits(t *testing.T, operator *pgxpool.Pool) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			operator.Exec(ctx, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// TestDB_UnconfirmedMigrationFails calls the methods of a DB that write.
func TestDB_UnconfirmedMigrationFails(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	pair := pgtest.StartPair(t)
	operator := connect(t, pair.Primary.DSN())
	pool := connectWith(t, pair.Primary.DSN(), sendCancelRequests)
	open := func(schema string) *postgres.DB {
		return must(postgres.New(pool, &postgres.Options{Schema: schema}))(t)
	}
	calls := map[string]func(context.Context) error{
		"Migrate":    open("migrated").Migrate,
		"Pending":    nil, // reads
		"FenceState": nil,
		"Keys":       nil,
		"Symbols":    nil,
		"Exports":    nil,
	}
	pair.Standby.Pause()
	for method := range reflect.TypeFor[*postgres.DB]().Methods() {
		call, ok := calls[method.Name]
		if !ok {
			t.Errorf("add %s to the calls", method.Name)
		}
		if call == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := call(ctx); err == nil {
			t.Errorf("%s succeeds", method.Name)
		}
		cancel()
	}
	pair.Standby.Resume()
	is.NoErr(open("migrated").Migrate(t.Context())) // a second time
	is.True(count(t, operator, `SELECT count(*) FROM migrated.canvasback_migrations`) > 0)
}
