package postgres_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// If the connection is lost around the end of a write, the client gets a 503
// unless the response was faster, and the storage has all of the write or
// nothing. A read shows which.
func TestStorage_WriteIsAtomicWhenConnectionIsLost(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	for _, at := range []dropPoint{beforeRequest, afterRequest, afterResponse} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.Database(t)
			db := migrate(t, connect(t, dsn))
			p, through := newProxy(t, dsn)
			c := droppingClient{client: newClient(t, serve(t, connect(t, through), time.Minute)), proxy: p, at: at}
			issued := c.must("POST", "/admin/api-keys", "")
			c.key, c.record = issued.APIKey, issued.Key.ID
			for round := range testflag.Rounds(10, 10, 300) {
				c.insert(round, db.Symbols())
				c.rename(round)
				c.rotate()
			}
		})
	}
}

// droppingClient sends requests to a process that reaches the database through
// a proxy.
type droppingClient struct {
	*client
	*proxy
	at     dropPoint
	record int64 // id of a key
}

// sendAndDrop sends a request and drops the connection at its statement. It
// reports whether the request was acknowledged nevertheless.
func (c droppingClient) sendAndDrop(matches func(statement string) bool, method, path, body string) (acknowledged bool) {
	t := c.t
	t.Helper()
	c.outageEnded.Store(0)
	defer c.outageEnded.Store(1)
	dropped := c.dropNext(c.at, matches)
	_, acknowledged = c.send(method, path, body)
	select {
	case <-dropped:
	case <-time.After(maxResponseTime):
		t.Fatalf("%s %s: no statement matched", method, path)
	}
	if acknowledged {
		if c.at != afterRequest {
			t.Fatalf("%s %s: acknowledged, although the connection was lost %v", method, path, c.at)
		}
		c.must("GET", fmt.Sprint("/admin/api-keys/", c.record), "") // replaces the dead connection
	}
	return acknowledged
}

// must sends a request that must succeed.
func (c droppingClient) must(method, path, body string) response {
	c.t.Helper()
	got, ok := c.send(method, path, body)
	if !ok {
		c.t.Fatalf("%s %s failed", method, path)
	}
	return got
}

// checkOutcome reports an impossible outcome of a write.
func (c droppingClient) checkOutcome(write string, acknowledged, executed bool) {
	c.t.Helper()
	if c.at == beforeRequest && executed || (c.at == afterResponse || acknowledged) && !executed {
		c.t.Errorf("%s with connection lost %v: acknowledged %v, executed %v", write, c.at, acknowledged, executed)
	}
}

func isCommit(statement string) bool { return statement == "commit" }

// insert tests a single statement that writes.
func (c droppingClient) insert(round int, store symbols.Store) {
	t := c.t
	t.Helper()
	folder := c.must("POST", "/symbol/folders", fmt.Sprintf(`{"name":"folder %d"}`, round))
	acknowledged := c.sendAndDrop(func(statement string) bool { return strings.Contains(statement, "INSERT INTO canvasback_symbols") },
		"POST", fmt.Sprintf("/symbol/folders/%d/symbols", folder.ID), `{"name":"symbol","type":"image/svg+xml","data":"<svg/>"}`)
	page := must(store.ListSymbols(t.Context(), folder.ID, symbols.Range{}, 256<<10, true))(t)
	if len(page.Symbols) > 1 {
		t.Errorf("the symbol exists %d times", len(page.Symbols))
	}
	c.checkOutcome("insert", acknowledged, len(page.Symbols) == 1)
}

// rename tests a transaction.
func (c droppingClient) rename(round int) {
	c.t.Helper()
	folder := c.must("POST", "/symbol/folders", fmt.Sprintf(`{"name":"original %d"}`, round))
	path, name := fmt.Sprint("/symbol/folders/", folder.ID), fmt.Sprint("renamed ", round)
	acknowledged := c.sendAndDrop(isCommit, "PATCH", path, fmt.Sprintf(`{"name":%q}`, name))
	c.checkOutcome("rename", acknowledged, c.must("GET", path, "").Name == name)
	c.must("PATCH", path, fmt.Sprintf(`{"name":%q}`, name)) // repeating it succeeds
}

