package httpapi_test

import (
	"database/sql"
	"flag"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/sqlite"
)

var manyKeys = flag.Int("keys", 100_000, "number of keys of BenchmarkManyKeys")

// keyTable is a key store and a function that adds keys quickly, of which each owner
// gets a hundred.
type keyTable struct {
	store keys.Store
	fill  func(b *testing.B, count int)
}

var keyTables = map[string]func(b *testing.B) keyTable{
	"memory": func(*testing.B) keyTable {
		store := memory.New().Keys()
		return keyTable{store, func(b *testing.B, count int) {
			for i := range count {
				key := keys.Key{Name: "API key", Prefix: "cbk_abcdef", Mask: "cbk_abcdef****wxyz", Active: true}
				key.Owner = "tenant " + strconv.Itoa(i%(count/100))
				key.CreatedAt = time.UnixMilli(1)
				key.UpdatedAt = key.CreatedAt
				copy(key.Digest[:], strconv.Itoa(i))
				if _, err := store.Insert(b.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
		}}
	},
	"sqlite": func(b *testing.B) keyTable {
		pool, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bench.db")+
			"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { pool.Close() })
		db := sqlite.New(pool)
		if err := db.Migrate(b.Context()); err != nil {
			b.Fatal(err)
		}
		return keyTable{db.Keys(), func(b *testing.B, count int) {
			_, err := pool.ExecContext(b.Context(), `
				WITH RECURSIVE i (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < ?1)
				INSERT INTO canvasback_keys (name, prefix, mask, owner, digest, active, created_at, updated_at)
				SELECT 'API key', 'cbk_abcdef', 'cbk_abcdef****wxyz', 'tenant ' || i % (?1 / 100), randomblob(32), true, 1e12 + i, 1e12 + i FROM i`, count)
			if err != nil {
				b.Fatal(err)
			}
		}}
	},
	"postgres": func(b *testing.B) keyTable {
		pool, err := pgxpool.New(b.Context(), pgtest.Database(b))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(pool.Close)
		db := postgres.New(pool, nil)
		if err := db.Migrate(b.Context()); err != nil {
			b.Fatal(err)
		}
		return keyTable{db.Keys(), func(b *testing.B, count int) {
			_, err := pool.Exec(b.Context(), `
				INSERT INTO canvasback_keys (name, prefix, mask, owner, digest, active, created_at, updated_at)
				SELECT 'API key', 'cbk_abcdef', 'cbk_abcdef****wxyz', 'tenant ' || i % ($1 / 100), sha256(i::text::bytea), true, now(), now()
				FROM generate_series(1, $1::int) AS i`, count)
			if err == nil {
				_, err = pool.Exec(b.Context(), "VACUUM ANALYZE canvasback_keys") // as autovacuum would, in the benchmark
			}
			if err != nil {
				b.Fatal(err)
			}
		}}
	},
}

// BenchmarkManyKeys compares a database with many keys and one with a thousand, by
// the fastest of alternating calls, which other load affects little.
func BenchmarkManyKeys(b *testing.B) {
	for name, open := range keyTables {
		b.Run(name, func(b *testing.B) {
			few, many := fillKeys(b, open(b), 1000), fillKeys(b, open(b), *manyKeys)
			compare := func(name string, f func(*keyBench) error) {
				b.Run(name, func(b *testing.B) {
					least := map[*keyBench]time.Duration{few: time.Hour, many: time.Hour}
					for b.Loop() {
						for database := range least {
							start := time.Now()
							if err := f(database); err != nil {
								b.Fatal(err)
							}
							least[database] = min(least[database], time.Since(start))
						}
					}
					b.ReportMetric(float64(least[many].Microseconds()), "us-fastest")
					b.ReportMetric(float64(least[many])/float64(least[few]), "x-thousand")
				})
			}
			page := func(query string) func(*keyBench) error {
				return func(k *keyBench) error {
					k.list(query, &discardWriter{make(http.Header)})
					return nil
				}
			}
			compare("page", page("?limit=1000"))
			compare("short page", page("?limit=100"))
			compare("owner", page("?limit=10&owner=tenant+7"))
			compare("last page", func(k *keyBench) error {
				return page("?limit=1000&after=" + strconv.Itoa(k.count-1000))(k)
			})
			compare("check", func(k *keyBench) error {
				_, err := k.service.Verify(b.Context(), k.raw)
				return err
			})
			compare("create", func(k *keyBench) error {
				_, err := k.service.Create(b.Context(), keys.Fields{})
				return err
			})
			b.Run("list", func(b *testing.B) {
				for b.Loop() {
					runtime.GC()
					w := &heapWriter{discardWriter: discardWriter{make(http.Header)}}
					before := heapInUse()
					many.list("", w)
					b.ReportMetric(float64(w.most-before)/(1<<20), "MB-heap")
				}
			})
		})
	}
}

// keyBench is an API over a table of keys.
type keyBench struct {
	service *keys.Service
	api     http.Handler
	count   int
	raw     string // of the last key
}

func fillKeys(b *testing.B, table keyTable, count int) *keyBench {
	table.fill(b, count)
	service := newKeyService(b, table.store, nil)
	issued, err := service.Create(b.Context(), keys.Fields{})
	if err != nil {
		b.Fatal(err)
	}
	return &keyBench{service, httpapi.Handler(httpapi.Options{Keys: service, AdminKeys: []string{"admin"}}), count, string(issued.Raw)}
}

// list requests a list of keys.
func (k *keyBench) list(query string, w http.ResponseWriter) {
	r := httptest.NewRequest(http.MethodGet, "/admin/api-keys"+query, nil)
	r.Header.Set("x-admin-key", "admin")
	k.api.ServeHTTP(w, r)
}

// heapWriter records the largest heap while a body is written.
type heapWriter struct {
	discardWriter
	most int64
}

func (w *heapWriter) Write(p []byte) (int, error) {
	w.most = max(w.most, heapInUse())
	return len(p), nil
}

func heapInUse() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse)
}
