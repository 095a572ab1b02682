package keys_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"
	_ "modernc.org/sqlite"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/sqlite"
)

// issueMany returns keys that no database has yet, and their raw keys.
func issueMany(tb testing.TB, n int) (list []keys.Key, raws []string) {
	s := newService(tb, memory.New().Keys(), nil)
	for range n {
		issued := issue(tb, s, keys.Fields{})
		list, raws = append(list, issued.Key), append(raws, string(issued.Raw))
	}
	return list, raws
}

// openPostgres returns a store with its own pool.
func openPostgres(tb testing.TB, dsn string) keys.Store {
	is := is.New(tb)
	is.Helper()
	pool, err := pgxpool.New(tb.Context(), dsn)
	is.NoErr(err)
	tb.Cleanup(pool.Close)
	db, err := postgres.New(pool, nil)
	is.NoErr(err)
	is.NoErr(db.Migrate(tb.Context()))
	return db.Keys()
}

// openSQLite returns a store with its own pool.
func openSQLite(tb testing.TB, file string) keys.Store {
	is := is.New(tb)
	is.Helper()
	pool, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	is.NoErr(err)
	tb.Cleanup(func() { pool.Close() })
	pool.SetMaxOpenConns(3)
	db, err := sqlite.New(pool)
	is.NoErr(err)
	is.NoErr(db.Migrate(tb.Context()))
	return db.Keys()
}

// openers open an empty store of each database.
var openers = map[string]func(testing.TB) keys.Store{
	"sqlite":   func(tb testing.TB) keys.Store { return openSQLite(tb, filepath.Join(tb.TempDir(), "keys.db")) },
	"postgres": func(tb testing.TB) keys.Store { return openPostgres(tb, pgtest.Database(tb)) },
}

// fill adds keys to a store.
func fill(tb testing.TB, store keys.Store, list []keys.Key) {
	for part := range slices.Chunk(list, 1000) {
		_, err := store.Import(tb.Context(), part)
		is.New(tb).NoErr(err)
	}
}

// countingStore counts reads of keys.
type countingStore struct {
	keys.Store
	finds atomic.Int64
}

func (s *countingStore) Find(ctx context.Context, digest keys.Digest) (keys.Key, error) {
	s.finds.Add(1)
	return s.Store.Find(ctx, digest)
}

// changeKeys changes random keys of a store at a rate per second until ctx ends.
// Every other change creates a key. It returns the number of changes.
func changeKeys(ctx context.Context, store keys.Store, count, rate int) (changes int) {
	if rate == 0 {
		return 0
	}
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return changes
		case <-ticker.C:
		}
		var err error
		if changes%2 == 0 {
			_, err = store.Insert(ctx, randomKey())
		} else {
			_, err = updateKey(ctx, store, 1+rand.Int64N(int64(count)), func(key *keys.Key) error {
				key.ExpiresAt = time.Now().Add(time.Hour + rand.N(time.Hour))
				return nil
			})
		}
		if err == nil {
			changes++
		}
	}
}

func randomKey() keys.Key {
	key := keys.Key{Name: "key", Active: true, CreatedAt: testTime, UpdatedAt: testTime}
	for i := range key.Digest {
		key.Digest[i] = byte(rand.Uint32())
	}
	return key
}

// BenchmarkVerify_WhileKeysChange checks 5,000 keys while another process changes
// keys. It reports the rate of checks relative to that without changes, and the
// reads of the store per change.
func BenchmarkVerify_WhileKeysChange(b *testing.B) {
	const count = 5000
	list, raws := issueMany(b, count)
	store := openers["postgres"](b)
	fill(b, store, list)
	var undisturbed float64
	for _, rate := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprintf("%d per second", rate), func(b *testing.B) {
			is := is.New(b)
			counting := &countingStore{Store: store}
			s := startService(b, counting, nil)
			waitForLease(s)
			verifyAll := func() {
				for _, raw := range raws {
					_, err := s.Verify(b.Context(), raw)
					is.NoErr(err)
				}
			}
			verifyAll()
			counting.finds.Store(0)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			changed := make(chan int)
			go func() { changed <- changeKeys(ctx, store, count, rate) }()
			checks := 0
			for b.Loop() {
				_, err := s.Verify(b.Context(), raws[checks%count])
				is.NoErr(err)
				checks++
			}
			checksPerSecond := float64(checks) / b.Elapsed().Seconds()
			cancel()
			changes := <-changed
			if rate == 0 {
				undisturbed = checksPerSecond
			}
			b.ReportMetric(checksPerSecond/undisturbed, "x-undisturbed")
			b.ReportMetric(float64(counting.finds.Load())/float64(max(changes, 1)), "reads/change")
		})
	}
}

// BenchmarkVerify_MoreKeysThanCache checks 100,000 keys in turn, of which the
// cache holds 65,536, and compares that with the store's own reads of them.
func BenchmarkVerify_MoreKeysThanCache(b *testing.B) {
	count := 100_000
	if testing.Short() {
		count = 1000 // to check that it runs
	}
	list, raws := issueMany(b, count)
	for name, open := range openers {
		b.Run(name, func(b *testing.B) {
			is := is.New(b)
			store := open(b)
			fill(b, store, list)
			s := startService(b, store, nil)
			waitForLease(s)
			for _, raw := range raws {
				_, err := s.Verify(b.Context(), raw)
				is.NoErr(err)
			}
			// Alternating calls see the same load of the machine.
			var read, check time.Duration
			i := 0
			for b.Loop() {
				start := time.Now()
				_, err := store.Find(b.Context(), list[i%len(list)].Digest)
				middle := time.Now()
				_, err2 := s.Verify(b.Context(), raws[i%len(list)])
				read += middle.Sub(start)
				check += time.Since(middle)
				is.NoErr(err)
				is.NoErr(err2)
				i++
			}
			b.ReportMetric(float64(check)/float64(read), "x-read")
		})
	}
}
