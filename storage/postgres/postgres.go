// Package postgres stores client keys, symbols and exports in PostgreSQL. Any
// number of processes may share the database.
//
// The server must be version 14 or later, and the database encoding UTF8. The
// package is tested with version 15.
//
// # Setup
//
// The application creates the pool, and closes it when the stores are no longer
// used. It calls [DB.Migrate] at startup, or runs it once per release with a
// role that has more rights. Two settings of the pool matter:
//
//   - Set connect_timeout=2 in the URL, or ConnConfig.ConnectTimeout to two
//     seconds. The default of pgx is two minutes. After a failover, attempts to
//     reach the lost server would fill the pool for that long, although its
//     successor already accepts connections.
//   - Set ConnConfig.BuildContextWatcherHandler to send a cancel request
//     ([pgconn.CancelRequestContextWatcherHandler]). By default, a call whose
//     context ends closes its connection, and the server still completes the
//     statement, even if that waits for a lock. A lock_timeout bounds the wait.
//
// Connect to the primary (target_session_attrs=read-write). A standby returns
// stale rows, so a key check on it could accept a revoked key.
//
// # Poolers
//
// The driver keeps no state in a session: no session locks, no LISTEN, and no
// settings beyond a transaction. Behind a pooler such as PgBouncer:
//
//   - Session mode needs no configuration.
//   - Transaction mode needs a pooler that tracks prepared statements
//     (PgBouncer 1.21 or later, max_prepared_statements above 0). Otherwise add
//     default_query_exec_mode=exec to the URL.
//   - Statement mode does not work, because the driver uses transactions.
//
// # Tables
//
// The names of all tables, indexes, triggers and functions begin with
// canvasback_, so the schema may be shared with the application. Triggers
// maintain the epoch and all versions, also for statements run by hand.
//
//	canvasback_keys          client keys
//	canvasback_key_epoch     one row: the epoch of the keys
//	canvasback_folders       folders, their versions and those of their contents
//	canvasback_symbols       symbols
//	canvasback_folder_list   one row: the version of the folder list
//	canvasback_exports       registered exports
//	canvasback_links         download links
//	canvasback_facts         sizes and checksums of exported files
//	canvasback_migrations    applied migrations
//
// [DB.Migrate] needs the right to create tables in the schema, and to create
// the schema if [Options.Schema] does not exist. The owner of the tables needs
// no further rights. Other roles need USAGE on the schema, and SELECT, INSERT,
// UPDATE and DELETE on its tables.
//
// # Durability
//
// An acknowledged write survives a crash if the settings of the server ensure
// it. With synchronous_commit=off a crash can undo it, including the revocation
// of a key.
//
// # Lost connections
//
// A restart of the server kills all connections of the pool, which pings only
// those that were idle for more than a second. A call that gets a dead
// connection makes the pool drop all dead ones. It retries on another
// connection unless it has already sent a write, whose outcome is unknown; then
// it returns the error.
//
// # Locks
//
// Lock order: folders by ascending id, then symbols. This prevents deadlocks
// between calls. Statements run by hand may lock in another order; a call that
// PostgreSQL aborts with a deadlock or serialization failure is retried.
package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/migration"
	"example.com/canvasback/symbols"
)

// Options configure a [DB]. The zero value is ready to use.
type Options struct {
	// Schema is the schema of the tables, unquoted. If it is empty, the
	// search_path of the pool's connections determines it.
	Schema string

	// Fence selects when calls that decide about access to keys are fenced.
	Fence Fence
}

// DB provides stores in a PostgreSQL database. It is safe for concurrent use.
type DB struct{ db *database }

// New returns a DB that uses pool, which the caller must close. Nil options are
// the defaults.
func New(pool *pgxpool.Pool, options *Options) *DB {
	db := &database{pool: pool, readWrite: pool.Config().ConnConfig.ValidateConnect != nil}
	if options != nil {
		db.fence = options.Fence
		if options.Schema != "" {
			db.schema = pgx.Identifier{options.Schema}.Sanitize()
		}
	}
	return &DB{db}
}

// Keys returns the store of client keys.
func (d *DB) Keys() keys.Store { return keyStore{d.db} }

// Symbols returns the store of folders and symbols.
func (d *DB) Symbols() symbols.Store { return symbolStore{d.db} }

// Exports returns the store of registered exports.
func (d *DB) Exports() exports.Store { return exportStore{d.db} }

// Migrate brings the database to the latest schema. It may be called at every
// startup and by several processes at once; if nothing is pending, it only
// reads. Each migration runs in one transaction. Migrate returns an error if a
// newer release has migrated the database.
func (d *DB) Migrate(ctx context.Context) error {
	list, err := pending(ctx, d.db)
	if err != nil {
		return err
	}
	for _, m := range list {
		if err := apply(ctx, d.db, m); err != nil {
			return fmt.Errorf("postgres: migration %s: %w", m.Name(), err)
		}
	}
	return nil
}

// Pending returns the names of the migrations that Migrate would apply, in
// order, such as "0001_initial". It changes nothing.
func (d *DB) Pending(ctx context.Context) ([]string, error) {
	list, err := pending(ctx, d.db)
	if err != nil {
		return nil, err
	}
	return migration.Names(list), nil
}
