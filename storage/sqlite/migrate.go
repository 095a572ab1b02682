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

// Migrations holds the schema as files named NNNN_title.sql, for applications
// that migrate with a tool of their own instead of [DB.Migrate]. The tool must
// run the files in order. Such applications should call [DB.Check] at startup.
var Migrations, _ = fs.Sub(files, "migrations") // fails only for a malformed path

func migrate(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS canvasback_migrations (
			version    INTEGER PRIMARY KEY,
			title      TEXT    NOT NULL,
			applied_at INTEGER NOT NULL
		) STRICT`)
	if err != nil {
		return err
	}
	list, err := pending(ctx, conn.QueryRowContext)
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
			m.Version, m.Title, time.Now().UnixMilli(),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// pending returns the migrations that are not recorded in the database.
func pending(ctx context.Context, queryRow func(context.Context, string, ...any) *sql.Row) ([]migration.Migration, error) {
	var recorded bool
	var version, contracted int
	err := queryRow(ctx, `
		SELECT EXISTS (
			SELECT 1
			FROM sqlite_schema
			WHERE type = 'table' AND name = 'canvasback_migrations'
		)`,
	).Scan(&recorded)
	if err == nil && recorded {
		err = queryRow(ctx, `
			SELECT coalesce(max(version), 0), coalesce(max(version) FILTER (WHERE title GLOB 'contract_*'), 0)
			FROM canvasback_migrations`,
		).Scan(&version, &contracted)
	}
	if err != nil {
		return nil, err
	}
	return migration.Pending(Migrations, version, contracted)
}
