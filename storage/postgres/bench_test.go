package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

var (
	processesFlag = flag.Int("processes", 64, "maximum number of processes of BenchmarkProcesses")
	restFlag      = flag.Duration("rest", 0, "how long its processes have checked no key; they ask less after a minute")
)

// BenchmarkProcesses measures the CPU time of a server that processes share, each
// with a connection of its own, while no keys are checked. The baseline is that of
// processes that ask for changes five times per lease.
func BenchmarkProcesses(b *testing.B) {
	b.Run("fenced", func(b *testing.B) {
		pair := pgtest.StartPair(b)
		setMaxConnections(b, pair.Standby)
		setMaxConnections(b, pair.Primary)
		benchmarkProcesses(b, pair.Primary.DSN())
	})
	b.Run("unfenced", func(b *testing.B) {
		server := pgtest.Start(b)
		setMaxConnections(b, server)
		benchmarkProcesses(b, server.DSN())
	})
}

func setMaxConnections(b *testing.B, server *pgtest.Server) {
	pool := connect(b, server.DSN())
	execute(b, pool, fmt.Sprintf(`ALTER SYSTEM SET max_connections = %d`, max(200, *processesFlag+100)))
	pool.Close()
	server.Restart()
}

func benchmarkProcesses(b *testing.B, dsn string) {
	admin := connect(b, dsn)
	prepareKeys(b, admin, 1000)
	for _, n := range []int{8, 64, 256, 1000} {
		if n > *processesFlag {
			break
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			processes := startProcesses(b, dsn, n)
			var idle, asking usage
			for b.Loop() {
				idle.add(b, admin, processes, runService, *restFlag)
				asking.add(b, admin, processes, askChanges, 0)
			}
			b.ReportMetric(idle.cpus(), "CPUs")
			b.ReportMetric(idle.callRate(), "calls/s")
			b.ReportMetric(asking.cpus(), "CPUs-asking")
			b.ReportMetric(asking.callRate(), "calls/s-asking")
			b.ReportMetric(idle.cpus()/asking.cpus(), "x-asking")
		})
	}
}

// process is the store of a process, with a pool of one connection. It counts calls
// of Changes.
type process struct {
	keys.Store
	calls atomic.Int64
}

func (p *process) Changes(ctx context.Context, since int64) (keys.Changes, error) {
	p.calls.Add(1)
	return p.Store.Changes(ctx, since)
}

func startProcesses(b *testing.B, dsn string, n int) []*process {
	processes := make([]*process, n)
	var starting sync.WaitGroup
	limit := make(chan struct{}, 16)
	for i := range processes {
		starting.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			pool, err := pgxpool.New(b.Context(), dsn+"&pool_max_conns=1")
			if err != nil {
				b.Error(err)
				return
			}
			b.Cleanup(pool.Close)
			processes[i] = &process{Store: must(postgres.New(pool, nil))(b).Keys()}
			for range 8 { // after five, the server plans no more
				if _, err := processes[i].Changes(b.Context(), 0); err != nil {
					b.Error(err)
				}
			}
		})
	}
	starting.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return processes
}

// runService runs a process until ctx ends.
func runService(ctx context.Context, p *process, options *keys.Options) {
	service, err := keys.NewService(p, options)
	if err == nil {
		err = service.Run(ctx)
	}
	if err != nil {
		panic(err)
	}
}

// askChanges asks for changes until ctx ends.
func askChanges(ctx context.Context, p *process, _ *keys.Options) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	calls := context.WithoutCancel(ctx) // a canceled call would close the connection
	known, _ := p.Changes(calls, 0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.Changes(calls, known.Epoch)
		}
	}
}

// usage is what processes have used.
type usage struct {
	cpu, duration time.Duration // of the server
	calls         int64
}

func (u *usage) cpus() float64     { return u.cpu.Seconds() / u.duration.Seconds() }
func (u *usage) callRate() float64 { return float64(u.calls) / u.duration.Seconds() }

// add lets processes run, and adds what they use once all have run for the time rest.
func (u *usage) add(b *testing.B, admin *pgxpool.Pool, processes []*process, run func(context.Context, *process, *keys.Options), rest time.Duration) {
	const start = 200 * time.Millisecond
	window := 500*time.Millisecond + rest/4
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	for i, p := range processes {
		running.Go(func() {
			time.Sleep(start * time.Duration(i) / time.Duration(len(processes)))
			run(ctx, p, &keys.Options{Logger: slog.New(slog.DiscardHandler)})
		})
	}
	calls := func() (sum int64) {
		for _, p := range processes {
			sum += p.calls.Load()
		}
		return sum
	}
	time.Sleep(2*start + rest)
	began, cpu, before := time.Now(), serverCPU(b, admin), calls()
	time.Sleep(window)
	u.duration += time.Since(began)
	u.cpu += serverCPU(b, admin) - cpu
	u.calls += calls() - before
	stop()
	running.Wait()
}

// serverCPU returns the CPU time that the processes of the server have used.
func serverCPU(b *testing.B, pool *pgxpool.Pool) (sum time.Duration) {
	b.Helper()
	postmaster := parentOf(fmt.Sprint(count(b, pool, `SELECT pg_backend_pid()`)))
	entries, err := os.ReadDir("/proc")
	if err != nil {
		b.Skip(err)
	}
	for _, entry := range entries {
		if entry.Name() != postmaster && parentOf(entry.Name()) != postmaster {
			continue
		}
		var used time.Duration
		text, _ := os.ReadFile("/proc/" + entry.Name() + "/schedstat") // fails if it has ended
		fmt.Sscan(string(text), &used)
		sum += used
	}
	return sum
}

// parentOf returns the parent of a process, or an empty string if it has ended.
func parentOf(pid string) string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	return fields[1]
}

// BenchmarkRevoke measures calls that deactivate a key while 16 other processes ask
// for changes. A shorter lease makes the calls faster and the server do more.
func BenchmarkRevoke(b *testing.B) {
	server := pgtest.Start(b)
	admin := connect(b, server.DSN())
	prepareKeys(b, admin, 1000)
	processes := startProcesses(b, server.DSN(), 16)
	for _, lease := range []time.Duration{500 * time.Millisecond, 100 * time.Millisecond} {
		b.Run(lease.String(), func(b *testing.B) {
			is := is.New(b)
			options := &keys.Options{Lease: lease, Logger: slog.New(slog.DiscardHandler)}
			ctx, stop := context.WithCancel(b.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			for _, p := range processes {
				running.Go(func() { runService(ctx, p, options) })
			}
			revoker := must(keys.NewService(must(postgres.New(admin, nil))(b).Keys(), options))(b)
			var times []time.Duration
			began, cpu := time.Now(), serverCPU(b, admin)
			for b.Loop() {
				began := time.Now()
				_, err := revoker.Update(b.Context(), 1, keys.Fields{Active: new(false)})
				is.NoErr(err)
				times = append(times, time.Since(began))
			}
			b.ReportMetric((serverCPU(b, admin)-cpu).Seconds()/time.Since(began).Seconds(), "CPUs")
			reportPercentiles(b, times)
		})
	}
}
