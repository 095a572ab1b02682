package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	modernc "modernc.org/sqlite"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// If the database cannot grow, writes return 503 and reads succeed. After a
// deletion writes succeed again.
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

// If nothing can be committed while the reserve takes up space, keys can still be
// changed and deleted, but not created.
func TestStorage_FullDiskKeepsRevoking(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	name := file(t)
	disk := &fullDisk{dsn: name + pragmas, reserve: strings.TrimPrefix(name, "file:") + "-reserve"}
	pool := sql.OpenDB(disk)
	t.Cleanup(func() { pool.Close() })
	db := must(sqlite.New(pool))
	is.NoErr(db.Migrate(t.Context()))
	is.Equal(disk.reserveSize(), int64(2<<20))
	store := db.Keys()
	newKey := func(n byte) keys.Key {
		return keys.Key{Name: "key", Active: true, Digest: keys.Digest{n}, CreatedAt: time.Now(), UpdatedAt: time.Now()}
	}
	for n := range byte(2) {
		_, err := store.Insert(t.Context(), newKey(n))
		is.NoErr(err)
	}
	before, err := store.Changes(t.Context(), 0)
	is.NoErr(err)

	disk.full.Store(true)
	for range 3 {
		_, err = store.Insert(t.Context(), newKey(2))
		is.True(errors.Is(err, errInjected))
		key, err := store.Update(t.Context(), 1, func(key *keys.Key) error {
			key.Active = !key.Active
			return nil
		})
		is.NoErr(err)
		stored, err := store.Find(t.Context(), keys.Digest{0})
		is.NoErr(err)
		is.Equal(stored, key)
		is.Equal(disk.reserveSize(), int64(2<<20)) // restored
	}
	_, err = store.Delete(t.Context(), 2)
	is.NoErr(err)
	_, err = store.Find(t.Context(), keys.Digest{1})
	is.Equal(err, keys.ErrNotFound)
	_, err = store.Delete(t.Context(), 2)
	is.Equal(err, keys.ErrNotFound)
	after, err := store.Changes(t.Context(), before.Epoch)
	is.NoErr(err)
	is.Equal(after.Digests, []keys.Digest{{0}, {0}, {0}, {1}}) // each change once

	// Without a reserve the error remains. A later write restores it.
	is.NoErr(os.Remove(disk.reserve))
	disk.fullAnyway.Store(true)
	_, err = store.Delete(t.Context(), 1)
	is.True(errors.Is(err, errInjected))
	is.NoErr(os.Remove(disk.reserve))
	disk.full.Store(false)
	is.NoErr(store.Touch(t.Context(), nil, time.Now()))
	is.Equal(disk.reserveSize(), int64(2<<20))
	_, err = store.Delete(t.Context(), 1)
	is.NoErr(err)
}

// fullDisk opens connections that can commit nothing while the disk is full, unless
// the reserve is empty.
type fullDisk struct {
	dsn, reserve     string
	full, fullAnyway atomic.Bool // fullAnyway also with an empty reserve
}

func (*fullDisk) Driver() driver.Driver { return &modernc.Driver{} }

func (d *fullDisk) Connect(context.Context) (driver.Conn, error) {
	conn, err := d.Driver().Open(d.dsn)
	if err != nil {
		return nil, err
	}
	return fullDiskConn{conn.(sqliteConn), d}, nil
}

func (d *fullDisk) reserveSize() int64 {
	info, err := os.Stat(d.reserve)
	if err != nil {
		return 0
	}
	return info.Size()
}

type fullDiskConn struct {
	sqliteConn
	disk *fullDisk
}

func (c fullDiskConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if text == "COMMIT" && c.disk.full.Load() && (c.disk.reserveSize() > 0 || c.disk.fullAnyway.Load()) {
		c.sqliteConn.ExecContext(ctx, "ROLLBACK", nil) // as SQLite does
		return nil, errInjected
	}
	return c.sqliteConn.ExecContext(ctx, text, args)
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
	db := must(sqlite.New(pool))
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	library, err := symbols.NewService(db.Symbols(), nil)
	if err != nil {
		t.Fatal(err)
	}
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
