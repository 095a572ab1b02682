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
	"example.com/canvasback/storage/testflag"
)

func TestStorage_FaultsLeaveNoPartialWrites(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	kinds := []storagetest.Fault{storagetest.ResponseLost, storagetest.Down}
	if *testflag.Long {
		kinds = append(kinds, storagetest.Rejected) // differs from Down in reads that are repeated
	}
	dsn := pgtest.Database(t)
	s := newSchemas(connect(t, dsn))
	storagetest.RunFaults(t, func(t testing.TB) storagetest.FaultHarness {
		options := s.take(t)
		faults := new(storagetest.Faults)
		pool := connectFaulty(t, dsn, faults)
		return storagetest.FaultHarness{
			Harness: storagetest.Harness{
				Storage: must(postgres.New(pool, options))(t),
				Reopen:  func() storagetest.Storage { return must(postgres.New(s.pool, options))(t) },
				InUse:   func() int { return int(pool.Stat().AcquiredConns()) },
			},
			Faults: faults,
		}
	}, kinds...)
}

func connectFaulty(t testing.TB, dsn string, faults *storagetest.Faults) *pgxpool.Pool {
	t.Helper()
	return connectWith(t, dsn, func(config *pgxpool.Config) {
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &faultyConn{Conn: conn, faults: faults}, nil
		}
	})
}

var errInjected = errors.New("injected connection failure")

// faultyConn is closed before it sends a message or before it receives the response.
type faultyConn struct {
	net.Conn
	faults *storagetest.Faults

	mu     sync.Mutex
	closed bool
}

// fails closes the connection if the current call fails, and reports whether
// the connection is closed.
func (c *faultyConn) fails(isRead bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fault, _ := c.faults.Injected()
	if !c.closed && isRead == (fault == storagetest.ResponseLost) {
		if _, fails := c.faults.Next(); fails {
			c.closed = true
			c.Close()
		}
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
