package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
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

const defaultDatabase = "sqlite:canvasback.db"

// storage is the interface that all drivers implement.
type storage interface {
	Keys() keys.Store
	Symbols() symbols.Store
	Exports() exports.Store
}

// database is an open storage.
type database struct {
	storage
	shared    bool // with processes on other machines
	migrate   func(context.Context) error
	poolStats func() sql.DBStats // nil without a connection pool
	close     func()
}

// checkDatabaseURL returns an error for a URL that openStorage does not support.
func checkDatabaseURL(databaseURL string) error {
	scheme, rest, _ := strings.Cut(databaseURL, ":")
	switch scheme {
	case "memory":
		return nil
	case "sqlite":
		// With such a name SQLite opens a separate database per connection.
		if name := strings.TrimSpace(rest); name == "" || name == ":memory:" {
			return errors.New("DATABASE_URL=sqlite:PATH needs the path of a file; use memory: for data that is lost at exit")
		}
		return nil
	case "postgres", "postgresql":
		if _, err := postgresConfig(databaseURL); err != nil {
			return fmt.Errorf("DATABASE_URL: %w", err)
		}
		return nil
	}
	if !strings.Contains(databaseURL, "://") {
		return fmt.Errorf("DATABASE_URL must be sqlite:PATH, memory: or a postgres URL; for a file use sqlite:%s", databaseURL)
	}
	return errors.New("DATABASE_URL must be sqlite:PATH, memory: or a postgres URL")
}

// openStorage connects to the storage that databaseURL selects.
func openStorage(ctx context.Context, databaseURL string) (*database, error) {
	scheme, rest, _ := strings.Cut(databaseURL, ":")
	switch scheme {
	case "memory":
		migrate := func(context.Context) error { return nil }
		return &database{storage: memory.New(), migrate: migrate, close: func() {}}, nil
	case "sqlite":
		return openSQLite(ctx, rest)
	}
	return openPostgres(ctx, databaseURL)
}

func openSQLite(ctx context.Context, path string) (*database, error) {
	// SQLite gives its other files the mode of this one.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, sqliteError(path, err)
	}
	file.Close()
	pool, err := connectSQLite(path)
	if err != nil {
		return nil, err
	}
	db, err := sqlite.New(pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	if err := db.Check(ctx); err != nil {
		pool.Close()
		return nil, sqliteError(path, err)
	}
	migrate := func(ctx context.Context) error {
		if err := db.Migrate(ctx); err != nil {
			return sqliteError(path, err)
		}
		return nil
	}
	return &database{storage: db, migrate: migrate, poolStats: pool.Stats, close: func() { pool.Close() }}, nil
}

func connectSQLite(path string) (*sql.DB, error) {
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
	return pool, nil
}

// sqliteError adds the absolute path to an error, and the cause if SQLite cannot
// create its other files in the directory.
func sqliteError(path string, err error) error {
	if absolute, absErr := filepath.Abs(path); absErr == nil {
		path = absolute
	}
	if cause := new(fs.PathError); errors.As(err, &cause) {
		err = cause.Err
	} else if probe, probeErr := os.CreateTemp(filepath.Dir(path), ".canvasback-*"); probeErr != nil {
		err = errors.Join(err, probeErr)
	} else {
		probe.Close()
		os.Remove(probe.Name())
	}
	return fmt.Errorf("DATABASE_URL: open %s: %w", path, err)
}

// backUp copies the SQLite database to a new file, without migrating it.
func backUp(ctx context.Context, lookup func(string) (string, bool), target string) error {
	env := environment{lookup: lookup}
	databaseURL := env.text("DATABASE_URL", defaultDatabase)
	if err := checkDatabaseURL(databaseURL); err != nil {
		return err
	}
	scheme, path, _ := strings.Cut(databaseURL, ":")
	if scheme != "sqlite" {
		return fmt.Errorf("-backup copies SQLite databases, not %s: use pg_dump for PostgreSQL", redactPassword(databaseURL))
	}
	if _, err := os.Stat(path); err != nil { // SQLite would create it
		return sqliteError(path, err)
	}
	pool, err := connectSQLite(path)
	if err != nil {
		return err
	}
	defer pool.Close()
	db, err := sqlite.New(pool)
	if err != nil {
		return err
	}
	return db.Backup(ctx, target)
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
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("DATABASE_URL: open PostgreSQL: %w", err)
	}
	db, err := postgres.New(pool, nil)
	if err != nil {
		pool.Close()
		return nil, err
	}
	migrate := func(ctx context.Context) error {
		if err := db.Migrate(ctx); err != nil {
			return fmt.Errorf("open PostgreSQL: %w", err)
		}
		return nil
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
	return &database{db, true, migrate, stats, pool.Close}, nil
}
