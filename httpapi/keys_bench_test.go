package httpapi_test

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
)

var manyKeys = flag.Int("keys", 10_000, "number of keys of BenchmarkManyKeys")

// keyTables are stores with *manyKeys keys, of which each owner has a hundred.
var keyTables = map[string]func(b *testing.B) keys.Store{
	"sqlite": func(b *testing.B) keys.Store {
		pool, db := openSQLite(b, filepath.Join(b.TempDir(), "bench.db"))
		must(pool.ExecContext(b.Context(), `
			WITH RECURSIVE i (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < ?1)
			INSERT INTO canvasback_keys (name, prefix, mask, owner, digest, active, created_at, updated_at)
			SELECT 'API key', 'cbk_abcdef', 'cbk_abcdef****wxyz', 'tenant ' || i % (?1 / 100), randomblob(32), true, 1e12 + i, 1e12 + i FROM i`, *manyKeys))(b)
		return db.Keys()
	},
	"postgres": func(b *testing.B) keys.Store {
		pool := must(pgxpool.New(b.Context(), pgtest.Database(b)))(b)
		b.Cleanup(pool.Close)
		db := must(postgres.New(pool, nil))(b)
		is.New(b).NoErr(db.Migrate(b.Context()))
		must(pool.Exec(b.Context(), `
			INSERT INTO canvasback_keys (name, prefix, mask, owner, digest, active, created_at, updated_at)
			SELECT 'API key', 'cbk_abcdef', 'cbk_abcdef****wxyz', 'tenant ' || i % ($1 / 100), sha256(i::text::bytea), true, now(), now()
			FROM generate_series(1, $1::int) AS i`, *manyKeys))(b)
		must(pool.Exec(b.Context(), "VACUUM ANALYZE canvasback_keys"))(b) // as autovacuum would, in the benchmark
		return db.Keys()
	},
}

// BenchmarkManyKeys requests the list of all keys.
func BenchmarkManyKeys(b *testing.B) {
	for name, open := range keyTables {
		b.Run(name, func(b *testing.B) {
			service := must(keys.NewService(open(b), nil))(b)
			b.Run("list", func(b *testing.B) { benchmarkKeyList(b, service) })
		})
	}
}

// benchmarkKeyList requests all keys over HTTP. The baseline reads and encodes them
// before it responds.
func benchmarkKeyList(b *testing.B, service *keys.Service) {
	api := httpapi.Handler(&httpapi.Options{Keys: service, AdminKeys: []string{"admin"}, Limits: httpapi.Limits{StoreTimeout: time.Hour}})
	atOnce := func(w http.ResponseWriter, r *http.Request) {
		all, err := service.List(r.Context(), keys.Filter{}, keys.Range{})
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
		paged.add(b, api)
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
	request := must(http.NewRequest(http.MethodGet, server.URL+"/admin/api-keys", nil))(b)
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
