package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
)

func TestConfigurePool_SetsDefaults(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for dsn, test := range map[string]struct {
		timeout time.Duration
		several bool
	}{
		"postgres://a/db":                                {2 * time.Second, false},
		"postgres://a/db?connect_timeout=7":              {7 * time.Second, false},
		"postgres://a/db?description_cache_capacity=0":   {2 * time.Second, false},
		"postgres://a,b/db?sslmode=prefer":               {2 * time.Second, true},
		"postgres://a/db?sslmode=prefer":                 {2 * time.Second, false},
		"postgres://a:1,a:2/db?target_session_attrs=any": {2 * time.Second, true},
	} {
		config := must(pgxpool.ParseConfig(dsn))(t)
		postgres.ConfigurePool(config)
		is.Equal(config.ConnConfig.ConnectTimeout, test.timeout)
		is.Equal(config.ConnConfig.ValidateConnect != nil, test.several)
		is.Equal(config.BeforeConnect != nil, test.several)
		is.True(config.ConnConfig.DescriptionCacheCapacity > 0)
	}
}

// TestConfigurePool_SendsUTF8 has a database with the client_encoding of another application.
func TestConfigurePool_SendsUTF8(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	execute(t, connect(t, dsn), `ALTER DATABASE `+strings.TrimPrefix(must(url.Parse(dsn))(t).Path, "/")+` SET client_encoding TO LATIN1`)
	pool := connectWith(t, dsn, postgres.ConfigurePool)
	is.Equal(count(t, pool, `SELECT length($1::text)`, "ü"), 1)
}

// TestConfigurePool_FrozenHostDelaysNothing waits an hour for a host, which would time
// out in this test.
func TestConfigurePool_FrozenHostDelaysNothing(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	pair := pgtest.StartPair(t)
	slow := "&connect_timeout=3600&sslmode=prefer"
	pool := connectToPrimary(t, pair.DSN(pair.Primary, pair.Standby)+slow)
	is.NoErr(pool.Ping(t.Context()))
	pair.Primary.Pause()
	pool.Reset()
	connected := make(chan error)
	for range 5 { // begin while there is no primary
		go func() { connected <- pool.Ping(t.Context()) }()
	}
	time.Sleep(300 * time.Millisecond)
	pair.Promote()
	for range 5 {
		is.NoErr(<-connected)
	}
	is.Equal(count(t, pool, `SELECT pg_is_in_recovery()::int`), 0)
	is.NoErr(connectToPrimary(t, pair.DSN(pair.Primary, pair.Standby)+slow).Ping(t.Context()))
}

// The first address of a host accepts connections and does not respond, as one whose node is
// frozen does.
func TestConfigurePool_TriesAllAddresses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	u := must(url.Parse(pgtest.Start(t).DSN()))(t)
	silent := must(net.Listen("tcp", "127.0.0.9:"+u.Port()))(t)
	defer silent.Close()
	u.Host = "primary.test:" + u.Port() + ",standby.test:" + u.Port()
	pool := connectWith(t, u.String()+"&connect_timeout=3", func(config *pgxpool.Config) {
		config.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			if host == "primary.test" {
				return []string{"127.0.0.9", "127.0.0.1"}, nil
			}
			return []string{"127.0.0.8"}, nil // nothing listens there
		}
		postgres.ConfigurePool(config)
	})
	is.NoErr(pool.Ping(t.Context()))
}

// A server that does not respond, or whose connections are lost silently, keeps no place in
// the pool: pgx waits for it 15 s after a call has timed out.
func TestConfigurePool_ReplacesSilentConnections(t *testing.T) {
	t.Parallel()
	for _, idle := range []time.Duration{0, 1100 * time.Millisecond} {
		is := is.New(t)
		server := pgtest.Start(t)
		pool := connectWith(t, server.DSN()+"&pool_max_conns=1", postgres.ConfigurePool)
		db := migrate(t, pool)
		time.Sleep(idle)
		server.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := db.Symbols().GetFolder(ctx, 1)
		cancel()
		is.True(errors.Is(err, context.DeadlineExceeded))
		failed := time.Now()
		for pool.Stat().AcquiredConns() > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		is.True(time.Since(failed) < 7*time.Second)
	}
}

func TestConfigurePool_CallsBeforeConnect(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pair := pgtest.StartPair(t)
	pool := connectWith(t, pair.DSN(pair.Standby, pair.Primary), func(config *pgxpool.Config) {
		password := config.ConnConfig.Password
		config.ConnConfig.Password = "expired"
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			c.Password = password
			return nil
		}
		postgres.ConfigurePool(config)
	})
	is.NoErr(pool.Ping(t.Context()))
}

// If each host rejects the connection, the error is returned at once.
func TestConfigurePool_ReturnsErrorOfHosts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connectToPrimary(t, "postgres://127.0.0.1:1,127.0.0.1:2/db?connect_timeout=3600")
	is.True(pool.Ping(t.Context()) != nil)
}
