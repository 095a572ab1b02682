package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"runtime"
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

// storage is what the drivers have in common.
type storage interface {
	Keys() keys.Store
	Symbols() symbols.Store
	Exports() exports.Store
}

// openStorage opens and migrates what a DATABASE_URL names.
func openStorage(ctx context.Context, databaseURL string) (opened storage, closeStorage func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	scheme, rest, _ := strings.Cut(databaseURL, ":")
	switch scheme {
	case "memory":
		return memory.New(), func() {}, nil
	case "sqlite":
		return openSQLite(ctx, rest)
	case "postgres", "postgresql":
		return openPostgres(ctx, databaseURL)
	}
	return nil, nil, fmt.Errorf("DATABASE_URL must be sqlite:PATH, memory: or a postgres address")
}

func openSQLite(ctx context.Context, path string) (storage, func(), error) {
	// SQLite would give each connection a database of its own.
	if name := strings.TrimSpace(path); name == "" || name == ":memory:" {
		return nil, nil, errors.New("DATABASE_URL=sqlite:PATH needs the path of a file; use memory: to keep nothing")
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
		return nil, nil, err
	}
	pool.SetMaxOpenConns(1 + runtime.NumCPU()) // one writes; more readers than cores would only keep it waiting
	pool.SetMaxIdleConns(1 + runtime.NumCPU())
	db := sqlite.New(pool)
	if err := db.Migrate(ctx); err != nil {
		pool.Close()
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	return db, func() { pool.Close() }, nil
}

// postgresConfig says how the pool makes connections.
func postgresConfig(databaseURL string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	// New connections must not wait for a server that is gone while one that
	// answers is there: they hold the places of the pool.
	if config.ConnConfig.ConnectTimeout <= 0 { // which pgx takes for two minutes
		config.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	// A request that gives up makes the server give up too, which would
	// otherwise finish what it is at, and wait for locks to do so.
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	return config, nil
}

func openPostgres(ctx context.Context, databaseURL string) (storage, func(), error) {
	config, err := postgresConfig(databaseURL)
	if err != nil {
		return nil, nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	db := postgres.New(pool, nil)
	if err := db.Migrate(ctx); err != nil {
		pool.Close()
		return nil, nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	return db, pool.Close, nil
}
