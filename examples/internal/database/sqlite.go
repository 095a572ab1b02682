package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	_ "modernc.org/sqlite"

	"example.com/canvasback/storage/sqlite"
)

func openSQLite(ctx context.Context, path string) (*Database, error) {
	// SQLite gives its other files the mode of this one.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, sqliteError(path, err)
	}
	file.Close()
	pool, db, err := connectSQLite(path)
	if err != nil {
		return nil, err
	}
	if err := db.Check(ctx); err != nil {
		pool.Close()
		return nil, sqliteError(path, err)
	}
	return &Database{
		Storage:   db,
		Name:      "sqlite:" + path,
		Migrate:   func(ctx context.Context, log *slog.Logger) error { return sqliteError(path, migrate(ctx, db, log)) },
		PoolStats: pool.Stats,
		FreeSpace: func() (int64, error) { return freeSpace(filepath.Dir(path)) },
		Close:     func() { pool.Close() },
	}, nil
}

func connectSQLite(path string) (*sql.DB, *sqlite.DB, error) {
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
	pool.SetMaxOpenConns(1 + runtime.NumCPU()) // one writer; more readers than cores only delay it
	pool.SetMaxIdleConns(1 + runtime.NumCPU())
	db, err := sqlite.New(pool)
	if err != nil {
		pool.Close()
	}
	return pool, db, err
}

// sqliteError adds the absolute path to an error, and the cause if SQLite cannot
// create its other files in the directory. The error may be nil.
func sqliteError(path string, err error) error {
	if err == nil {
		return nil
	}
	if absolute, absErr := filepath.Abs(path); absErr == nil {
		path = absolute
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	} else if probe, probeErr := os.CreateTemp(filepath.Dir(path), ".canvasback-*"); probeErr != nil {
		err = errors.Join(err, probeErr)
	} else {
		probe.Close()
		os.Remove(probe.Name())
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// BackUp copies the SQLite database of a URL to a new file, without migrating it.
func BackUp(ctx context.Context, databaseURL, target string) error {
	scheme, path, _ := strings.Cut(databaseURL, ":")
	if scheme != "sqlite" {
		return fmt.Errorf("only SQLite databases can be copied, not %s: use pg_dump for PostgreSQL", scheme)
	}
	if _, err := os.Stat(path); err != nil { // SQLite would create it
		return sqliteError(path, err)
	}
	pool, db, err := connectSQLite(path)
	if err != nil {
		return err
	}
	defer pool.Close()
	return db.Backup(ctx, target)
}
