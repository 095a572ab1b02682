package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"example.com/canvasback/storage/postgres/internal/fence"
)

// ConfigurePool sets what a pool needs to survive failovers. Call it before
// [pgxpool.NewWithConfig]:
//
//   - If ConnectTimeout is not set, it becomes two seconds. Attempts to reach a lost
//     server would otherwise fill the pool for two minutes.
//   - If the URL names several hosts, ValidateConnect becomes [ValidateConnect], and each
//     connection leads to the first host that it accepts. BeforeConnect, which calls the
//     previous one, tries all hosts at once: a frozen host delays nothing.
//   - Text is sent in UTF-8, whatever client_encoding the role or the database has.
//   - ShouldPing replaces an idle connection whose server does not respond within a second.
//   - The query of a call whose context ends is canceled, and most connections are kept.
//     Otherwise pgx would close them.
func ConfigurePool(config *pgxpool.Config) {
	if config.ConnConfig.ConnectTimeout <= 0 {
		config.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	config.ConnConfig.DescriptionCacheCapacity = cmp.Or(config.ConnConfig.DescriptionCacheCapacity, 512) // for package fence
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	config.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > time.Second && !fence.Ping(ctx, p.Conn.PgConn()) // then the pool removes it
	}
	if len(splitHosts(&config.ConnConfig.Config)) == 1 {
		return
	}
	config.ConnConfig.ValidateConnect = ValidateConnect
	previous := config.BeforeConnect
	var searches singleflight.Group
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if previous != nil {
			if err := previous(ctx, c); err != nil {
				return err
			}
		}
		found, err, _ := searches.Do("", func() (any, error) { return findPrimary(context.WithoutCancel(ctx), &c.Config) })
		if err == nil {
			found.(host).set(&c.Config)
		}
		return err
	}
}

// host is a host of a URL, with and without TLS if that is preferred.
type host []*pgconn.FallbackConfig

// splitHosts groups the fallbacks of a configuration by host.
func splitHosts(config *pgconn.Config) (hosts []host) {
	first := &pgconn.FallbackConfig{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}
	last := new(pgconn.FallbackConfig)
	for _, c := range append([]*pgconn.FallbackConfig{first}, config.Fallbacks...) {
		if c.Host != last.Host || c.Port != last.Port {
			hosts = append(hosts, nil)
		}
		hosts[len(hosts)-1] = append(hosts[len(hosts)-1], c)
		last = c
	}
	return hosts
}

// set makes the host the only one of a configuration.
func (h host) set(config *pgconn.Config) {
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = h[0].Host, h[0].Port, h[0].TLSConfig, h[1:]
}

// findPrimary returns the first host that accepts a connection. It returns an error when
// each host has rejected one. Until then it retries, because a standby can become the
// primary while another host does not respond.
func findPrimary(ctx context.Context, config *pgconn.Config) (host, error) {
	const maxAddresses = 4 // of a host; ConnectTimeout is for each
	ctx, cancel := context.WithTimeout(ctx, maxAddresses*config.ConnectTimeout)
	defer cancel()
	type result struct {
		host int
		err  error
	}
	hosts, results := splitHosts(config), make(chan result)
	for i, h := range hosts {
		single := config.Copy()
		h.set(single)
		go func() {
			for {
				conn, err := pgconn.ConnectConfig(ctx, single)
				if err == nil {
					conn.Close(ctx)
				}
				select {
				case results <- result{i, err}:
				case <-ctx.Done():
					return
				}
				time.Sleep(100 * time.Millisecond) // before the next connection to a host that is not the primary
			}
		}()
	}
	failed := make([]error, len(hosts))
	for n := 0; n < len(hosts); {
		select {
		case r := <-results:
			if r.err == nil {
				return hosts[r.host], nil
			}
			if failed[r.host] == nil {
				n++
			}
			failed[r.host] = r.err
		case <-ctx.Done():
			return nil, fmt.Errorf("postgres: no host responds: %w", errors.Join(append(failed, ctx.Err())...))
		}
	}
	return nil, errors.Join(failed...)
}

// ValidateConnect accepts only connections to a writable primary, and if that has
// synchronous_standby_names, only if it can commit with its standby. It returns an
// error for another server, after a second at most. It replaces
// target_session_attrs=read-write, which accepts a primary that its standby has replaced.
// [ConfigurePool] sets it as ConnConfig.ValidateConnect.
func ValidateConnect(ctx context.Context, conn *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return fence.Validate(ctx, conn)
}
