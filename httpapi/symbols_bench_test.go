package httpapi_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

// canvasData returns about 4 KB of symbol data as front ends write it.
func canvasData(seed int) string {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	data := []byte(`{"name":"Gate valve","type":"group","items":[`)
	for len(data) < 4<<10 {
		data = fmt.Appendf(data, `{"kind":"line","x1":%.2f,"y1":%.2f,"x2":%.2f,"y2":%.2f,"stroke":"#%06x"},`,
			random.Float64()*100, random.Float64()*100, random.Float64()*100, random.Float64()*100, random.IntN(1<<24))
	}
	return string(data) + `{}]}`
}

const benchSymbols = 50

// benchDB is a database with a folder of symbols, and hand-written queries to compare
// the handler with.
type benchDB struct {
	keys    keys.Store
	symbols symbols.Store

	// get reads one symbol.
	get func(ctx context.Context, id int64) (name, mimeType, data string, err error)
	// insert writes one symbol to a table without triggers.
	insert func(ctx context.Context) error
}

func benchSQLite(b *testing.B) benchDB {
	pool, db := openSQLite(b, filepath.Join(b.TempDir(), "bench.db"))
	pool.SetMaxOpenConns(3)
	pool.SetMaxIdleConns(3)
	fillBench(b, db.Symbols())
	must(pool.ExecContext(b.Context(), `
		CREATE TABLE plain_inserts (
			id INTEGER PRIMARY KEY AUTOINCREMENT, folder_id INTEGER, name TEXT, type TEXT, data TEXT
		) STRICT;
		CREATE INDEX plain_inserts_folder_id ON plain_inserts (folder_id)`))(b)
	get := must(pool.Prepare(`SELECT name, type, data FROM canvasback_symbols WHERE id = ?`))(b)
	insert := must(pool.Prepare(`INSERT INTO plain_inserts (folder_id, name, type, data) VALUES (2, 'Gate valve', 'application/json', ?)`))(b)
	return benchDB{
		keys:    db.Keys(),
		symbols: db.Symbols(),
		get: func(ctx context.Context, id int64) (name, mimeType, data string, err error) {
			err = get.QueryRowContext(ctx, id).Scan(&name, &mimeType, &data)
			return name, mimeType, data, err
		},
		insert: func(ctx context.Context) error {
			_, err := insert.ExecContext(ctx, canvasData(0))
			return err
		},
	}
}

func benchPostgres(b *testing.B) benchDB {
	pool := must(pgxpool.New(b.Context(), pgtest.Database(b)))(b)
	b.Cleanup(pool.Close)
	db := must(postgres.New(pool, nil))(b)
	is.New(b).NoErr(db.Migrate(b.Context()))
	fillBench(b, db.Symbols())
	must(pool.Exec(b.Context(), `CREATE TABLE plain_inserts (LIKE canvasback_symbols INCLUDING IDENTITY INCLUDING INDEXES INCLUDING DEFAULTS)`))(b)
	must(pool.Exec(b.Context(), `VACUUM ANALYZE`))(b)
	return benchDB{
		keys:    db.Keys(),
		symbols: db.Symbols(),
		get: func(ctx context.Context, id int64) (name, mimeType, data string, err error) {
			err = pool.QueryRow(ctx, `SELECT name, type, data FROM canvasback_symbols WHERE id = $1`, id).Scan(&name, &mimeType, &data)
			return name, mimeType, data, err
		},
		insert: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, `INSERT INTO plain_inserts (folder_id, name, type, data) VALUES (2, 'Gate valve', 'application/json', $1)`, canvasData(0))
			return err
		},
	}
}

func fillBench(b *testing.B, store symbols.Store) {
	service := must(symbols.NewService(store, nil))(b)
	for _, name := range []string{"Valves", "Created"} {
		must(service.CreateFolder(b.Context(), name))(b)
	}
	for i := range benchSymbols {
		must(service.CreateSymbol(b.Context(), 1, symbols.NewSymbol{Name: fmt.Sprint("Gate valve ", i), Type: "application/json", Data: canvasData(i)}))(b)
	}
}

