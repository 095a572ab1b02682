package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// BenchmarkReads compares reads of symbols and folders with a handler that checks a key
// and writes a fixed body of the same size: the limit. Requests alternate, and their
// fastest rounds are compared.
func BenchmarkReads(b *testing.B) {
	sqlite := newReadBench(b, benchSQLite(b), 0)
	inMemory := newReadBench(b, benchMemory(b), 0)
	const list, one, clients = "/symbol/folders/1/symbols", "/symbol/symbols/1", 16

	b.Run("list", func(b *testing.B) {
		t := race(b, clients, sqlite.get(list), inMemory.get(list), sqlite.limit(list))
		b.ReportMetric(t[0]/t[1], "x-memory/sqlite")
		b.ReportMetric(t[2]/t[0], "x-sqlite/limit")
		b.ReportMetric(t[2]/t[1], "x-memory/limit")
		b.ReportMetric(objects(b, sqlite.get(list)), "objects-sqlite")
		b.ReportMetric(objects(b, inMemory.get(list)), "objects-memory")
	})
	b.Run("get", func(b *testing.B) {
		t := race(b, clients, sqlite.get(one), inMemory.get(one), sqlite.limit(one))
		b.ReportMetric(t[2]/t[0], "x-sqlite/limit")
		b.ReportMetric(t[2]/t[1], "x-memory/limit")
		b.ReportMetric(objects(b, sqlite.get(one)), "objects-sqlite")
		b.ReportMetric(objects(b, inMemory.get(one)), "objects-memory")
		b.ReportMetric(objects(b, sqlite.limit(one)), "objects-limit")
	})
	b.Run("folders", func(b *testing.B) {
		for i := range 18 {
			sqlite.create(b, fmt.Sprint("Folder of valves ", i), 0, "")
		}
		const folders = "/symbol/folders"
		size := sqlite.response(folders).Body.Len()
		symbolList := sqlite.create(b, "of equal size", 1, strings.Repeat("x", size-len(`[{"id":10000,"name":"0","type":"text/plain","data":"","folderId":10}]`)))
		t := race(b, clients, sqlite.get(folders), sqlite.get(symbolList), sqlite.limit(folders))
		b.ReportMetric(t[1]/t[0], "x-folders/symbols")
		b.ReportMetric(t[2]/t[0], "x-folders/limit")
		b.ReportMetric(objects(b, sqlite.get(folders)), "objects")
	})
}

// BenchmarkListSizes compares the time per byte of lists of 10 to 10,000 symbols.
func BenchmarkListSizes(b *testing.B) {
	bench := newReadBench(b, benchSQLite(b), 256<<20)
	var targets []readTarget
	for _, count := range []int{10, 100, 1000, 10_000} {
		path := bench.create(b, fmt.Sprint(count), count, canvasData(1))
		targets = append(targets, bench.get(path), bench.limit(path))
	}
	t := race(b, 2, targets...)
	least := math.Inf(1) // ns per byte of shorter lists
	growth := 0.0
	for i := 0; i < len(t); i += 2 {
		perByte := 1000 * t[i] / float64(targets[i].size)
		count := strconv.Itoa(int(math.Pow10(i/2 + 1)))
		b.ReportMetric(perByte, "ns/byte-"+count)
		b.ReportMetric(t[i+1]/t[i], "x/limit-"+count)
		growth = max(growth, perByte/least)
		least = min(least, perByte)
	}
	b.ReportMetric(growth, "x-growth")
}

