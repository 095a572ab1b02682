package postgres_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestStorage_failing(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	s := &schemas{pool: connect(t, dsn), empty: make(chan string, 100)}
	storagetest.RunFaults(t, func(t testing.TB) storagetest.FaultHarness {
		options := s.take(t)
		f := new(failing)
		pool := f.connect(t, dsn)
		return storagetest.FaultHarness{
			Harness: storagetest.Harness{
				Storage: postgres.New(pool, options),
				Reopen:  func() storagetest.Storage { return postgres.New(s.pool, options) },
				InUse:   func() int { return int(pool.Stat().AcquiredConns()) },
			},
			Inject:   f.fail,
			Injected: f.failed,
		}
	})
}

// failing cuts connections: before they send something, or before they receive
// the answer.
type failing struct {
	mu    sync.Mutex
	fault storagetest.Fault
	at    int // 0: never
	calls int
	count int
}

// fail and failed are those of storagetest.FaultHarness.
func (f *failing) fail(fault storagetest.Fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.at, f.calls, f.count = fault, n, 0, 0
}

func (f *failing) failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// cut counts what is sent or received, and says whether it fails.
func (f *failing) cut(received bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if received != (f.fault == storagetest.ResponseLost) {
		return false
	}
	f.calls++
	if f.at == 0 || f.calls < f.at || f.calls > f.at && f.fault != storagetest.Down {
		return false
	}
	f.count++
	return true
}

// connect opens a pool whose connections may be cut.
func (f *failing) connect(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &cutConn{Conn: conn, f: f}, nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

var errCut = errors.New("the connection is cut")

type cutConn struct {
	net.Conn
	f *failing

	mu   sync.Mutex
	dead bool
}

// die cuts the connection if it is its turn, and reports whether it is cut.
func (c *cutConn) die(received bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead && c.f.cut(received) {
		c.dead = true
		c.Conn.Close()
	}
	return c.dead
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.die(false) {
		return 0, errCut
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.die(true) {
		return 0, errCut
	}
	return n, err
}
