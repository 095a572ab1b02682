package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"example.com/canvasback/storage/internal/migration"
	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds the schema as NNNN_title.sql files, to be run in order, for
// hosts that have a tool of their own. It must run each file with the schema
// of the tables first in the search path. Such hosts do not call [DB.Migrate].
var Migrations, _ = fs.Sub(files, "migrations") // fails for a malformed path only

// Migrate brings the database to the latest schema. It may be called at every
// start, by several processes at once; where nothing is missing, it needs no
// right to change anything. Each migration happens all the way or not at all.
// Migrate refuses a database that a newer release has migrated.
func (db *DB) Migrate(ctx context.Context) error {
	missing, err := db.pending(ctx)
	if err != nil {
		return err
	}
	for _, m := range missing {
		if err := db.apply(ctx, m); err != nil {
			return fmt.Errorf("postgres: migration %s: %w", m.Name(), err)
		}
	}
	return nil
}

// Pending returns the names of the migrations that the database lacks, such as
// "0001_initial", in order. It changes nothing.
func (db *DB) Pending(ctx context.Context) ([]string, error) {
	missing, err := db.pending(ctx)
	if err != nil {
		return nil, err
	}
	return migration.Names(missing), nil
}

// pending returns the migrations that are not recorded in the database.
func (db *DB) pending(ctx context.Context) ([]migration.Migration, error) {
	list, err := migration.Read(Migrations)
	if err != nil {
		return nil, err
	}
	var version int
	err = pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		schema, err := db.locate(ctx, tx)
		if err != nil {
			return err
		}
		version, err = recorded(ctx, tx, schema)
		return err
	})
	if err != nil {
		return nil, err
	}
	if version > len(list) {
		return nil, fmt.Errorf("postgres: the database has migration %d, this release knows %d", version, len(list))
	}
	return list[version:], nil
}

// apply runs a migration, unless another process has done so.
func (db *DB) apply(ctx context.Context, m migration.Migration) error {
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		schema, err := db.locate(ctx, tx)
		if err != nil {
			return err
		}
		if err := enter(ctx, tx, schema); err != nil {
			return err
		}
		version, err := recorded(ctx, tx, schema)
		if err != nil || version >= m.Version {
			return err
		}
		if _, err := tx.Exec(ctx, m.SQL); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO canvasback_migrations (version, title)
			VALUES ($1, $2)`,
			m.Version, m.Title,
		)
		return err
	})
}

// locate returns the quoted name of the schema for the tables: the one that
// the options name, else the one where the search path leads to them, else the
// one where it would create them.
func (db *DB) locate(ctx context.Context, tx pgx.Tx) (string, error) {
	if db.schema != "" {
		return db.schema, nil
	}
	var schema *string
	err := tx.QueryRow(ctx, `
		SELECT coalesce(
			(
				SELECT relnamespace::regnamespace::text
				FROM pg_class
				WHERE oid = to_regclass('canvasback_migrations')
			),
			quote_ident(current_schema())
		)`,
	).Scan(&schema)
	if err == nil && schema == nil {
		err = errors.New("postgres: the search path leads to no schema")
	}
	if err != nil {
		return "", err
	}
	return *schema, nil
}

// enter waits until nobody else migrates the schema and makes it, for the rest
// of the transaction, the one that unqualified names stand for. It creates what
// a migration takes for granted.
func enter(ctx context.Context, tx pgx.Tx, schema string) error {
	_, err := tx.Exec(ctx, `
		SELECT
			pg_advisory_xact_lock(hashtextextended('canvasback ' || $1::text, 0)),
			set_config('search_path', $1::text || ', pg_temp', true)`,
		schema,
	)
	if err != nil {
		return err
	}
	var exists bool
	err = tx.QueryRow(ctx, `
		SELECT to_regnamespace($1::text) IS NOT NULL`,
		schema,
	).Scan(&exists)
	if err != nil {
		return err
	}
	if !exists {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA `+schema); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS canvasback_migrations (
			version    integer        NOT NULL,
			title      text           NOT NULL,
			applied_at timestamptz(3) NOT NULL DEFAULT now(),
			CONSTRAINT canvasback_migrations_pkey PRIMARY KEY (version)
		)`)
	return err
}

// recorded returns the version that the schema has, 0 if there is none.
func recorded(ctx context.Context, tx pgx.Tx, schema string) (version int, err error) {
	table := schema + ".canvasback_migrations"
	var exists bool
	err = tx.QueryRow(ctx, `
		SELECT to_regclass($1::text) IS NOT NULL`,
		table,
	).Scan(&exists)
	if err != nil || !exists {
		return 0, err
	}
	err = tx.QueryRow(ctx, `
		SELECT coalesce(max(version), 0)
		FROM `+table,
	).Scan(&version)
	return version, err
}