// rotate tests a write that other requests must observe, even if it was not
// acknowledged.
func (c droppingClient) rotate() {
	t := c.t
	t.Helper()
	issued := c.must("POST", "/admin/api-keys", "")
	check := func() int {
		t.Helper()
		request := must(http.NewRequestWithContext(t.Context(), "GET", c.urls[0]+"/symbol/folders", nil))(t)
		request.Header.Set("x-api-key", issued.APIKey)
		response := must(c.http.Do(request))(t)
		response.Body.Close()
		return response.StatusCode
	}
	if status := check(); status != http.StatusOK { // also puts the key into the cache
		t.Fatalf("a request with a new key returns %d", status)
	}
	acknowledged := c.sendAndDrop(isCommit, "POST", fmt.Sprintf("/admin/api-keys/%d/rotate", issued.Key.ID), "")
	status := check()
	if status != http.StatusOK && status != http.StatusUnauthorized {
		t.Errorf("a request with a key whose rotation lost its connection returns %d", status)
	}
	c.checkOutcome("rotation", acknowledged, status == http.StatusUnauthorized)
}

// TestStorage_UnconfirmedWritesFail makes every call that writes while its commit cannot
// reach the standby.
func TestStorage_UnconfirmedWritesFail(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	const short = 300 * time.Millisecond
	for _, test := range []struct {
		name    string
		begin   func(*pgtest.Pair)
		cancels bool // an operator cancels all waits
		timeout time.Duration
	}{
		{"standby frozen", func(p *pgtest.Pair) { p.Standby.Pause() }, false, short},
		{"standby gone", func(p *pgtest.Pair) { p.Standby.Stop() }, false, short},
		{"standby promoted", (*pgtest.Pair).Promote, false, short},
		{"standby frozen, waits canceled", func(p *pgtest.Pair) { p.Standby.Pause() }, true, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair, operator := startFenced(t)
			pool := connectWith(t, pair.Primary.DSN()+"&pool_max_conns=10", sendCancelRequests)
			begin := func() {
				test.begin(pair)
				if test.cancels {
					cancelWaits(t, operator)
				}
			}
			storagetest.RunUnconfirmed(t, must(postgres.New(pool, nil))(t), begin, test.timeout)

			repeat(t, func(ctx context.Context) error { // PostgreSQL reports success, so the test can fail
				return errorOf(pool.Exec(ctx, `CREATE OR REPLACE VIEW control AS SELECT 1`))
			})
			pair.Primary.Kill() // so that its processes do not wait for the standby when they end
		})
	}
}

// cancelWaits cancels all waits for the standby until stop is called, or the test ends.
func cancelWaits(t *testing.T, operator *pgxpool.Pool) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			operator.Exec(ctx, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// TestDB_UnconfirmedMigrationFails calls the methods of a DB that write.
func TestDB_UnconfirmedMigrationFails(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	pair := pgtest.StartPair(t)
	operator := connect(t, pair.Primary.DSN())
	pool := connectWith(t, pair.Primary.DSN(), sendCancelRequests)
	open := func(schema string) *postgres.DB {
		return must(postgres.New(pool, &postgres.Options{Schema: schema}))(t)
	}
	calls := map[string]func(context.Context) error{
		"Migrate":    open("migrated").Migrate,
		"Pending":    nil, // reads
		"FenceState": nil,
		"Keys":       nil,
		"Symbols":    nil,
		"Exports":    nil,
	}
	pair.Standby.Pause()
	for method := range reflect.TypeFor[*postgres.DB]().Methods() {
		call, ok := calls[method.Name]
		if !ok {
			t.Errorf("add %s to the calls", method.Name)
		}
		if call == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := call(ctx); err == nil {
			t.Errorf("%s succeeds", method.Name)
		}
		cancel()
	}
	pair.Standby.Resume()
	is.NoErr(open("migrated").Migrate(t.Context())) // a second time
	is.True(count(t, operator, `SELECT count(*) FROM migrated.canvasback_migrations`) > 0)
}
