package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
)

// BenchmarkFence measures reads on a server with a synchronous standby.
func BenchmarkFence(b *testing.B) {
	pair := pgtest.StartPair(b)
	pool := connect(b, pair.Primary.DSN())
	prepareKeys(b, pool, 1000)
	for _, fence := range []struct {
		name string
		postgres.Fence
	}{{"auto", postgres.FenceAuto}, {"never", postgres.FenceNever}} {
		store := must(postgres.New(pool, &postgres.Options{Fence: fence.Fence}))(b).Keys()
		for _, call := range fencedReads {
			if call.want == nil {
				b.Run(call.name+"/"+fence.name, func(b *testing.B) { benchmarkCall(b, store, call) })
			}
		}
	}
}

// BenchmarkUnfenced measures reads on a server without a standby.
func BenchmarkUnfenced(b *testing.B) {
	pool := connect(b, pgtest.Database(b))
	prepareKeys(b, pool, 1000)
	for _, call := range fencedReads {
		if call.want == nil {
			b.Run(call.name, func(b *testing.B) { benchmarkCall(b, must(postgres.New(pool, nil))(b).Keys(), call) })
		}
	}
}

// BenchmarkChanges measures the question of a process that knows the last epoch but
// one. Its cost does not depend on the number of keys.
func BenchmarkChanges(b *testing.B) {
	many := 1_000_000
	if testing.Short() {
		many = 20_000
	}
	for _, n := range []int{1000, many} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			pool := connect(b, pgtest.Database(b))
			prepareKeys(b, pool, n)
			store := must(postgres.New(pool, nil))(b).Keys()
			known, err := store.Changes(b.Context(), 0)
			is.New(b).NoErr(err)
			execute(b, pool, `UPDATE canvasback_keys SET active = false WHERE id = 1`)
			benchmarkCall(b, store, fencedCall{call: func(ctx context.Context, store keys.Store) error {
				changes, err := store.Changes(ctx, known.Epoch)
				if err == nil && len(changes.Digests) != 1 {
					b.Error("no changes")
				}
				return err
			}})
		})
	}
}

// prepareKeys creates the schema and at least 1000 keys. The log has the last 1000.
func prepareKeys(b *testing.B, pool *pgxpool.Pool, n int) {
	b.Helper()
	is.New(b).NoErr(must(postgres.New(pool, nil))(b).Migrate(b.Context()))
	execute(b, pool, insertKeys(1, n-1000))
	execute(b, pool, insertKeys(n-999, n))
	execute(b, pool, `VACUUM ANALYZE canvasback_keys, canvasback_key_changes`)
}

func benchmarkCall(b *testing.B, store keys.Store, call fencedCall) {
	is := is.New(b)
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		is.NoErr(call.call(b.Context(), store))
		times = append(times, time.Since(began))
	}
	reportPercentiles(b, times)
}

func reportPercentiles(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	for name, position := range map[string]int{"ms-p50": len(times) / 2, "ms-p99": len(times) * 99 / 100} {
		b.ReportMetric(float64(times[position].Microseconds())/1000, name)
	}
}
