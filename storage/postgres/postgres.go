// Package postgres stores client keys, symbols and exports in PostgreSQL. Any
// number of processes may share the database.
//
// The server must be PostgreSQL 14 to 18, and the database encoding UTF8.
// YugabyteDB, CockroachDB and Citus lack triggers with transition tables, which the
// package needs.
//
// # Setup
//
// The application creates the pool, and closes it when the stores are no longer
// used. It calls [DB.Migrate] at startup, or runs it once per release with a
// role that has more rights. Name all servers that can be the primary:
//
//	config, err := pgxpool.ParseConfig("postgres://canvasback:secret@db1,db2/app")
//	...
//	postgres.ConfigurePool(config)
//	pool, err := pgxpool.NewWithConfig(ctx, config)
//
// [ConfigurePool] makes the pool find the primary soon after a failover, and keep most
// connections of calls whose context ends.
//
// # Failover
//
// With synchronous replication, a failover loses no acknowledged write and no
// revocation. Once a call that revokes a key returns, no process accepts it, whichever
// server the process is connected to, even if the previous primary still runs. To
// ensure this, all calls that write and those that check keys are fenced if the server
// has synchronous_standby_names: they return only after a commit has reached the
// standby. A primary that its standby has replaced cannot make such a commit, but just after
// a start it can before PostgreSQL 14.18, 15.13, 16.9 and 17.5.
//
//   - While the primary or the standby is lost, fenced calls return an error, and
//     checks respond 503. [ValidateConnect] then accepts no server; an application
//     that can do with a primary alone uses a second pool for its own data.
//   - All calls that decide about keys reject a standby, fenced or not.
//   - If the pool has a ValidateConnect or target_session_attrs, they also reject a
//     server that has become read-only.
//   - If a server is not, or no longer, the primary, the pool replaces all its
//     connections. With [ValidateConnect] it then finds the new primary.
//
// Every standby that may be promoted must confirm each commit: a single one,
// FIRST 1 (a), or all, FIRST 2 (a, b). With ANY 1 (a, b) or FIRST 1 (a, b), b may
// confirm commits of the previous primary after the promotion of a, until b follows
// a. The names must be those of all standbys that may be promoted, each with a name of
// its own. [DB.FenceState] reports whether a server fulfills this, each change is logged,
// and with [FenceStrict] calls succeed only while it does. Storage that replicates by itself
// has no synchronous_standby_names; use [FenceAlways], so that calls need a write to it.
// .github/PROCESSES.md has the settings of Patroni and other managers.
//
// Without synchronous replication, a failover loses the last commits. A key revoked
// by one of them becomes valid again, and a new key unknown. While the previous
// primary runs, the processes connected to it accept keys that were revoked on the
// new one.
//
// A fenced call waits for one synchronous commit and uses a transaction id. A process that
// checks keys makes one such call per key that is not in its cache, and ten times a second
// it asks for changes, unless it has checked no key for a minute. Processes share the
// confirmations of these questions, unless a question takes more than 40 ms.
//
// # Poolers
//
// The driver keeps no state in a session: no session locks, no LISTEN, and no
// settings beyond a transaction. It works behind PgBouncer 1.21 or later in session and
// transaction mode. If a pooler loses prepared statements, the driver logs the first one,
// and prepares none from then on.
//
// # Tables
//
// The names of all tables and functions begin with canvasback_; the directory migrations
// says what each has.
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
// of a key, except on a fenced server.
//
// With synchronous replication, a write returns an error if its wait for the standby is
// canceled. After an error, a write may be stored nevertheless, and may be lost by a
// failover. A repeated creation can therefore result in two records, and the first one is
// visible in lists.
//
// # Full disk
//
// If the disk of the WAL is full, PostgreSQL stops, and so does a revocation: keys can be
// changed only after an operator has freed space and restarted the server. Until then no
// check succeeds either; all respond 503. Monitor the disk, keep pg_wal on a disk of its
// own, and keep a file of some megabytes there that can be deleted. If only the disk of
// the tables is full, the server runs, and a write that needs space returns an error.
//
// # Lost connections
//
// A restart of the server kills all connections of the pool, which pings only
// those that were idle for more than a second, see [ConfigurePool]. A call that gets a dead
// connection makes the pool replace all of them. It retries on a new one
// unless it has already sent a write, whose outcome is unknown; then it
// returns the error.
//
// # Locks
//
// Lock order: folders by ascending id, then symbols, then segments. This prevents
// deadlocks between calls. Statements run by hand may lock in another order; a call
// that PostgreSQL aborts with a deadlock or serialization failure is retried.
//
// Insertions of single symbols that arrive during another one share a statement and its
// commit. If the context of one ends during it, the symbol may be stored.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/migration"
	"example.com/canvasback/storage/internal/sqlstore"
	"example.com/canvasback/storage/postgres/internal/fence"
	"example.com/canvasback/symbols"
)

