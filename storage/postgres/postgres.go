// Package postgres is a storage in a PostgreSQL database, which any number of
// processes may share. It needs version 14 or newer with the encoding UTF8 and
// is tested with 15.
//
// The host makes the pool and calls [DB.Migrate] at its start, or has it done
// by somebody with more rights. Nothing else is needed at a start.
//
// # Tables
//
// The names of all tables, indexes, triggers and functions begin with
// canvasback_, so the schema may hold other things. Triggers keep the epoch
// and all versions: a statement by another hand counts as a change too.
//
//	canvasback_keys          client keys
//	canvasback_key_epoch     one row: the epoch of the keys
//	canvasback_folders       folders, their versions and those of their contents
//	canvasback_symbols       symbols
//	canvasback_folder_list   one row: the version of the folder list
//	canvasback_exports       registered exports
//	canvasback_migrations    what [DB.Migrate] has done
//
// Their owner has all rights that are needed; [DB.Migrate] has to create them
// in the schema, and the schema too if [Options] name one that is not there.
// Another role works with SELECT, INSERT, UPDATE and DELETE on them and USAGE
// on the schema.
//
// # Poolers
//
// No method leaves anything behind in its session: there are no session locks
// and settings, and no LISTEN. Behind a pooler that gives a connection to
// somebody else after each transaction, the prepared statements of pgx remain.
// PgBouncer carries them along from 1.21 on; elsewhere let the pool do without
// them, by default_query_exec_mode=exec in its address.
//
// # Crashes
//
// What a method has acknowledged survives a crash of the server as far as the
// server's own settings say: with synchronous_commit off it may be lost, be it
// the revocation of a key.
//
// # Lost connections
//
// When a server restarts or ends sessions, connections die in the pool, which
// looks only at those that have been idle for a second. A call that is given a
// dead one has the pool drop all of them and goes on with another, as long as
// it can have changed nothing. It fails if it has sent a statement that writes:
// whether that was carried out, nobody knows.
//
// A pool waits two minutes for a new connection unless its address has another
// connect_timeout. Give it a few seconds: connections to a server that is gone
// take the places of those to the one that has come instead.
//
// # Ended contexts
//
// A call whose context ends returns at once and gives its connection back, but
// PostgreSQL may go on with the statement: wait for a lock, even, and carry it
// out then. Where that matters, let the pool's connections send a cancel
// request (pgconn.CancelRequestContextWatcherHandler), or set lock_timeout.
//
// # Concurrency
//
// Who writes a symbol locks its folder first, several folders in order of id,
// so writers of symbols, folders and versions wait for each other and never in
// a circle. The statements of an operator may lock otherwise; what PostgreSQL
// breaks off for that reason is tried again.
package postgres

import (
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options adjust a [DB]. The zero value is ready for use.
type Options struct {
	// Schema is where the tables are. If it is empty, the search path of the
	// pool's connections decides.
	Schema string
}

// DB is a storage in a PostgreSQL database. It is safe for concurrent use.
type DB struct {
	pool   *pgxpool.Pool
	schema string // quoted, or empty
}

// New returns a storage over pool, which stays the host's to close; nil
// options are the defaults.
func New(pool *pgxpool.Pool, options *Options) *DB {
	db := &DB{pool: pool}
	if options != nil && options.Schema != "" {
		db.schema = pgx.Identifier{options.Schema}.Sanitize()
	}
	return db
}

// Keys returns the store of client keys.
func (db *DB) Keys() keys.Store { return keyStore{db} }

// Symbols returns the store of folders and symbols.
func (db *DB) Symbols() symbols.Store { return symbolStore{db} }

// Exports returns the store of registered exports.
func (db *DB) Exports() exports.Store { return exportStore{db} }

// orNull is a time as it is stored.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// fromNull is a stored time.
func fromNull(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
