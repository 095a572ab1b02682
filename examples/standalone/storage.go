package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// storage is the interface that all drivers implement.
type storage interface {
	Keys() keys.Store
	Symbols() symbols.Store
	Exports() exports.Store
}

// database is an open storage.
type database struct {
	storage
	poolStats func() sql.DBStats // nil without a connection pool
	close     func()
}

// openStorage opens and migrates the storage that databaseURL selects.
func openStorage(ctx context.Context, databaseURL string) (*database, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	scheme, rest, _ := strings.Cut(databaseURL, ":")
	switch scheme {
	case "memory":
		return &database{storage: memory.New(), close: func() {}}, nil
	case "sqlite":
		return openSQLite(ctx, rest)
	case "postgres", "postgresql":
		return openPostgres(ctx, databaseURL)
	}
	return nil, fmt.Errorf("DATABASE_URL must be sqlite:PATH, memory: or a postgres URL")
}

func openSQLite(ctx context.Context, path string) (*database, error) {
	// With such a name SQLite opens a separate database per connection.
	if name := strings.TrimSpace(path); name == "" || name == ":memory:" {
		return nil, errors.New("DATABASE_URL=sqlite:PATH needs the path of a file; use memory: for data that is lost at exit")
	}
	// SQLite gives its other files the mode of this one. If creation fails, SQLite
	// reports the cause.
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			file.Close()
		}
	}
	pragmas := url.Values{"_pragma": {
		"busy_timeout(5000)",
		"journal_mode(WAL)",
		"synchronous(FULL)",
		"foreign_keys(ON)",
	}}
	file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: pragmas.Encode()}
	pool, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1 + runtime.NumCPU()) // one writer; more readers than cores only delay it
	pool.SetMaxIdleConns(1 + runtime.NumCPU())
	db := sqlite.New(pool)
	if err := db.Migrate(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &database{db, pool.Stats, func() { pool.Close() }}, nil
}

// postgresConfig returns the configuration of the connection pool.
func postgresConfig(databaseURL string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	// A connection attempt occupies a slot of the pool. Without a short timeout,
	// attempts to an unreachable server block requests to its successor.
	if config.ConnConfig.ConnectTimeout <= 0 { // pgx waits two minutes
		config.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	// Of several servers, use the primary, even if a previous one still runs.
	isOther := func(c *pgconn.FallbackConfig) bool {
		return c.Host != config.ConnConfig.Host || c.Port != config.ConnConfig.Port
	}
	if slices.ContainsFunc(config.ConnConfig.Fallbacks, isOther) {
		config.ConnConfig.ValidateConnect = postgres.ValidateConnect
	}
	// Cancel the query of a request that ends. Otherwise pgx closes the connection.
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	return config, nil
}

func openPostgres(ctx context.Context, databaseURL string) (*database, error) {
	config, err := postgresConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	db := postgres.New(pool, nil)
	if err := db.Migrate(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	stats := func() sql.DBStats {
		s := pool.Stat()
		return sql.DBStats{
			MaxOpenConnections: int(s.MaxConns()),
			OpenConnections:    int(s.TotalConns()),
			InUse:              int(s.AcquiredConns()),
			WaitCount:          s.EmptyAcquireCount(),
			WaitDuration:       s.EmptyAcquireWaitTime(),
		}
	}
	return &database{db, stats, pool.Close}, nil
}
