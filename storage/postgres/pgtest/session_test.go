package pgtest

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"
	"go.uber.org/goleak"
)

// slowConn is a connection of a busy machine: pgx reads it in the background while a
// write takes longer than 15 ms, and goes on when the write has ended.
type slowConn struct {
	net.Conn
	pause time.Duration // after the next write
}

func (c *slowConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	time.Sleep(c.pause)
	c.pause = 0
	return n, err
}

func TestSession_KeepsNoGoroutine(t *testing.T) {
	is := is.New(t)
	config, err := pgx.ParseConfig(Database(t))
	is.NoErr(err)
	slow := new(slowConn)
	config.DialFunc = func(ctx context.Context, network, address string) (_ net.Conn, err error) {
		slow.Conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return slow, err
	}
	before := goleak.IgnoreCurrent()
	conn, err := pgx.ConnectConfig(t.Context(), config)
	is.NoErr(err)
	defer conn.Close(context.Background())
	slow.pause = 100 * time.Millisecond
	s := session{conn: conn}
	s.execute(t, url.URL{}, "SELECT 1")
	is.NoErr(goleak.Find(before)) // the connection is idle
}
