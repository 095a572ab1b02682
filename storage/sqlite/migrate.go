package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"example.com/canvasback/storage/internal/migration"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds the schema as NNNN_title.sql files, to be run in order, for
// hosts that have a tool of their own. They call [DB.Check] instead of
// [DB.Migrate].
var Migrations, _ = fs.Sub(files, "migrations") // fails for a malformed path only

// Migrate brings the database to the latest schema, all the way or not at all.
// It may be called at every start, by several processes at once. It refuses a
// database that [DB.Check] refuses, and one that a newer release has migrated.
func (db *DB) Migrate(ctx context.Context) error {
	if err := db.Check(ctx); err != nil {
		return err
	}
	return db.write(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, `
			CREATE TABLE IF NOT EXISTS canvasback_migrations (
				version    INTEGER PRIMARY KEY,
				title      TEXT    NOT NULL,
				applied_at INTEGER NOT NULL
			) STRICT`)
		if err != nil {
			return err
		}
		list, err := pending(ctx, conn)
		if err != nil {
			return err
		}
		for _, m := range list {
			if _, err := conn.ExecContext(ctx, m.SQL); err != nil {
				return fmt.Errorf("sqlite: migration %s: %w", m.Name(), err)
			}
			_, err := conn.ExecContext(ctx, `
				INSERT INTO canvasback_migrations (version, title, applied_at)
				VALUES (?, ?, ?)`,
				m.Version, m.Title, milli(time.Now()),
			)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Pending returns the names of the migrations that the database lacks, such as
// "0001_initial", in order. It changes nothing.
func (db *DB) Pending(ctx context.Context) ([]string, error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	list, err := pending(ctx, conn)
	if err != nil {
		return nil, err
	}
	return migration.Names(list), nil
}

// pending returns the migrations that are not recorded in the database.
func pending(ctx context.Context, conn *sql.Conn) ([]migration.Migration, error) {
	list, err := migration.Read(Migrations)
	if err != nil {
		return nil, err
	}
	var recorded bool
	err = conn.QueryRowContext(ctx, `
		SELECT EXISTS (
			SELECT 1
			FROM sqlite_schema
			WHERE type = 'table' AND name = 'canvasback_migrations'
		)`,
	).Scan(&recorded)
	if err != nil || !recorded {
		return list, err
	}
	var version int
	err = conn.QueryRowContext(ctx, `
		SELECT coalesce(max(version), 0)
		FROM canvasback_migrations`,
	).Scan(&version)
	if err != nil {
		return nil, err
	}
	if version > len(list) {
		return nil, fmt.Errorf("sqlite: the database has migration %d, this release knows %d", version, len(list))
	}
	return list[version:], nil
}
