package keys_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
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

func waitForLease(s *keys.Service) {
	for s.Stats().LeaseAge < 0 {
		time.Sleep(time.Millisecond)
	}
}

// fastest calls f in batches and returns the nanoseconds per call of the fastest one.
// Other load of the machine does not affect it.
func fastest(b *testing.B, f func()) float64 {
	const batch = 100
	least := math.Inf(1)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		for range batch {
			f()
		}
		least = min(least, float64(time.Since(start))/batch)
	}
	b.ReportMetric(least, "ns/call")
	return least
}

// BenchmarkVerify compares a cache hit with its lower bound, the digest of the raw key.
func BenchmarkVerify(b *testing.B) {
	store := memory.New().Keys()
	is := is.New(b)
	s := startService(b, store, nil)
	raw := string(issue(b, s, keys.Fields{}).Raw)
	waitForLease(s)
	ctx := b.Context()
	verify := func() {
		if _, err := s.Verify(ctx, raw); err != nil {
			b.Fatal(err)
		}
	}
	var digest, check float64
	b.Run("SHA-256", func(b *testing.B) {
		text := []byte(raw)
		digest = fastest(b, func() { sha256.Sum256(text) })
	})
	b.Run("cached", func(b *testing.B) {
		check = fastest(b, verify)
		b.ReportMetric(check/digest, "x-digest")
	})
	b.Run("cached,overlap", func(b *testing.B) {
		issued := rotate(b, s, 1, time.Hour)
		previous := fastest(b, verify)
		raw = string(issued.Raw)
		b.ReportMetric(previous-check, "ns-more")
	})
	b.Run("cached,scope", func(b *testing.B) {
		update(b, s, 1, keys.Fields{Scopes: scopes("exports:read", "exports:register", "symbols:read")})
		requireScope := func(key *keys.Key) error {
			if !key.Allows("symbols:read") {
				return keys.ErrInactive
			}
			return nil
		}
		scoped := fastest(b, func() {
			if _, err := s.VerifyFunc(ctx, raw, requireScope); err != nil {
				b.Fatal(err)
			}
		})
		b.ReportMetric(scoped-check, "ns-more")
	})
	b.Run("cached,token", func(b *testing.B) {
		token := string(issueToken(b, s, keys.RawKey(raw), keys.TokenFields{Scopes: *scopes("symbols:read")}).Raw)
		cached := fastest(b, func() {
			if _, err := s.Verify(ctx, token); err != nil {
				b.Fatal(err)
			}
		})
		b.ReportMetric(cached/check, "x-cached")
		b.ReportMetric(float64(len(token)), "characters")
	})
	b.Run("new,token", func(b *testing.B) {
		small, err := keys.NewService(store, &keys.Options{CacheSize: 8}) // holds no token until its next turn
		if err != nil {
			b.Fatal(err)
		}
		expires := time.Now().Add(time.Hour)
		var tokens []string
		for i := range 1 << 10 {
			tokens = append(tokens, signToken(keys.RawKey(raw), tokenPayload(1, expires.Add(time.Duration(i)*time.Second))))
		}
		i := 0
		fastest(b, func() {
			if _, err := small.Verify(ctx, tokens[i%len(tokens)]); err != nil {
				b.Fatal(err)
			}
			i++
		})
	})
	b.Run("cached,parallel", func(b *testing.B) {
		is := is.NewRelaxed(b) // FailNow is for the benchmark's goroutine only
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, err := s.Verify(context.Background(), raw)
				is.NoErr(err)
			}
		})
		b.ReportMetric(check/(float64(b.Elapsed().Nanoseconds())/float64(b.N)), "x-cached")
	})
	b.Run("malformed", func(b *testing.B) {
		b.ReportAllocs()
		malformed := raw[:len(raw)-1] + "-"
		for b.Loop() {
			s.Verify(b.Context(), malformed)
		}
	})
}

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
	"memory":   func(testing.TB) keys.Store { return memory.New().Keys() },
	"sqlite":   func(tb testing.TB) keys.Store { return openSQLite(tb, filepath.Join(tb.TempDir(), "keys.db")) },
	"postgres": func(tb testing.TB) keys.Store { return openPostgres(tb, pgtest.Database(tb)) },
}

func fill(tb testing.TB, store keys.Store, list []keys.Key) {
	for part := range slices.Chunk(list, 1000) {
		_, err := store.Import(tb.Context(), part)
		is.New(tb).NoErr(err)
	}
}

func randomKey() keys.Key {
	key := keys.Key{Name: "key", Active: true, CreatedAt: testTime, UpdatedAt: testTime}
	for i := range key.Digest {
		key.Digest[i] = byte(rand.Uint32())
	}
	return key
}
