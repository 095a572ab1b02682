package httpapi_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
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

const (
	benchSymbols = 50
	benchFolder  = 1
)

// benchDB is a database with a folder of symbols, and hand-written queries to compare
// the handler with.
type benchDB struct {
	keys    keys.Store
	symbols symbols.Store

	// list reads the symbols of the folder and calls each with their columns.
	list func(ctx context.Context, each func(id int64, name, mimeType, data []byte)) error
	// plain is list on a table without storage settings of columns, or nil.
	plain func(ctx context.Context, each func(id int64, name, mimeType, data []byte)) error
	// get reads one symbol.
	get func(ctx context.Context, id int64) (name, mimeType, data string, err error)
	// insert writes one symbol to a table without triggers.
	insert func(ctx context.Context) error
}

func benchSQLite(b *testing.B) benchDB {
	is := is.New(b)
	pool, db := openSQLite(b, filepath.Join(b.TempDir(), "bench.db"))
	pool.SetMaxOpenConns(3)
	pool.SetMaxIdleConns(3)
	prepare := func(statement string) *sql.Stmt {
		prepared, err := pool.Prepare(statement)
		is.NoErr(err)
		b.Cleanup(func() { prepared.Close() })
		return prepared
	}
	fillBench(b, db.Symbols())
	list := prepare(`SELECT id, name, type, data FROM canvasback_symbols WHERE folder_id = ? ORDER BY id`)
	get := prepare(`SELECT name, type, data FROM canvasback_symbols WHERE id = ?`)
	_, err := pool.ExecContext(b.Context(), `
		CREATE TABLE plain_inserts (
			id INTEGER PRIMARY KEY AUTOINCREMENT, folder_id INTEGER, name TEXT, type TEXT, data TEXT
		) STRICT;
		CREATE INDEX plain_inserts_folder_id ON plain_inserts (folder_id)`)
	is.NoErr(err)
	insert := prepare(`INSERT INTO plain_inserts (folder_id, name, type, data) VALUES (2, 'Gate valve', 'application/json', ?)`)
	return benchDB{
		keys:    db.Keys(),
		symbols: db.Symbols(),
		list: func(ctx context.Context, each func(id int64, name, mimeType, data []byte)) error {
			rows, err := list.QueryContext(ctx, benchFolder)
			if err != nil {
				return err
			}
			defer rows.Close()
			var (
				id                   int64
				name, mimeType, data sql.RawBytes
			)
			for rows.Next() {
				if err := rows.Scan(&id, &name, &mimeType, &data); err != nil {
					return err
				}
				each(id, name, mimeType, data)
			}
			return rows.Err()
		},
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
	is := is.New(b)
	pool, err := pgxpool.New(b.Context(), pgtest.Database(b))
	is.NoErr(err)
	b.Cleanup(pool.Close)
	db := must(postgres.New(pool, nil))
	is.NoErr(db.Migrate(b.Context()))
	fillBench(b, db.Symbols())
	for _, statement := range []string{
		`CREATE TABLE plain_symbols (id bigint PRIMARY KEY, folder_id bigint, name text, type text, data text)`,
		`INSERT INTO plain_symbols SELECT id, folder_id, name, type, data FROM canvasback_symbols`,
		`CREATE INDEX ON plain_symbols (folder_id, id)`,
		`CREATE TABLE plain_inserts (LIKE canvasback_symbols INCLUDING IDENTITY INCLUDING INDEXES INCLUDING DEFAULTS)`,
		`VACUUM ANALYZE`,
	} {
		_, err = pool.Exec(b.Context(), statement)
		is.NoErr(err)
	}
	list := func(table string) func(ctx context.Context, each func(id int64, name, mimeType, data []byte)) error {
		return func(ctx context.Context, each func(id int64, name, mimeType, data []byte)) error {
			rows, err := pool.Query(ctx, `SELECT id, name, type, data FROM `+table+` WHERE folder_id = $1 ORDER BY id`, benchFolder)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				raw := rows.RawValues()
				var id int64
				for _, c := range raw[0] {
					id = id<<8 | int64(c)
				}
				each(id, raw[1], raw[2], raw[3])
			}
			return rows.Err()
		}
	}
	return benchDB{
		keys:    db.Keys(),
		symbols: db.Symbols(),
		list:    list("canvasback_symbols"),
		plain:   list("plain_symbols"),
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
	is := is.New(b)
	service := must(symbols.NewService(store, nil))
	for _, name := range []string{"Valves", "Created"} {
		_, err := service.CreateFolder(b.Context(), name)
		is.NoErr(err)
	}
	for i := range benchSymbols {
		_, err := service.CreateSymbol(b.Context(), benchFolder, symbols.NewSymbol{Name: fmt.Sprint("Gate valve ", i), Type: "application/json", Data: canvasData(i)})
		is.NoErr(err)
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

// handWritten returns a hand-written handler that lists symbols.
func handWritten(list func(ctx context.Context, each func(id int64, name, mimeType, data []byte)) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := []byte{'['}
		err := list(r.Context(), func(id int64, name, mimeType, data []byte) {
			if len(body) > 1 {
				body = append(body, ',')
			}
			body = append(body, `{"id":`...)
			body = strconv.AppendInt(body, id, 10)
			body = append(body, `,"name":`...)
			body = appendQuoted(body, name)
			body = append(body, `,"type":`...)
			body = appendQuoted(body, mimeType)
			body = append(body, `,"data":`...)
			body = appendQuoted(body, data)
			body = append(body, `,"folderId":`...)
			body = strconv.AppendInt(body, benchFolder, 10)
			body = append(body, '}')
		})
		if err != nil {
			panic(err)
		}
		writeJSON(w, append(body, ']'))
	}
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
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		is.New(b).NoErr(err)
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
	options := httpapi.Options{
		Keys:    newKeyService(b, db.keys, nil),
		Symbols: must(symbols.NewService(db.symbols, nil)),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { options.Keys.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	issued, err := options.Keys.Create(b.Context(), keys.Fields{})
	is.New(b).NoErr(err)
	raw := string(issued.Raw)
	key := []string{"x-api-key", raw}
	ours := httpapi.Handler(&options)
	options.Limits.ListCache = -1
	uncached := httpapi.Handler(&options)

	const path = "/symbol/folders/1/symbols"
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest("GET", path, nil)
	request.Header.Set("x-api-key", raw)
	ours.ServeHTTP(recorder, request)
	body, tag := recorder.Body.Bytes(), recorder.Header().Get("ETag")
	if recorder.Code != 200 || len(body) < benchSymbols*(4<<10) {
		b.Fatal(recorder.Code, len(body))
	}
	bare := requireKey(raw, func(w http.ResponseWriter, r *http.Request) { writeJSON(w, body) })
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

	compare := func(name string, clients, times, status int, handler http.Handler, method, path, body string, headers []string, other http.Handler) {
		b.Run(name, func(b *testing.B) {
			api := newBenchClient(b, clients, handler, method, path, body, headers...)
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
		compare(fmt.Sprint("list/bare-", clients), clients, 400/clients, 200, ours, "GET", path, "", key, bare)
		compare(fmt.Sprint("get/point-", clients), clients, 4000/clients, 200, ours, "GET", "/symbol/symbols/1", "", key, bareGet)
	}
	compare("304/bare", many, 50, 304, ours, "GET", path, "", append(key, "If-None-Match", tag), bare304)
	if db.list == nil {
		return
	}
	compare("list/loop", many, 50, 200, ours, "GET", path, "", key, requireKey(raw, handWritten(db.list)))
	// A single client, because several share reads.
	compare("uncached/loop", 1, 20, 200, uncached, "GET", path, "", key, requireKey(raw, handWritten(db.list)))
	if db.plain != nil {
		compare("uncached/plain", 1, 20, 200, uncached, "GET", path, "", key, requireKey(raw, handWritten(db.plain)))
		compare("uncached/plain-8-clients", many, 20, 200, uncached, "GET", path, "", key, requireKey(raw, handWritten(db.plain)))
	}
	for _, clients := range []int{1, 16} {
		compare(fmt.Sprint("create/insert-", clients), clients, 160/clients, 201, ours, "POST", "/symbol/folders/2/symbols", created, key,
			requireKey(raw, func(w http.ResponseWriter, r *http.Request) {
				if err := db.insert(r.Context()); err != nil {
					panic(err)
				}
			}))
	}
}