// appendQuoted is hand-written escaping.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// requireKey is the key check of a hand-written handler.
func requireKey(raw string, next http.HandlerFunc) http.HandlerFunc {
	known := map[[sha256.Size]byte]bool{sha256.Sum256([]byte(raw)): true}
	return func(w http.ResponseWriter, r *http.Request) {
		if !known[sha256.Sum256([]byte(r.Header.Get("x-api-key")))] {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// benchClient repeats one request over its own connections.
type benchClient struct {
	b       *testing.B
	conns   []net.Conn
	request []byte
	spent   time.Duration
}

// newBenchClient serves a handler and opens a connection per client.
func newBenchClient(b *testing.B, clients int, handler http.Handler, method, path, body string, headers ...string) *benchClient {
	server := httptest.NewServer(handler)
	b.Cleanup(server.Close)
	text := method + " " + path + " HTTP/1.1\r\nHost: bench\r\n"
	for i := 0; i < len(headers); i += 2 {
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if body != "" {
		text += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	c := &benchClient{b: b, request: []byte(text + "\r\n" + body)}
	for range clients {
		conn := must(net.Dial("tcp", server.Listener.Addr().String()))(b)
		b.Cleanup(func() { conn.Close() })
		c.conns = append(c.conns, conn)
	}
	return c
}

// call sends the request times times on each connection.
func (c *benchClient) call(times, status int) {
	start := time.Now()
	var wg sync.WaitGroup
	for _, conn := range c.conns {
		wg.Go(func() {
			reader := bufio.NewReaderSize(conn, 64<<10)
			for range times {
				if _, err := conn.Write(c.request); err != nil {
					c.b.Error(err)
					return
				}
				response, err := http.ReadResponse(reader, nil)
				if err != nil {
					c.b.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != status {
					c.b.Error(response.Status, err)
					return
				}
			}
		})
	}
	wg.Wait()
	c.spent += time.Since(start)
}

// BenchmarkSymbols compares routes of the handler with hand-written code on the same
// database. It alternates, so that other load affects both alike. The metric
// x-as-fast is the speed of the handler relative to the hand-written code.
func BenchmarkSymbols(b *testing.B) {
	for _, storage := range []struct {
		name string
		open func(*testing.B) benchDB
	}{{"memory", benchMemory}, {"sqlite", benchSQLite}, {"postgres", benchPostgres}} {
		b.Run(storage.name, func(b *testing.B) { benchRoutes(b, storage.open(b)) })
	}
}

func benchRoutes(b *testing.B, db benchDB) {
	bench := newReadBench(b, db, 0)
	raw, key := bench.key, []string{"x-api-key", bench.key}
	const path = "/symbol/folders/1/symbols"
	tag := bench.response(path).Header().Get("ETag")
	bare304 := requireKey(raw, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		w.WriteHeader(304)
	})
	bareGet := requireKey(raw, func(w http.ResponseWriter, r *http.Request) {
		name, mimeType, data, err := db.get(r.Context(), 1)
		if err != nil {
			panic(err)
		}
		body := append(make([]byte, 0, 5<<10), `{"id":1,"name":`...)
		body = appendQuoted(body, []byte(name))
		body = append(append(body, `,"type":`...), appendQuoted(nil, []byte(mimeType))...)
		body = append(append(body, `,"data":`...), appendQuoted(nil, []byte(data))...)
		writeJSON(w, append(body, `,"folderId":1}`...))
	})
	created := `{"name":"Gate valve","type":"application/json","data":` + quote(canvasData(0)) + `}`

	compare := func(name string, clients, times, status int, method, path, body string, headers []string, other http.Handler) {
		b.Run(name, func(b *testing.B) {
			api := newBenchClient(b, clients, bench.handler, method, path, body, headers...)
			hand := newBenchClient(b, clients, other, method, path, "", headers...)
			otherStatus := status
			if status == 201 {
				otherStatus = 200
			}
			api.call(times, status)
			hand.call(times, otherStatus)
			api.spent, hand.spent = 0, 0
			n := 0
			for b.Loop() {
				api.call(times, status)
				hand.call(times, otherStatus)
				n += times * clients
			}
			b.ReportMetric(float64(hand.spent)/float64(api.spent), "x-as-fast")
			b.ReportMetric(float64(api.spent.Microseconds())/float64(n), "us/request")
		})
	}
	const many = 8
	for _, clients := range []int{many, 16, 256} {
		compare(fmt.Sprint("list/bare-", clients), clients, 400/clients, 200, "GET", path, "", key, bench.limit(path).handler)
		compare(fmt.Sprint("get/point-", clients), clients, 4000/clients, 200, "GET", "/symbol/symbols/1", "", key, bareGet)
	}
	compare("304/bare", many, 50, 304, "GET", path, "", append(key, "If-None-Match", tag), bare304)
	if db.insert == nil {
		return
	}
	for _, clients := range []int{1, 16} {
		compare(fmt.Sprint("create/insert-", clients), clients, 160/clients, 201, "POST", "/symbol/folders/2/symbols", created, key,
			requireKey(raw, func(w http.ResponseWriter, r *http.Request) {
				if err := db.insert(r.Context()); err != nil {
					panic(err)
				}
			}))
	}
}

var searchWords = strings.Fields("gate globe valve pump check motor sensor relay filter tank Ventil Ärmel pipe heat exchanger")

var searchSymbols = flag.Int("symbols", 100_000, "number of symbols of BenchmarkSearch")

// fillSearch creates symbols in folders of 5,000.
func fillSearch(b *testing.B, service *symbols.Service) {
	random := rand.New(rand.NewPCG(1, 1))
	word := func() string { return searchWords[random.IntN(len(searchWords))] }
	folders := *searchSymbols / 5000
	if testing.Short() {
		folders = 1
	}
	for i := range folders {
		folder := must(service.CreateFolder(b.Context(), fmt.Sprint("search ", i)))(b)
		for range 5 {
			given := make([]symbols.NewSymbol, 1000)
			for j := range given {
				given[j] = symbols.NewSymbol{
					Name: fmt.Sprintf("%s %s %d", word(), word(), j), Type: "image/svg+xml",
					Data: strings.Repeat("<path d='M0 0'/>", 64),
				}
			}
			must(service.CreateSymbols(b.Context(), folder.ID, given))(b)
		}
	}
}

// searchPathOf returns a search with many, few or no results.
func searchPathOf(random *rand.Rand) string {
	text := searchWords[random.IntN(len(searchWords))]
	switch random.IntN(3) {
	case 0:
		text += fmt.Sprint(" ", random.IntN(1000)) // few
	case 1:
		text += "?" // none
	}
	return "/symbol/search?q=" + url.QueryEscape(strings.ToUpper(text))
}

// latencies returns those of 8 clients, which send one request at a time each for
// some seconds, in ascending order.
func latencies(b *testing.B, handler http.Handler, path func(*rand.Rand) string) []time.Duration {
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	var (
		mu  sync.Mutex
		all []time.Duration
		wg  sync.WaitGroup
	)
	duration := 4 * time.Second
	if testing.Short() {
		duration /= 20
	}
	end := time.Now().Add(duration)
	for i := range 8 {
		random := rand.New(rand.NewPCG(uint64(i), 2))
		wg.Go(func() {
			for time.Now().Before(end) {
				start := time.Now()
				response, err := client.Get(server.URL + path(random))
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != 200 {
					b.Error(response.Status)
				}
				latency := time.Since(start)
				mu.Lock()
				all = append(all, latency)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all
}

// BenchmarkSearch reports latencies of searches among many symbols (5,000 with -short),
// alone and while another process changes 20 symbols a second, and their relation to
// those of a handler that reads one symbol by its id. Both alternate, so that other load
// affects both alike.
func BenchmarkSearch(b *testing.B) {
	for name, open := range map[string]func(*testing.B) benchDB{"memory": benchMemory, "sqlite": benchSQLite, "postgres": benchPostgres} {
		b.Run(name, func(b *testing.B) {
			db := open(b)
			writer := must(symbols.NewService(db.symbols, nil))(b)
			fillSearch(b, writer)
			api := httpapi.Handler(&httpapi.Options{Symbols: must(symbols.NewService(db.symbols, nil))(b), DangerouslySkipClientKeys: true})
			bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				name, _, _, err := db.get(r.Context(), 1+rand.Int64N(benchSymbols))
				if err != nil {
					b.Error(err)
				}
				io.WriteString(w, name)
			})
			start := time.Now()
			api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/symbol/search?q=first", nil))
			b.Logf("%s: the first search takes %v", name, time.Since(start))
			for _, writes := range []bool{false, true} {
				b.Run(fmt.Sprint("writes=", writes), func(b *testing.B) {
					stop := make(chan struct{})
					var changes sync.WaitGroup
					if writes {
						changes.Go(func() { changeNames(b, writer, stop) })
					}
					var found, read []time.Duration
					for b.Loop() {
						read = append(read, latencies(b, bare, func(*rand.Rand) string { return "/" })...)
						found = append(found, latencies(b, api, searchPathOf)...)
					}
					close(stop)
					changes.Wait()
					slices.Sort(found)
					slices.Sort(read)
					for name, percent := range map[string]int{"p50": 50, "p99": 99} {
						of := func(list []time.Duration) float64 { return list[len(list)*percent/100].Seconds() * 1000 }
						b.ReportMetric(of(found), "ms-"+name)
						b.ReportMetric(of(found)/of(read), "x-read-"+name)
					}
				})
			}
		})
	}
}

// changeNames changes 20 names a second.
func changeNames(b *testing.B, service *symbols.Service, stop <-chan struct{}) {
	ids := int64(*searchSymbols / 2)
	if testing.Short() {
		ids = 4_000
	}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		id := 1000 + rand.Int64N(ids)
		if _, err := service.UpdateSymbol(b.Context(), id, symbols.SymbolFields{Name: new(fmt.Sprint("changed ", i))}, symbols.Any); err != nil {
			b.Error(err)
		}
	}
}
