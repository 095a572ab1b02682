package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/symbols"
)

// load is a group of clients that read and write continuously and record which
// writes were acknowledged.
type load struct {
	*client
	folder, record int64 // ids of the folder and of the key that clients change
	reads, writes  counts
	steps          [5]atomic.Int64 // ended, by client

	stop    context.CancelFunc
	running sync.WaitGroup

	mu           sync.Mutex
	acknowledged map[string]bool // inserted symbols by name
}

// counts of requests.
type counts struct{ succeeded, failed atomic.Int64 }

func (c *counts) add(ok bool) {
	if ok {
		c.succeeded.Add(1)
	} else {
		c.failed.Add(1)
	}
}

func startLoad(t *testing.T, urls ...string) *load {
	t.Helper()
	l := &load{client: newClient(t, urls...), acknowledged: make(map[string]bool)}
	issued, _ := l.send("POST", "/admin/api-keys", `{"name":"0"}`)
	l.key, l.record = issued.APIKey, issued.Key.ID
	folder, ok := l.send("POST", "/symbol/folders", `{"name":"folder"}`)
	if !ok {
		t.Fatal("the service is unavailable")
	}
	l.folder = folder.ID

	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for i, newStep := range []func(id int) (step func(n int)){l.reader, l.reader, l.inserter, l.inserter, l.renamer} {
		l.running.Go(func() {
			step := newStep(i)
			for n := 1; ctx.Err() == nil; n++ {
				step(n)
				l.steps[i].Store(int64(n))
				time.Sleep(3 * time.Millisecond)
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

// end stops the clients after their current requests.
func (l *load) end() {
	l.stop()
	l.running.Wait()
}

// waitForSteps waits until each client has ended its current step.
func (l *load) waitForSteps() {
	for i := range l.steps {
		for current := l.steps[i].Load(); l.steps[i].Load() == current; {
			time.Sleep(time.Millisecond)
		}
	}
}

func (l *load) reader(int) func(int) {
	paths := []string{fmt.Sprint("/symbol/folders/", l.folder), fmt.Sprint("/admin/api-keys/", l.record)}
	return func(n int) {
		_, ok := l.send("GET", paths[n%len(paths)], "")
		l.reads.add(ok)
	}
}

// inserter inserts symbols with unique names.
func (l *load) inserter(id int) func(int) {
	path := fmt.Sprintf("/symbol/folders/%d/symbols", l.folder)
	return func(n int) {
		name := fmt.Sprint(id, " ", n)
		_, ok := l.send("POST", path, fmt.Sprintf(`{"name":%q,"type":"image/svg+xml","data":"<svg/>"}`, name))
		l.writes.add(ok)
		l.mu.Lock()
		l.acknowledged[name] = ok
		l.mu.Unlock()
	}
}

// renamer writes ascending numbers to the name of the key, and reads it back: the
// name is the last acknowledged number or a later one.
func (l *load) renamer(int) func(int) {
	path := fmt.Sprint("/admin/api-keys/", l.record)
	acknowledged := 0
	return func(n int) {
		_, ok := l.send("PATCH", path, fmt.Sprintf(`{"name":"%d"}`, n))
		l.writes.add(ok)
		if ok {
			acknowledged = n
		}
		got, ok := l.send("GET", path, "")
		l.reads.add(ok)
		if !ok {
			return
		}
		if stored, err := strconv.Atoi(got.Name); err != nil || stored < acknowledged || stored > n {
			l.t.Errorf("the name is %s, want at least %d (acknowledged) and at most %d (sent)", got.Name, acknowledged, n)
		} else {
			acknowledged = stored
		}
	}
}

// check ends the load. It reports acknowledged symbols that are lost, and symbols
// that exist twice.
func (l *load) check(store symbols.Store) {
	l.t.Helper()
	l.end()
	found := make(map[string]int)
	for after := int64(0); ; {
		page := must(store.ListSymbols(l.t.Context(), l.folder, symbols.Range{After: after}, 256<<10, true))(l.t)
		for _, symbol := range page.Symbols {
			found[symbol.Name]++
			after = symbol.ID
		}
		if !page.More {
			break
		}
	}
	unacknowledged, stored := 0, 0
	for name, acknowledged := range l.acknowledged {
		n := found[name]
		delete(found, name)
		if n > 1 || acknowledged && n == 0 {
			l.t.Errorf("symbol %s exists %d times, acknowledged: %v", name, n, acknowledged)
		}
		if !acknowledged {
			unacknowledged++
			stored += n
		}
	}
	for name := range found {
		l.t.Errorf("symbol %s was never sent", name)
	}
	l.t.Logf("%d reads (%d failed), %d writes (%d failed), %d unacknowledged symbols (%d stored)",
		l.reads.succeeded.Load(), l.reads.failed.Load(), l.writes.succeeded.Load(), l.writes.failed.Load(), unacknowledged, stored)
}

const (
	adminKey     = "an admin key for tests"
	storeTimeout = 2 * time.Second

	// maxResponseTime ends a request that hangs. Authentication and the endpoint take
	// up to a storeTimeout each; the rest is for a busy machine.
	maxResponseTime = 2*storeTimeout + time.Minute

	// maxRecoveryTime is how long after an outage requests may still fail.
	maxRecoveryTime = time.Minute
)

// serve runs the API over a pool, as one process does, and returns its URL.
// Timeout bounds each call of the store.
func serve(t *testing.T, pool *pgxpool.Pool, timeout time.Duration) string {
	t.Helper()
	db := must(postgres.New(pool, nil))(t)
	// The warnings of an outage would hide the reason of a failure.
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	clientKeys := must(keys.NewService(db.Keys(), &keys.Options{ReadTimeout: timeout, Logger: log}))(t)
	library := must(symbols.NewService(db.Symbols(), nil))(t)
	server := httptest.NewServer(httpapi.Handler(&httpapi.Options{
		Keys:      clientKeys,
		Symbols:   library,
		AdminKeys: []string{adminKey},
		Limits:    httpapi.Limits{StoreTimeout: timeout},
		Logger:    log,
	}))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { clientKeys.Run(ctx) })
	t.Cleanup(func() {
		server.Close()
		stop()
		running.Wait()
	})
	return server.URL
}

// client sends requests to several processes in turn.
type client struct {
	t    *testing.T
	urls []string
	key  string
	http http.Client

	sent        atomic.Int64
	outageEnded atomic.Int64 // end of the last outage in Unix milliseconds; 0 during one
}

func newClient(t *testing.T, urls ...string) *client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 20}
	t.Cleanup(transport.CloseIdleConnections)
	c := &client{t: t, urls: urls, http: http.Client{Transport: transport, Timeout: maxResponseTime}}
	c.outageEnded.Store(1)
	return c
}

// response has the fields that the tests read, of all response bodies.
type response struct {
	ID     int64
	Name   string
	APIKey string
	Key    struct{ ID int64 }
}

// send sends a request and reports whether its status is 2xx. Any other status
// must be 503 with Retry-After, during an outage or shortly after it. Every
// response must arrive within maxResponseTime.
func (c *client) send(method, path, body string) (got response, ok bool) {
	began := time.Now()
	url := c.urls[int(c.sent.Add(1))%len(c.urls)]
	request, err := http.NewRequestWithContext(c.t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return got, false
	}
	request.Header.Set("x-admin-key", adminKey)
	request.Header.Set("x-api-key", c.key)
	reply, err := c.http.Do(request)
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
		return got, false
	}
	defer reply.Body.Close()
	content, err := io.ReadAll(reply.Body)
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
	}
	if reply.StatusCode/100 == 2 {
		if err := json.Unmarshal(content, &got); err != nil {
			c.t.Errorf("%s %s: %s: %v", method, path, content, err)
		}
		return got, true
	}
	if reply.StatusCode != http.StatusServiceUnavailable || reply.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(content), `"code":"unavailable"`) {
		c.t.Errorf("%s %s: %d %v %s", method, path, reply.StatusCode, reply.Header, content)
	}
	if ended := c.outageEnded.Load(); ended > 0 && began.After(time.UnixMilli(ended).Add(maxRecoveryTime)) {
		c.t.Errorf("%s %s: unavailable %v after the last outage", method, path, began.Sub(time.UnixMilli(ended)))
	}
	return got, false
}
