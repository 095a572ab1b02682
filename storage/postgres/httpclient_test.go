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

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/symbols"
)

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
