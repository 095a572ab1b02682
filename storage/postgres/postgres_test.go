package postgres_test

import (
	"testing"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect opens a pool until the end of the test.
func connect(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func open(t testing.TB) storagetest.Harness {
	t.Helper()
	dsn := pgtest.Database(t)
	var pools []*pgxpool.Pool
	again := func() storagetest.Storage {
		pools = append(pools, connect(t, dsn))
		return postgres.New(pools[len(pools)-1], nil)
	}
	first := again()
	if err := first.(*postgres.DB).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy := func() (n int) {
		for _, pool := range pools {
			n += int(pool.Stat().AcquiredConns())
		}
		return n
	}
	return storagetest.Harness{Storage: first, Reopen: again, InUse: busy}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}

func BenchmarkStorage(b *testing.B) {
	storagetest.RunBenchmarks(b, open)
}
