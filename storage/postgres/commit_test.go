package postgres_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/symbols"
	"github.com/matryer/is"
)

// A connection that is cut around the end of a write leaves the client with a
// 503, unless the answer was faster, and the storage with all of the write or
// nothing, which a read tells.
func TestStorage_cutWrites(t *testing.T) {
	t.Parallel()
	rounds := 10
	if storagetest.Long() {
		rounds = 300
	}
	for _, at := range []cut{unsent, unwaited, unsettled} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dsn := pgtest.Database(t)
			db := postgres.New(connect(t, dsn), nil)
			is.NoErr(db.Migrate(t.Context()))
			p, through := newProxy(t, dsn)
			c := cutClient{client: newClient(t, serve(t, connect(t, through), time.Minute)), proxy: p, at: at}
			issued := c.must("POST", "/admin/api-keys", "")
			c.key, c.record = issued.APIKey, issued.Key.ID
			for round := range rounds {
				c.insert(round, db.Symbols())
				c.rename(round)
				c.rotate()
			}
		})
	}
}

// cutClient sends requests through a proxy that cuts connections.
type cutClient struct {
	*client
	*proxy
	at     cut
	record int64 // id of a key
}

// cutOff sends a request whose statement is cut off. It reports whether that
// has been acknowledged nevertheless.
func (c cutClient) cutOff(of func(statement string) bool, method, path, body string) (acknowledged bool) {
	t := c.client.t
	t.Helper()
	c.ended.Store(0)
	defer c.ended.Store(1)
	done := c.cutNext(c.at, of)
	_, acknowledged = c.send(method, path, body)
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s %s is not cut off", method, path)
	}
	if acknowledged {
		if c.at != unwaited {
			t.Fatalf("%s %s is cut %v and acknowledged", method, path, c.at)
		}
		c.must("GET", fmt.Sprint("/admin/api-keys/", c.record), "") // which meets the dead connection
	}
	return acknowledged
}

// must sends a request that is carried out.
func (c cutClient) must(method, path, body string) answer {
	c.client.t.Helper()
	got, ok := c.send(method, path, body)
	if !ok {
		c.client.t.Fatalf("%s %s is not carried out", method, path)
	}
	return got
}

// outcome reports what cannot have become of a write that was cut off.
func (c cutClient) outcome(write string, acknowledged, carriedOut bool) {
	c.client.t.Helper()
	if c.at == unsent && carriedOut || (c.at == unsettled || acknowledged) && !carriedOut {
		c.client.t.Errorf("%s that is cut %v is acknowledged: %v, and carried out: %v", write, c.at, acknowledged, carriedOut)
	}
}

func isCommit(statement string) bool { return statement == "commit" }

// insert is a write of one statement.
func (c cutClient) insert(round int, store symbols.Store) {
	t := c.client.t
	t.Helper()
	folder := c.must("POST", "/symbol/folders", fmt.Sprintf(`{"name":"folder %d"}`, round))
	acknowledged := c.cutOff(func(statement string) bool { return strings.Contains(statement, "INSERT INTO canvasback_symbols") },
		"POST", fmt.Sprintf("/symbol/folders/%d/symbols", folder.ID), `{"name":"symbol","type":"image/svg+xml","data":"<svg/>"}`)
	page, err := store.ListSymbols(t.Context(), folder.ID, 0, symbols.DefaultPageSize)
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Symbols) > 1 {
		t.Errorf("a symbol is there %d times", len(page.Symbols))
	}
	c.outcome("an insertion", acknowledged, len(page.Symbols) == 1)
}

// rename is a write in a transaction.
func (c cutClient) rename(round int) {
	c.client.t.Helper()
	folder := c.must("POST", "/symbol/folders", fmt.Sprintf(`{"name":"former %d"}`, round))
	path, name := fmt.Sprint("/symbol/folders/", folder.ID), fmt.Sprint("renamed ", round)
	acknowledged := c.cutOff(isCommit, "PATCH", path, fmt.Sprintf(`{"name":%q}`, name))
	c.outcome("a renaming", acknowledged, c.must("GET", path, "").Name == name)
	c.must("PATCH", path, fmt.Sprintf(`{"name":%q}`, name)) // again without harm
}

// rotate is a write that must be felt although nobody knows of it.
func (c cutClient) rotate() {
	t := c.client.t
	t.Helper()
	issued := c.must("POST", "/admin/api-keys", "")
	check := func() int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), "GET", c.addresses[0]+"/symbol/folders", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("x-api-key", issued.APIKey)
		response, err := c.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if status := check(); status != http.StatusOK { // and now it is in the cache
		t.Fatalf("a new key is answered %d", status)
	}
	acknowledged := c.cutOff(isCommit, "POST", fmt.Sprintf("/admin/api-keys/%d/rotate", issued.Key.ID), "")
	status := check()
	if status != http.StatusOK && status != http.StatusUnauthorized {
		t.Errorf("a key whose rotation was cut off is answered %d", status)
	}
	c.outcome("a rotation", acknowledged, status == http.StatusUnauthorized)
}
