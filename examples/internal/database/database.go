// Package database opens the storage that a URL selects: sqlite:PATH, memory: or that of
// a PostgreSQL database.
package database

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/symbols"
)

// Storage is the interface that all drivers implement.
type Storage interface {
	Keys() keys.Store
	Symbols() symbols.Store
	Exports() exports.Store
}

// Database is an open storage.
type Database struct {
	Storage
	Name      string             // without credentials
	PoolStats func() sql.DBStats // nil without a connection pool
	Fence     func() string      // the state of the fence; nil without PostgreSQL

	// FreeSpace returns how many bytes the disk of the database has, or an error if the file
	// of the database was removed or replaced; nil without SQLite.
	FreeSpace func() (int64, error)

	Close func()
}

// CheckURL returns an error for a URL that Open does not support. The error has no part of
// a URL of PostgreSQL, because it could be one of the password.
func CheckURL(databaseURL string) error {
	scheme, path, _ := strings.Cut(databaseURL, ":")
	path = strings.TrimSpace(path)
	switch {
	case scheme == "memory":
		return nil
	case scheme == "sqlite" && (path == "" || path == ":memory:"): // SQLite would open a database per connection
		return errors.New("sqlite:PATH needs the path of a file; use memory: for data that is lost at exit")
	case scheme == "sqlite" && strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return errors.New("for a file use sqlite:" + strings.TrimPrefix(path, "//"))
	case scheme == "sqlite":
		return nil
	case scheme == "postgres", scheme == "postgresql":
		_, err := postgresConfig(databaseURL)
		return err
	case strings.Contains(databaseURL, "="):
		return errors.New("must be a URL; instead of keywords use postgres://USER:PASSWORD@HOST/DATABASE")
	}
	return errors.New("must be sqlite:PATH for a file, memory:, or postgres://USER:PASSWORD@HOST/DATABASE")
}

// Open connects to the storage of a URL that [CheckURL] accepts. The options are those of
// PostgreSQL.
func Open(ctx context.Context, databaseURL string, options *postgres.Options) (*Database, error) {
	scheme, path, _ := strings.Cut(databaseURL, ":")
	switch scheme {
	case "memory":
		return &Database{Storage: memory.New(), Name: databaseURL, Close: func() {}}, nil
	case "sqlite":
		return openSQLite(ctx, path)
	}
	return openPostgres(ctx, databaseURL, options)
}

// Migrate migrates the database and logs what it has applied.
func (d *Database) Migrate(ctx context.Context, log *slog.Logger) error {
	driver, ok := d.Storage.(interface {
		Pending(ctx context.Context) ([]string, error)
		Migrate(ctx context.Context) error
	})
	if !ok {
		return nil // memory
	}
	pending, err := driver.Pending(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	log.Info("migrating the database once nobody else writes", "migrations", pending)
	if err = driver.Migrate(ctx); err == nil {
		log.Info("database migrated", "migrations", pending)
	}
	return err
}
