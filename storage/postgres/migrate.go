package postgres

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"example.com/canvasback/storage/internal/migration"
	"example.com/canvasback/storage/internal/sqlstore"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds the schema as files named NNNN_title.sql, for applications
// that migrate with a tool of their own instead of [DB.Migrate]. The tool must
// run the files in order, with the schema of the tables first in the
// search_path.
var Migrations, _ = fs.Sub(files, "migrations") // fails only for a malformed path

// pending returns the migrations that are not recorded in the database.
func pending(ctx context.Context, db *database) ([]migration.Migration, error) {
	var version, contracted int
	err := db.read(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(pgxTx pgx.Tx) error {
			tx := transaction{pgxTx, db.fence, asWritten}
			schema, err := resolveSchema(ctx, tx, db.schema)
			if err != nil {
				return err
			}
			version, contracted, err = schemaVersion(ctx, tx, schema)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return migration.Pending(Migrations, version, contracted)
}

// asWritten does not qualify the names in a statement.
func asWritten(statement string) string { return statement }

// apply runs a migration, unless another process has already done so. While others have a
// lock that it needs, such as a backup, it tries again: requests of other processes wait
// behind a statement that waits for a lock. Each try is longer than deadlock_timeout, after
// which autovacuum gives way.
func apply(ctx context.Context, db *database, m migration.Migration) error {
	const lockNotAvailable = "55P03"
	for try := 0; ; try++ {
		err := tryApply(ctx, db, m)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != lockNotAvailable {
			return err
		}
		if try == 0 {
			db.log.WarnContext(ctx, "migration waits for a lock of another session", "migration", m.Name())
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func tryApply(ctx context.Context, db *database, m migration.Migration) error {
	return db.transact(ctx, asWritten, func(tx sqlstore.Tx) error {
		schema, err := resolveSchema(ctx, tx, db.schema)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			SELECT set_config(name, '0', true) -- whatever the role has; the second is of PostgreSQL 17
			FROM pg_settings
			WHERE name IN ('statement_timeout', 'transaction_timeout')`,
		); err != nil {
			return err
		}
		var encoding string
		if err := tx.QueryRow(ctx, `SHOW server_encoding`).Scan(&encoding); err != nil || encoding != "UTF8" {
			return cmp.Or(err, fmt.Errorf("the encoding of the database is %q, not UTF8", encoding))
		}
		if err := lockSchema(ctx, tx, schema); err != nil {
			return err
		}
		version, _, err := schemaVersion(ctx, tx, schema)
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

// resolveSchema returns the quoted name of the schema for the tables. Without a
// configured one it is the schema where the search_path finds the tables, or
// else the one where it would create them.
func resolveSchema(ctx context.Context, tx sqlstore.Tx, configured string) (string, error) {
	if configured != "" {
		return configured, nil
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
		err = errors.New("postgres: no schema of the search_path exists")
	}
	if err != nil {
		return "", err
	}
	return *schema, nil
}

// lockSchema locks the schema against other migrations, makes it the default for
// unqualified names, and bounds later waits for locks, until the end of the
// transaction. It creates the schema and the table of migrations if they do not exist.
func lockSchema(ctx context.Context, tx sqlstore.Tx, schema string) error {
	_, err := tx.Exec(ctx, `
		SELECT
			pg_advisory_xact_lock(hashtextextended('canvasback ' || btrim($1::text, '"'), 0)),
			set_config('search_path', $1::text || ', pg_temp', true),
			set_config('lock_timeout', '1500ms', true)`,
		schema,
	)
	if err != nil {
		return err
	}
	var exists bool
	err = tx.QueryRow(ctx, `SELECT to_regnamespace($1::text) IS NOT NULL`, schema).Scan(&exists)
	if err == nil && !exists {
		_, err = tx.Exec(ctx, `CREATE SCHEMA `+schema)
	}
	if err != nil {
		return err
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

// schemaVersion returns the versions of the last applied migration and of the last one
// that contracts, or 0.
func schemaVersion(ctx context.Context, tx sqlstore.Tx, schema string) (version, contracted int, err error) {
	var exists bool
	err = tx.QueryRow(ctx, `SELECT to_regclass($1::text) IS NOT NULL`, schema+".canvasback_migrations").Scan(&exists)
	if err != nil || !exists {
		return 0, 0, err
	}
	if err := checkOwners(ctx, tx, schema); err != nil {
		return 0, 0, err
	}
	var function *string
	err = tx.QueryRow(ctx, `
		SELECT coalesce(max(version), 0), coalesce(max(version) FILTER (WHERE starts_with(title, 'contract_')), 0), (
			SELECT min(proname::text) -- whose schema was another one; the tool of an application may set $user
			FROM pg_proc, unnest(proconfig) AS setting
			WHERE pronamespace = to_regnamespace($1::text)::oid
				AND starts_with(proname, 'canvasback_')
				AND starts_with(setting, 'search_path=')
				AND lower(btrim(split_part(replace(substr(setting, 13), '"', ''), ',', 1))) NOT IN ( -- as it was written
					'$user', lower(btrim(split_part(replace($1::text, '"', ''), ',', 1)))
				)
		)
		FROM `+schema+`.canvasback_migrations`,
		schema,
	).Scan(&version, &contracted, &function)
	if err == nil && function != nil {
		err = fmt.Errorf("postgres: schema %s was renamed: change the search_path of its functions, such as %s", schema, *function)
	}
	return version, contracted, err
}

// checkOwners returns an error if the schema has a table or function of this package
// whose owner is not trusted: its triggers and policies run with the rights of the
// role that uses it. Trusted are the current role and the roles that it is a member
// of, superusers, and the owners of the schema and the database.
func checkOwners(ctx context.Context, tx sqlstore.Tx, schema string) error {
	var role, object, owner string
	err := tx.QueryRow(ctx, `
		WITH objects AS (
			SELECT relname::text AS name, relowner AS owner, relnamespace AS namespace
			FROM pg_class
			UNION ALL
			SELECT proname::text, proowner, pronamespace
			FROM pg_proc
		)
		SELECT current_user, objects.name, owners.rolname
		FROM objects
		JOIN pg_roles AS owners ON owners.oid = objects.owner
		JOIN pg_roles AS runner ON runner.rolname = current_user
		JOIN pg_namespace AS namespace ON namespace.oid = objects.namespace
		JOIN pg_database AS database ON database.datname = current_database()
		WHERE namespace.oid = to_regnamespace($1::text)::oid
			AND starts_with(objects.name, 'canvasback_')
			AND NOT owners.rolsuper
			AND owners.oid NOT IN (runner.oid, namespace.nspowner, database.datdba)
			AND (runner.rolsuper OR NOT pg_has_role(runner.oid, owners.oid, 'MEMBER'))
		ORDER BY objects.name
		LIMIT 1`,
		schema,
	).Scan(&role, &object, &owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("postgres: %s in schema %s belongs to role %q, whose code would run with the rights of %q: change its owner, or migrate as %q", object, schema, owner, role, owner)
}