// BenchmarkManyFolders reads folders at random, which take four times the cache, and
// reports the resident memory that this adds. With -benchtime 2x it has full size.
func BenchmarkManyFolders(b *testing.B) {
	folders, cache, requests := 100, int64(6<<20), 400
	if b.N > 1 {
		folders, cache, requests = 1000, 64<<20, 6000
	}
	bench := newReadBench(b, benchSQLite(b), cache)
	for i := range folders {
		bench.create(b, fmt.Sprint("many ", i), 50, canvasData(i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	request := func() {
		r := httptest.NewRequest("GET", fmt.Sprint("/symbol/folders/", 3+random.IntN(folders), "/symbols"), nil)
		r.Header.Set("x-api-key", bench.key)
		bench.handler.ServeHTTP(&discardWriter{make(http.Header)}, r)
	}
	runtime.GC()
	idle := resident()
	peak := idle
	start := time.Now()
	for i := range requests {
		request()
		if i%20 == 0 {
			peak = max(peak, resident())
		}
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(requests), "us/request")
	b.ReportMetric(float64(idle)/(1<<20), "MiB-idle")
	b.ReportMetric(float64(peak-idle)/float64(cache), "x-cache")
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

// resident returns the resident memory of the process in bytes, or 0 if unknown.
func resident() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var total, pages int64
	fmt.Sscan(string(text), &total, &pages)
	return pages * int64(os.Getpagesize())
}

// benchMemory is benchSQLite in memory, without hand-written queries.
func benchMemory(b *testing.B) benchDB {
	db := memory.New()
	fillBench(b, db.Symbols())
	get := func(ctx context.Context, id int64) (name, mimeType, data string, err error) {
		symbol, err := db.Symbols().GetSymbol(ctx, id)
		return symbol.Name, symbol.Type, symbol.Data, err
	}
	return benchDB{keys: db.Keys(), symbols: db.Symbols(), get: get}
}

// readBench serves a database to a client key.
type readBench struct {
	b       *testing.B
	service *symbols.Service
	handler http.Handler
	key     string
}

func newReadBench(b *testing.B, db benchDB, cache int64) readBench {
	service := must(keys.NewService(db.keys, nil))(b)
	issued := must(service.Create(b.Context(), keys.Fields{}))(b)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { service.Run(ctx); close(done) }()
	b.Cleanup(func() { cancel(); <-done })
	library := must(symbols.NewService(db.symbols, nil))(b)
	handler := httpapi.Handler(&httpapi.Options{Keys: service, Symbols: library, Limits: httpapi.Limits{ListCache: cache}, Logger: slog.New(slog.DiscardHandler)})
	return readBench{b, library, handler, string(issued.Raw)}
}

// create creates a folder of symbols with the same data. It returns the path of their list.
func (r readBench) create(b *testing.B, name string, count int, data string) string {
	folder := must(r.service.CreateFolder(b.Context(), name))(b)
	given := make([]symbols.NewSymbol, count)
	for i := range given {
		given[i] = symbols.NewSymbol{Name: fmt.Sprint(i), Type: "text/plain", Data: data}
	}
	must(r.service.CreateSymbols(b.Context(), folder.ID, given))(b)
	return fmt.Sprintf("/symbol/folders/%d/symbols", folder.ID)
}

// response returns the response to a GET.
func (r readBench) response(path string) *httptest.ResponseRecorder {
	recorder := serveOnce(r.handler, "GET", path, "", "x-api-key", r.key)
	if recorder.Code != 200 {
		r.b.Fatal(path, recorder.Code)
	}
	return recorder
}

// readTarget is a GET request, and the size of its body.
type readTarget struct {
	handler http.Handler
	path    string
	key     string
	size    int
}

func (r readBench) get(path string) readTarget {
	return readTarget{r.handler, path, r.key, r.response(path).Body.Len()}
}

// limit returns a handler that checks the key and writes the bytes of a path.
func (r readBench) limit(path string) readTarget {
	body := r.response(path).Body.Bytes()
	return readTarget{requireKey(r.key, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, body) }), path, r.key, len(body)}
}

// readClient repeats a GET on one connection without allocating. Its responses have
// the same size.
type readClient struct {
	conn    net.Conn
	request []byte
	size    int
	buffer  []byte
}

func newReadClient(b *testing.B, addr string, t readTarget) *readClient {
	is := is.New(b)
	conn := must(net.Dial("tcp", addr))(b)
	b.Cleanup(func() { conn.Close() })
	c := &readClient{conn, fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: bench\r\nX-Api-Key: %s\r\n\r\n", t.path, t.key), 0, make([]byte, 256<<10)}
	_, err := conn.Write(c.request)
	is.NoErr(err)
	var header bytes.Buffer
	reader := bufio.NewReader(io.TeeReader(conn, &header))
	response, err := http.ReadResponse(reader, nil)
	is.NoErr(err)
	is.Equal(response.StatusCode, 200)
	_, err = io.Copy(io.Discard, response.Body)
	is.NoErr(err)
	if response.ContentLength >= 0 {
		c.size = header.Len()
	}
	return c
}

func (c *readClient) call(times int) error {
	for range times {
		if _, err := c.conn.Write(c.request); err != nil {
			return err
		}
		if c.size == 0 { // without Content-Length
			response, err := http.ReadResponse(bufio.NewReaderSize(c.conn, 256<<10), nil)
			if err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				return err
			}
			continue
		}
		for n := 0; n < c.size; {
			m, err := c.conn.Read(c.buffer[:min(len(c.buffer), c.size-n)])
			if err != nil {
				return err
			}
			n += m
		}
	}
	return nil
}

// readClients repeat a request at the same time.
func readClients(b *testing.B, count int, t readTarget) []*readClient {
	server := httptest.NewUnstartedServer(t.handler)
	httpapi.ConfigureServer(server.Config)
	server.Start()
	b.Cleanup(server.Close)
	all := make([]*readClient, count)
	for i := range all {
		all[i] = newReadClient(b, server.Listener.Addr().String(), t)
	}
	return all
}

func callAll(b *testing.B, all []*readClient, times int) time.Duration {
	errs := make(chan error, len(all))
	start := time.Now()
	for _, c := range all {
		go func() { errs <- c.call(times) }()
	}
	for range all {
		is.New(b).NoErr(<-errs)
	}
	return time.Since(start)
}

// race returns the time per request of each target in µs, that of its fastest round.
func race(b *testing.B, clients int, targets ...readTarget) []float64 {
	all := make([][]*readClient, len(targets))
	times := make([]int, len(targets)) // requests of a client in a round
	fastest := make([]float64, len(targets))
	for i, t := range targets {
		all[i] = readClients(b, clients, t)
		times[i] = max(1, 8_000_000/(t.size+40_000)/clients)
		fastest[i] = math.Inf(1)
	}
	for b.Loop() {
		for range 5 {
			for i := range targets {
				spent := callAll(b, all[i], times[i])
				fastest[i] = min(fastest[i], float64(spent.Nanoseconds())/1000/float64(times[i]*clients))
			}
		}
	}
	for i := range targets {
		b.ReportMetric(fastest[i], "us-"+strconv.Itoa(i))
	}
	return fastest
}

// objects returns how many objects a request allocates in the server.
func objects(b *testing.B, t readTarget) float64 {
	clients := readClients(b, 1, t)
	callAll(b, clients, 20)
	const times = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	callAll(b, clients, times)
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / times
}
