// Package storage is prose: what the drivers below it have in common.
//
//	package    New takes        lasts  several processes  needs
//	memory     nothing          no     no                 nothing
//	sqlite     *sql.DB          yes    on one machine     SQLite 3.51.3
//	postgres   *pgxpool.Pool    yes    on any number      PostgreSQL
//
// # What every driver promises
//
// A driver implements keys.Store, symbols.Store and exports.Store as
// their comments say, and holds no rule besides. The package storagetest turns
// those comments into tests, for one handle on a storage and for two; a driver
// is what passes them. So all drivers agree on what is equal, on what comes
// first, on which failures have a name, and on what is left when two calls
// meet.
//
// New does no I/O, starts no goroutine and reads no environment. The database
// handle stays the host's: it chooses the size of the pool, and closes it when
// nothing uses the stores any more.
//
// # Failures
//
// The tests of the drivers show besides:
//
//   - A method fails at any of its calls to the database without having done
//     anything, or only the answer to its commit is lost and it has done all
//     (storagetest.RunFaults).
//   - What concurrent callers see, be they in two processes, has an order of
//     their calls that explains it (internal/linear).
//   - A context that ends harms no other call, and keeps neither a lock nor a
//     connection.
//   - Processes killed in the middle of a write, full disks, servers that
//     restart, crash, stand still, end sessions or admit nobody, and connections
//     cut around a commit cost nothing that was acknowledged, and nothing is
//     there twice. Through httpapi, what cannot be carried out meanwhile is a
//     503 in time, and two seconds after the failure none is left.
//
// # Schema
//
// Tables and whatever belongs to them have names that begin with canvasback_,
// so that they can live in the host's own database. They are made and brought
// up to date by the driver's Migrate, which the host calls before it serves.
// Migrate may be called at every start and by several processes at once; it
// refuses a database that a newer release has changed. Pending tells what it
// would do. The SQL itself is in the driver's Migrations for hosts that use a
// tool of their own.
//
// Epoch and versions are kept by triggers of the schema. What an operator
// changes by hand therefore revokes keys and renews entity tags just as what
// is changed through a store.
package storage
