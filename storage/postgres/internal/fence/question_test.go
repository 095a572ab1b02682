package fence_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/internal/fence"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

// createShared creates the table of a migration.
func createShared(t *testing.T, operator *pgxpool.Pool) {
	t.Helper()
	migration := must(os.ReadFile("../../migrations/0012_fence.sql"))(t)
	statements, _, _ := strings.Cut(string(migration), "-- Roles")
	execute(t, operator, strings.ReplaceAll(statements, "canvasback_fence", "shared"))
}

// asker is a process that repeats a question.
type asker struct {
	*fence.Fence
	pool *pgxpool.Pool
}

// ask returns the time after which the server was the primary.
func (a *asker) ask(t *testing.T) (confirmed time.Time, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	err = a.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		_, age, err := a.Ask(ctx, c.Conn(), fence.Statement{Text: `SELECT 1`, Read: true})
		confirmed = began.Add(-age)
		return err
	})
	return confirmed, err
}

// startAskers starts processes that ask until stop is called. It calls answered for each
// response.
func startAskers(t *testing.T, dsn string, answered func(confirmed time.Time, err error)) (stop func()) {
	const processes = 20
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range processes {
		settings := "&pool_max_conns=2"
		if i%2 == 1 {
			settings += "&default_query_exec_mode=exec"
		}
		pool := connect(t, dsn+settings, nil)
		a := &asker{newFence(pool, fence.Auto), pool}
		running.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(90 * time.Millisecond) {
				answered(a.ask(t))
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// Processes share the confirmations of the standby, so they use few transaction ids.
func TestAsk_SharesConfirmations(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	pair := pgtest.StartPair(t)
	operator := connect(t, pair.Primary.DSN(), nil)
	createShared(t, operator)
	var responses, failures, oldest atomic.Int64
	stop := startAskers(t, pair.Primary.DSN(), func(confirmed time.Time, err error) {
		if err != nil {
			failures.Add(1)
			return
		}
		responses.Add(1)
		oldest.Store(max(oldest.Load(), time.Since(confirmed).Milliseconds()))
	})
	time.Sleep(time.Second)
	usage := func() (xids, wal int64) {
		is.NoErr(operator.QueryRow(t.Context(), `
			SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&xids, &wal))
		return xids, wal
	}
	defer stop()
	for began := time.Now(); ; { // on a busy machine, slow questions do not share at times
		xids, wal := usage()
		before, from := responses.Load(), time.Now()
		time.Sleep(3 * time.Second)
		seconds := time.Since(from).Seconds()
		laterXIDs, laterWAL := usage()
		asked := responses.Load() - before
		t.Logf("%.0f questions/s, %.1f transaction ids/s, %.0f bytes of WAL/s, %d failures, confirmed %d ms before the response at most",
			float64(asked)/seconds, float64(laterXIDs-xids)/seconds, float64(laterWAL-wal)/seconds, failures.Load(), oldest.Load())
		if asked > 0 && float64(laterXIDs-xids) <= 20*seconds {
			return
		}
		is.True(time.Since(began) < 3*time.Minute)
	}
}

// TestAsk_IsConfirmed checks that no process takes a lost standby for one that confirms.
func TestAsk_IsConfirmed(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	const cancelWaits = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
	for _, test := range []struct {
		name      string
		statement string // that the operator repeats
	}{
		{"alone", `SELECT 1`},
		{"waits are canceled", cancelWaits},
		{"clock is set back", `UPDATE shared SET published_at = clock_timestamp()`},
		{"clock is set forward", `UPDATE shared SET published_at = clock_timestamp() - interval '1 hour'; ` + cancelWaits},
		{"row is of another server", `UPDATE shared SET started = now(), confirmed = confirmed + 1000000000`},
		{"no row", `DELETE FROM shared`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			pair := pgtest.StartPair(t)
			operator := connect(t, pair.Primary.DSN()+"&synchronous_commit=local", nil)
			createShared(t, operator)
			var (
				pausedAt                         atomic.Pointer[time.Time]
				confirmed, unconfirmed, failures atomic.Int64
			)
			stop := startAskers(t, pair.Primary.DSN(), func(at time.Time, err error) {
				paused := pausedAt.Load()
				switch {
				case err != nil && paused != nil:
					failures.Add(1)
				case err == nil && paused != nil && at.After(*paused):
					unconfirmed.Add(1)
				case err == nil:
					confirmed.Add(1)
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			var operating sync.WaitGroup
			operating.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
					operator.Exec(ctx, test.statement)
				}
			})
			time.Sleep(time.Second)
			pair.Standby.Pause()
			pausedAt.Store(new(time.Now()))
			for failures.Load() < 100 {
				time.Sleep(10 * time.Millisecond)
			}
			stop()
			cancel()
			operating.Wait()
			is.True(confirmed.Load() > 0)
			is.Equal(unconfirmed.Load(), int64(0))
			pair.Standby.Resume()
		})
	}
}

// Planning a question for each execution would take longer than executing it.
func TestAsk_IsPlannedOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, conn := acquire(t)
	createShared(t, pool)
	f := newFence(pool, fence.Auto)
	for range 20 {
		_, _, err := f.Ask(t.Context(), conn, fence.Statement{Text: `SELECT 1`, Read: true})
		is.NoErr(err)
	}
	var planned int
	is.NoErr(conn.QueryRow(t.Context(), `SELECT max(custom_plans) FROM pg_prepared_statements WHERE statement LIKE '%shared%'`).Scan(&planned))
	is.Equal(planned, 5)
}
