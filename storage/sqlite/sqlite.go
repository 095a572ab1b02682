// Package sqlite stores client keys, symbols and exports in a SQLite database
// file. Any number of processes on one machine may share the file.
//
// It works with any SQLite driver for database/sql and imports none; it is
// tested with modernc.org/sqlite. SQLite itself must be version 3.51.3 or later.
//
// # Setup
//
// The application opens the database, and closes it when the stores are no
// longer used. It must set four pragmas on each connection, and keep the default
// encoding UTF-8; [DB.Check] returns an error otherwise. The data source name for
// modernc.org/sqlite and github.com/ncruces/go-sqlite3, and the one for
// github.com/mattn/go-sqlite3:
//
//	file:PATH?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)
//	file:PATH?_busy_timeout=5000&_foreign_keys=1&_journal_mode=WAL&_synchronous=FULL
//
// One connection per core and one for the writer are enough. Keep them open:
//
//	db.SetMaxOpenConns(runtime.NumCPU() + 1)
//	db.SetMaxIdleConns(runtime.NumCPU() + 1)
//
// SQLite creates the file with mode 0644, less the umask. It holds the URLs of
// exported files, so create it with mode 0600 before; SQLite gives its other files
// the same mode.
//
// In SQLite, each connection to an in-memory database has a database of its own.
// Allow a single connection that never expires, or use package memory.
//
// # Concurrency
//
// There is one writer at a time. Readers neither wait for it nor delay it.
// Writers of one process queue in Go, and stop waiting when their context ends.
// Insertions of single symbols that wait together share a transaction and its fsync.
// Writers of several processes wait for each other in SQLite, at most for
// busy_timeout, regardless of their contexts.
//
// # Memory
//
// SQLite has a copy of the data of a symbol while it reads it, and two while it writes it,
// three to restore it, in memory that the limit of Go does not include. One symbol of
// more than [symbols.LargeSize] bytes is read at a time, beside one writer. So set
// GOMEMLIMIT below the memory of a container by four times the maximum size of a symbol,
// 200 MiB by default.
//
// # Full disk
//
// On a full disk, reads succeed, and so do checks of keys. A write returns an error and
// changes nothing, also one that deletes something or revokes a key: each first adds to
// the WAL, a change of a key 24 KB. Once there is space, writes succeed without a
// restart. So alert on free disk space.
//
// A write of many records, such as an import or the deletion of a large folder, also needs
// a temporary file, which SQLite creates in the first directory that it can write to of
// SQLITE_TMPDIR, TMPDIR, /var/tmp, /usr/tmp, /tmp and the working directory. Without one
// the error is "unable to open database file"; without space there, that of a full disk.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/migration"
	"example.com/canvasback/storage/internal/sqlstore"
	"example.com/canvasback/symbols"
)

// DB provides stores in a SQLite database. It is safe for concurrent use.
type DB struct{ db *database }

// New returns a DB that uses db, which the caller must close, or an error if that is
// nil. Create one DB per database, because its writers queue there.
func New(db *sql.DB) (*DB, error) {
	if db == nil {
		return nil, errors.New("sqlite: no database")
	}
	return &DB{&database{
		pool:      db,
		writeLock: make(chan struct{}, 1),
		large:     make(chan struct{}, 1),
		joining:   make(chan *insertion),
	}}, nil
}

// Keys returns the store of client keys.
func (d *DB) Keys() keys.Store { return keyStore{sqlstore.Keys{DB: d.db}} }

// Symbols returns the store of folders and symbols.
func (d *DB) Symbols() symbols.Store { return symbolsOf(d.db, "") }

// Exports returns the store of registered exports.
func (d *DB) Exports() exports.Store { return exportStore{sqlstore.Exports{DB: d.db}} }

// Check returns an error that lists the required settings that the database
// lacks. It inspects one connection and assumes that all are opened alike.
func (d *DB) Check(ctx context.Context) error {
	conn, err := connect(ctx, d.db.pool)
	if err != nil {
		return err
	}
	defer conn.Close()
	return check(ctx, conn)
}

// Migrate brings the database to the latest schema, in one transaction. It may
// be called at every startup and by several processes at once: all wait until one has
// migrated, however long it takes, and it only reads if there is nothing to do. Migrate
// returns the error of [DB.Check] if there is one, and an error if a newer release has
// removed what this one needs.
func (d *DB) Migrate(ctx context.Context) error {
	if err := d.Check(ctx); err != nil {
		return err
	}
	for {
		if list, err := d.Pending(ctx); err != nil || len(list) == 0 {
			return err
		}
		err := d.db.write(ctx, func(tx transaction) error { return migrate(ctx, tx.conn) })
		if err == nil || !strings.Contains(err.Error(), "database is locked") { // this package imports no driver
			return err
		}
	}
}

// Pending returns the names of the migrations that Migrate would apply, in
// order, such as "0001_initial". It changes nothing.
func (d *DB) Pending(ctx context.Context) ([]string, error) {
	list, err := pending(ctx, d.db.pool.QueryRowContext)
	return migration.Names(list), err
}