// Options configure a [DB]. The zero value is ready to use.
type Options struct {
	// Schema is the schema of the tables, unquoted: up to 63 bytes, as PostgreSQL
	// truncates longer names. If it is empty, the search_path of the pool's
	// connections determines it.
	Schema string

	// Fence selects when calls are fenced: by default, if the server has
	// synchronous_standby_names.
	Fence Fence

	// Logger receives the state of the fence when it changes, see [DB.FenceState], and that
	// a migration waits. The default is slog.Default().
	Logger *slog.Logger
}

// Fence selects on which servers the calls that write and those that check keys, Find
// and Changes, are fenced. A fenced call returns only after a commit that includes its
// reads and writes has reached the synchronous standby. See the section Failover of the
// package comment.
type Fence int

const (
	// FenceAuto fences calls on a server that has synchronous_standby_names.
	FenceAuto = Fence(fence.Auto)

	// FenceAlways fences calls on every server. It is meant for servers that
	// replicate synchronously by other means, such as shared storage.
	FenceAlways = Fence(fence.Always)

	// FenceNever fences nothing.
	FenceNever = Fence(fence.Never)

	// FenceStrict is FenceAuto, and fenced calls return an error on a server whose
	// state is not "complete". Writes may be stored nevertheless.
	FenceStrict = Fence(fence.Strict)
)

// DB provides stores in a PostgreSQL database. It is safe for concurrent use.
type DB struct{ db *database }

// New returns a DB that uses pool, which the caller must close. Nil options are
// the defaults. It returns an error if there is no pool or an option is invalid.
func New(pool *pgxpool.Pool, options *Options) (*DB, error) {
	const maxIdentifier = 63 // bytes
	o := *cmp.Or(options, new(Options))
	switch {
	case pool == nil:
		return nil, errors.New("postgres: no pool")
	case len(o.Schema) > maxIdentifier || strings.ContainsRune(o.Schema, 0):
		return nil, fmt.Errorf("postgres: schema %q must have at most %d bytes and no NUL", o.Schema, maxIdentifier)
	case o.Fence < FenceAuto || o.Fence > FenceStrict:
		return nil, fmt.Errorf("postgres: unknown fence %d", o.Fence)
	}
	db := &database{pool: pool, log: cmp.Or(o.Logger, slog.Default()), inserter: inserter{queues: make(map[queueKey][]*insertion)}}
	if o.Schema != "" {
		db.schema = pgx.Identifier{o.Schema}.Sanitize()
	}
	config := pool.Config().ConnConfig
	mode := config.DefaultQueryExecMode
	db.fence = fence.New(fence.Options{
		Mode:      fence.Mode(o.Fence),
		Table:     db.sql("canvasback_fence"),
		Prepare:   mode == pgx.QueryExecModeCacheStatement,
		Text:      config.DescriptionCacheCapacity > 0 && (mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol),
		ReadWrite: config.ValidateConnect != nil,
		Tracer:    config.Tracer,
		Logger:    db.log,
	})
	return &DB{db}, nil
}

// Keys returns the store of client keys.
func (d *DB) Keys() keys.Store { return keyStore{sqlstore.Keys{DB: d.db}, d.db} }

// Symbols returns the store of folders and symbols.
func (d *DB) Symbols() symbols.Store { return symbolsOf(d.db, "") }

// Exports returns the store of registered exports.
func (d *DB) Exports() exports.Store { return exportStore{sqlstore.Exports{DB: d.db}} }

// FenceState returns what the fence is worth on the server that the last fenced call
// has used, by its synchronous_standby_names:
//
//   - "off": no commit waits for a standby, or the fence is [FenceNever]. A failover can
//     lose acknowledged writes and revocations.
//   - "partial": commits wait, but a standby can be promoted that has not confirmed all
//     of them, as with ANY 1 (a, b).
//   - "complete": all named standbys confirm each commit. With [FenceAlways], this is
//     also the state of a server without names.
//
// Before the first call it is empty.
func (d *DB) FenceState() string { return string(d.db.fence.State()) }

// Migrate brings the database to the latest schema. It may be called at every
// startup and by several processes at once; if nothing is pending, it only
// reads. Each migration runs in one transaction. Migrate returns an error if a newer
// release has removed what this one needs, if the schema was renamed, or if a table or
// function belongs to a role that is neither a superuser, nor the owner of the schema or
// the database, nor one that the current role is a member of.
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
	return migration.Names(list), err
}
