package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	modernc "modernc.org/sqlite"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// If the database cannot grow, writes return 503 and reads succeed. After a
// final deletion writes succeed again.
func TestStorage_FullDatabaseRejectsWritesOnly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := serve(t, file(t)+pragmas+"&_pragma=max_page_count(300)")
	first := a.folder("first")
	stored := a.fill(first)
	for range 3 {
		is.Equal(a.insert(first), http.StatusServiceUnavailable)
		is.Equal(a.count(first), stored) // only the acknowledged symbols
	}

	a.must("DELETE", fmt.Sprint("/symbol/folders/", first), "", new(struct{}))
	second := a.folder("second")
	is.True(a.fill(second) > stored/2)
	a.checkIntegrity()
}

// rejectWritesOnly calls fill, which fills the disk, and checks that reads succeed, and
// that writes return an error and change nothing. After empty they must succeed.
func rejectWritesOnly(t *testing.T, db *sqlite.DB, fill, empty func()) {
	is := is.New(t)
	w := must(newWorker(t.Context(), db))
	n := 0
	for ; n < deleteStep; n++ {
		_, err := w.write(t.Context(), n)
		is.NoErr(err)
	}
	fill()
	var err error
	for puts := 0; err == nil; puts++ { // the smallest of all writes
		is.True(puts < 10_000)
		_, _, err = db.Exports().Put(t.Context(), exports.Export{SourceURL: "filler", CreatedAt: time.Now(), UpdatedAt: time.Now()}, exports.PutRule{})
	}
	for step := range steps {
		_, err := w.write(t.Context(), n+step)
		_, ok := errors.AsType[*modernc.Error](err)
		is.True(ok)
		_, err = db.Keys().Find(t.Context(), w.digest(rotateStep))
		is.NoErr(err)
		content, _, _, err := w.actual(t.Context(), db)
		is.NoErr(err)
		is.Equal(content, w.expected(n))
	}
	empty()
	for range steps {
		_, err := w.write(t.Context(), n)
		is.NoErr(err) // without a restart
		n++
		content, _, _, err := w.actual(t.Context(), db)
		is.NoErr(err)
		is.Equal(content, w.expected(n))
	}
}

// api is a server with the symbol routes over a database file.
type api struct {
	t    *testing.T
	url  string
	pool *sql.DB
}

func serve(t *testing.T, dsn string) api {
	t.Helper()
	pool := connect(t, dsn)
	db := migrate(t, pool)
	library := must(symbols.NewService(db.Symbols(), &symbols.Options{TrashLifetime: -1}))
	server := httptest.NewServer(httpapi.Handler(&httpapi.Options{
		Symbols:                   library,
		DangerouslySkipClientKeys: true,
		Logger:                    slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(server.Close)
	return api{t, server.URL, pool}
}

// send sends a request. A response with status 503 must have a Retry-After header
// and the code of an unavailable store.
func (a api) send(method, path, body string) (status int, content []byte) {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err = io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if response.StatusCode == http.StatusServiceUnavailable &&
		(response.Header.Get("Retry-After") == "" || !strings.Contains(string(content), `"code":"unavailable"`)) {
		a.t.Errorf("%s %s: %v %s", method, path, response.Header, content)
	}
	return response.StatusCode, content
}

// must sends a request that must succeed, and decodes the response.
func (a api) must(method, path, body string, decoded any) {
	a.t.Helper()
	status, content := a.send(method, path, body)
	if status/100 != 2 {
		a.t.Fatalf("%s %s: %d %s", method, path, status, content)
	}
	if err := json.Unmarshal(content, decoded); err != nil {
		a.t.Fatalf("%s %s: %s: %v", method, path, content, err)
	}
}

// folder creates a folder and returns its id.
func (a api) folder(name string) int64 {
	a.t.Helper()
	var folder struct{ ID int64 }
	a.must("POST", "/symbol/folders", fmt.Sprintf(`{"name":%q}`, name), &folder)
	return folder.ID
}

// insert adds a symbol to a folder and returns the status.
func (a api) insert(folder int64) int {
	a.t.Helper()
	status, _ := a.send("POST", fmt.Sprintf("/symbol/folders/%d/symbols", folder),
		fmt.Sprintf(`{"name":"symbol","type":"image/svg+xml","data":%q}`, strings.Repeat("<svg/>", 4000)))
	return status
}

// fill adds symbols to a folder until the store is full, and returns how many it
// accepted.
func (a api) fill(folder int64) int {
	a.t.Helper()
	for stored := range 1000 {
		switch status := a.insert(folder); status {
		case http.StatusCreated:
		case http.StatusServiceUnavailable:
			return stored
		default:
			a.t.Fatalf("inserting a symbol returns %d", status)
		}
	}
	a.t.Fatal("the store accepted 1000 symbols")
	return 0
}

// count returns the number of symbols in a folder.
func (a api) count(folder int64) int {
	a.t.Helper()
	var list []struct{ Data string }
	a.must("GET", fmt.Sprintf("/symbol/folders/%d/symbols", folder), "", &list)
	for _, symbol := range list {
		if len(symbol.Data) != 6*4000 {
			a.t.Errorf("a symbol has %d bytes", len(symbol.Data))
		}
	}
	return len(list)
}

// checkIntegrity reports a corrupt file.
func (a api) checkIntegrity() {
	a.t.Helper()
	var integrity string
	if err := a.pool.QueryRowContext(a.t.Context(), `PRAGMA integrity_check`).Scan(&integrity); err != nil || integrity != "ok" {
		a.t.Errorf("%s, %v", integrity, err)
	}
}
