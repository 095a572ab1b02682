package postgres_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
)

func TestStorage_FaultsLeaveNoPartialWrites(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	s := newSchemas(connect(t, dsn))
	storagetest.RunFaults(t, func(t testing.TB) storagetest.FaultHarness {
		options := s.take(t)
		injector := new(faultInjector)
		pool := injector.connect(t, dsn)
		return storagetest.FaultHarness{
			Harness: storagetest.Harness{
				Storage: must(postgres.New(pool, options)),
				Reopen:  func() storagetest.Storage { return must(postgres.New(s.pool, options)) },
				InUse:   func() int { return int(pool.Stat().AcquiredConns()) },
			},
			Inject:   injector.inject,
			Injected: injector.injected,
		}
	})
}

// faultInjector closes connections before they send a message or before they
// receive the response.
type faultInjector struct {
	mu    sync.Mutex
	fault storagetest.Fault
	at    int // the call that fails, counted from 1; 0 for none
	calls int
	count int // failed calls
}

func (f *faultInjector) inject(fault storagetest.Fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.at, f.calls, f.count = fault, n, 0, 0
}

func (f *faultInjector) injected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// next counts a read or a write of a connection, and reports whether it fails.
func (f *faultInjector) next(isRead bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if isRead != (f.fault == storagetest.ResponseLost) {
		return false
	}
	f.calls++
	if f.at == 0 || f.calls < f.at || f.calls > f.at && f.fault != storagetest.Down {
		return false
	}
	f.count++
	return true
}

// connect opens a pool of faulty connections.
func (f *faultInjector) connect(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	return connectWith(t, dsn, func(config *pgxpool.Config) {
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &faultyConn{Conn: conn, injector: f}, nil
		}
	})
}

var errInjected = errors.New("injected connection failure")

type faultyConn struct {
	net.Conn
	injector *faultInjector

	mu     sync.Mutex
	closed bool
}

// fails closes the connection if the current call fails, and reports whether
// the connection is closed.
func (c *faultyConn) fails(isRead bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.injector.next(isRead) {
		c.closed = true
		c.Close()
	}
	return c.closed
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if c.fails(false) {
		return 0, errInjected
	}
	return c.Conn.Write(p)
}

func (c *faultyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.fails(true) {
		return 0, errInjected
	}
	return n, err
}
