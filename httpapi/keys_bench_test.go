package httpapi_test

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
)

var manyKeys = flag.Int("keys", 10_000, "number of keys of BenchmarkManyKeys")

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
				must(store.Insert(b.Context(), key))
			}
		}}
	},
	"sqlite": func(b *testing.B) keyTable {
		pool, db := openSQLite(b, filepath.Join(b.TempDir(), "bench.db"))
		return keyTable{db.Keys(), func(b *testing.B, count int) {
			_, err := pool.ExecContext(b.Context(), `
				WITH RECURSIVE i (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < ?1)
				INSERT INTO canvasback_keys (name, prefix, mask, owner, digest, active, created_at, updated_at)
				SELECT 'API key', 'cbk_abcdef', 'cbk_abcdef****wxyz', 'tenant ' || i % (?1 / 100), randomblob(32), true, 1e12 + i, 1e12 + i FROM i`, count)
			is.New(b).NoErr(err)
		}}
	},
	"postgres": func(b *testing.B) keyTable {
		pool := must(pgxpool.New(b.Context(), pgtest.Database(b)))
		b.Cleanup(pool.Close)
		db := must(postgres.New(pool, nil))
		is.New(b).NoErr(db.Migrate(b.Context()))
		return keyTable{db.Keys(), func(b *testing.B, count int) {
			_, err := pool.Exec(b.Context(), `
				INSERT INTO canvasback_keys (name, prefix, mask, owner, digest, active, created_at, updated_at)
				SELECT 'API key', 'cbk_abcdef', 'cbk_abcdef****wxyz', 'tenant ' || i % ($1 / 100), sha256(i::text::bytea), true, now(), now()
				FROM generate_series(1, $1::int) AS i`, count)
			if err == nil {
				_, err = pool.Exec(b.Context(), "VACUUM ANALYZE canvasback_keys") // as autovacuum would, in the benchmark
			}
			is.New(b).NoErr(err)
		}}
	},
}

// discardWriter is a ResponseWriter that discards the body.
type discardWriter struct{ header http.Header }

func (s *discardWriter) Header() http.Header         { return s.header }
func (s *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (s *discardWriter) WriteHeader(status int) {
	if status >= 400 {
		panic(http.StatusText(status))
	}
}

// BenchmarkManyKeys compares a database with many keys and one with a thousand, by
// the fastest of alternating calls, which other load affects little.
func BenchmarkManyKeys(b *testing.B) {
	for name, open := range keyTables {
		b.Run(name, func(b *testing.B) {
			few, many := fillKeys(b, open(b), 1000), fillKeys(b, open(b), *manyKeys)
			compare := func(name string, f func(*keyBench) error) {
				b.Run(name, func(b *testing.B) {
					is := is.New(b)
					least := map[*keyBench]time.Duration{few: time.Hour, many: time.Hour}
					for b.Loop() {
						for database := range least {
							start := time.Now()
							is.NoErr(f(database))
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
			b.Run("list", func(b *testing.B) { benchmarkKeyList(b, many) })
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
	is.New(b).NoErr(err)
	api := httpapi.Handler(&httpapi.Options{Keys: service, AdminKeys: []string{"admin"}, Limits: httpapi.Limits{StoreTimeout: time.Hour}})
	return &keyBench{service, api, count, string(issued.Raw)}
}

// list requests a list of keys.
func (k *keyBench) list(query string, w http.ResponseWriter) {
	r := httptest.NewRequest(http.MethodGet, "/admin/api-keys"+query, nil)
	r.Header.Set("x-admin-key", "admin")
	k.api.ServeHTTP(w, r)
}

// benchmarkKeyList requests all keys over HTTP. The baseline reads and encodes them
// before it responds.
func benchmarkKeyList(b *testing.B, k *keyBench) {
	atOnce := func(w http.ResponseWriter, r *http.Request) {
		all, err := k.service.List(r.Context(), keys.Filter{}, keys.Range{})
		if err != nil {
			panic(err)
		}
		body := []byte{'['}
		for i, key := range all.Keys {
			if i > 0 {
				body = append(body, ',')
			}
			body = httpapi.AppendKey(body, &key)
		}
		w.Write(append(body, ']'))
	}
	var paged, baseline listMetrics
	for b.Loop() {
		paged.add(b, k.api)
		baseline.add(b, http.HandlerFunc(atOnce))
	}
	is.New(b).Equal(paged.bytes, baseline.bytes)
	b.ReportMetric(float64(paged.firstByte.Milliseconds()), "ms-first-byte")
	b.ReportMetric(float64(paged.heap)/(1<<20), "MiB-heap")
	b.ReportMetric(float64(baseline.heap)/(1<<20), "MiB-heap-at-once")
	b.ReportMetric(float64(paged.duration)/float64(baseline.duration), "x-at-once")
}

// listMetrics has the least durations of several responses, and the largest heap.
type listMetrics struct {
	firstByte, duration time.Duration
	heap, bytes         int64 // heap beyond that before the request
}

func (r *listMetrics) add(b *testing.B, handler http.Handler) {
	is := is.New(b)
	server := httptest.NewUnstartedServer(handler)
	httpapi.ConfigureServer(server.Config)
	server.Config.WriteTimeout = 0 // for the baseline
	server.Start()
	defer server.Close()
	request, err := http.NewRequest(http.MethodGet, server.URL+"/admin/api-keys", nil)
	is.NoErr(err)
	request.Header.Set("x-admin-key", "admin")
	request.Header.Set("Accept-Encoding", "identity")
	runtime.GC()
	start, before := time.Now(), heapInUse()
	response, err := server.Client().Do(request)
	is.NoErr(err)
	defer response.Body.Close()
	buffer, length, firstByte := make([]byte, 64<<10), int64(0), time.Duration(0)
	for err == nil {
		var n int
		n, err = response.Body.Read(buffer)
		if length == 0 {
			firstByte = time.Since(start)
		}
		length += int64(n)
		r.heap = max(r.heap, heapInUse()-before)
	}
	is.Equal(err, io.EOF)
	duration := time.Since(start)
	if r.bytes == 0 {
		r.firstByte, r.duration = firstByte, duration
	}
	r.firstByte, r.duration, r.bytes = min(r.firstByte, firstByte), min(r.duration, duration), length
}

// heapInUse returns the bytes of all objects, dead ones included.
func heapInUse() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
