package postgres_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/symbols"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	adminKey     = "an admin key for tests"
	storeTimeout = 2 * time.Second

	// patience is within which every request is answered: its guard and its
	// endpoint wait for the store one after the other, and the machine is busy.
	patience = 2*storeTimeout + 3*time.Second

	// recovery is after which a fault that has ended is not felt any more.
	recovery = 2 * time.Second
)

// serve serves the API over a pool, as a process would, and returns its
// address. Requests wait for the store no longer than timeout.
func serve(t *testing.T, pool *pgxpool.Pool, timeout time.Duration) string {
	t.Helper()
	db, log := postgres.New(pool, nil), slog.New(slog.NewTextHandler(t.Output(), nil))
	clientKeys, err := keys.NewService(db.Keys(), &keys.Options{ReadTimeout: timeout, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(httpapi.Handler(httpapi.Options{
		Keys:         clientKeys,
		Symbols:      symbols.NewService(db.Symbols(), nil),
		AdminKeys:    []string{adminKey},
		StoreTimeout: timeout,
		Logger:       log,
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

// client sends requests to the services at some addresses, in turn.
type client struct {
	t         *testing.T
	addresses []string
	key       string
	http      http.Client

	sent  atomic.Int64
	ended atomic.Int64 // when the last fault has ended, in Unix milliseconds; 0 while there is one
}

func newClient(t *testing.T, addresses ...string) *client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 20}
	t.Cleanup(transport.CloseIdleConnections)
	c := &client{t: t, addresses: addresses, http: http.Client{Transport: transport, Timeout: time.Minute}}
	c.ended.Store(1)
	return c
}

// answer is what the answers to all requests have that are sent here.
type answer struct {
	ID     int64
	Name   string
	APIKey string
	Key    struct{ ID int64 }
}

// send sends a request and reports whether it has been carried out. Otherwise
// the answer must be a 503 that says when to come again, and there must be a
// fault or have been one a moment ago. Either must come in time.
func (c *client) send(method, path, body string) (got answer, ok bool) {
	began := time.Now()
	address := c.addresses[int(c.sent.Add(1))%len(c.addresses)]
	request, err := http.NewRequestWithContext(c.t.Context(), method, address+path, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return got, false
	}
	request.Header.Set("x-admin-key", adminKey)
	request.Header.Set("x-api-key", c.key)
	response, err := c.http.Do(request)
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
		return got, false
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
	}
	if took := time.Since(began); took > patience {
		c.t.Errorf("%s %s is answered after %v", method, path, took)
	}
	if response.StatusCode/100 == 2 {
		if err := json.Unmarshal(content, &got); err != nil {
			c.t.Errorf("%s %s: %s: %v", method, path, content, err)
		}
		return got, true
	}
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(content), `"code":"unavailable"`) {
		c.t.Errorf("%s %s: %d %v %s", method, path, response.StatusCode, response.Header, content)
	}
	if ended := c.ended.Load(); ended > 0 && began.After(time.UnixMilli(ended).Add(recovery)) {
		c.t.Errorf("%s %s: unavailable %v after the last fault", method, path, began.Sub(time.UnixMilli(ended)))
	}
	return got, false
}
