package fence_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres/internal/fence"
	"example.com/canvasback/storage/postgres/pgtest"
)

// encrypt returns the configuration of connections to a server through a proxy with TLS.
func encrypt(t *testing.T, dsn string) *pgx.ConnConfig {
	t.Helper()
	config := must(pgx.ParseConfig(dsn))(t)
	server := net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	web := httptest.NewTLSServer(nil)
	web.Close()
	listener := must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates}))(t)
	var running sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	forward := func(from, to net.Conn) {
		defer to.Close()
		io.Copy(to, from)
	}
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if conn, err := net.Dial("tcp", server); err == nil {
				running.Go(func() { forward(client, conn) })
				running.Go(func() { forward(conn, client) })
			}
		}
	})
	address := listener.Addr().(*net.TCPAddr)
	config.Host, config.Port, config.Fallbacks = "127.0.0.1", uint16(address.Port), nil
	config.TLSConfig, config.SSLNegotiation = &tls.Config{InsecureSkipVerify: true}, "direct"
	return config
}

// A pool has no other connection in place of a closed one until pgx has cleaned that up.
func TestExec_ContextFreesEncryptedConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := must(pgx.ConnectConfig(t.Context(), encrypt(t, pgtest.Database(t))))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	f := fence.New(fence.Options{Mode: fence.Always, Logger: slog.New(slog.DiscardHandler)})
	_, err := f.Exec(ctx, conn, fence.Statement{Text: `SELECT pg_sleep(3600)`})
	is.True(errors.Is(err, context.DeadlineExceeded))
	is.True(conn.IsClosed())
	closed := time.Now()
	<-conn.PgConn().CleanupDone()
	is.True(time.Since(closed) < 5*time.Second)
}
