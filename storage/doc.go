// Package storage documents what the storage drivers have in common. It has no
// code.
//
//	package    New takes        durable  processes        requires
//	memory     nothing          no       one              nothing
//	sqlite     *sql.DB          yes      on one machine   SQLite 3.51.3
//	postgres   *pgxpool.Pool    yes      on any machine   PostgreSQL 14
//
// They are tested with modernc.org/sqlite 1.60.1, mattn/go-sqlite3 1.14.53 and
// ncruces/go-sqlite3 0.36.0, and with PostgreSQL 14.23, 15.18, 16.14, 17.10 and 18.4,
// also behind a PgBouncer that keeps no prepared statements.
//
// # Contracts
//
// A driver implements keys.Store, symbols.Store and exports.Store as their
// comments specify, and no other rules. These drivers also implement
// exports.LinkStore, which is optional: without it there are no download links. The
// package storagetest tests drivers against these comments, with one handle on a
// storage and with two. So all drivers agree on equality, ordering, sentinel errors
// and concurrent outcomes.
//
// New does no I/O, starts no goroutine and reads no environment. The application
// owns the database handle: it sets the pool size, and closes the handle after
// the last use of the stores.
//
// # Failures
//
// The drivers' tests also show:
//
//   - If a database call fails, the method changes nothing. Only if the response
//     to a commit is lost does it return an error and change everything
//     (storagetest.RunFaults).
//   - Concurrent calls are linearizable, also from two processes
//     (internal/drivertest).
//   - A context that ends does not affect other calls, and leaves no lock and no
//     connection in use.
//   - No acknowledged write is lost and none is applied twice if processes are
//     killed during writes, disks are full, connections are cut around a commit,
//     or the server restarts, crashes, hangs, ends sessions or rejects
//     connections. During such a failure httpapi responds with 503 in time; two
//     seconds after it, requests succeed.
//
// # Schema
//
// The names of tables and other schema objects begin with canvasback_, so that
// they can share a database with the application. The application calls Migrate
// before it serves requests; Migrate creates and updates the schema. It may run
// at every start and in several processes at once. It returns an error if a newer
// release has removed what this one needs. Pending lists what Migrate would apply. The
// SQL files are exported as Migrations, for applications with their own tool:
// golang-migrate reads them as NNNN_title.up.sql, and goose between the lines
// "-- +goose Up", "-- +goose StatementBegin" and "-- +goose StatementEnd". They do not
// call Migrate, which knows only what it has recorded in canvasback_migrations.
//
// Triggers maintain the epoch and the versions. A change made directly in the database
// therefore revokes keys, replaces entity tags and is found by searches, as a change
// through a store is.
package storage
