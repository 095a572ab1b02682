package drivertest

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/storage/internal/migration"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driver is what the tests must know about a driver. Texts are SQL unless they are said
// to be names.
type driver struct {
	open       func(t testing.TB, parameters string) *database // with parameters of the data source name
	migrations fs.FS
	names      []string // of the migrations

	now, later       string // times
	blob             func(text string) string
	insertKeys       func(from, to int) string // with these numbers as ids and as digests
	insertExports    func(from, to int) string // with sources https://cad.example/N
	createMigrations string                    // a table as Migrate creates it
	schema           string                    // a query of lines with a name and its definition

	sixteen        string   // parameters of 16 connections
	sessions       []string // parameters of sessions that may fire triggers otherwise
	manualChanges  func(d *driver) []manualChange
	epochChanges   map[string]epochChange
	repeatsDigests bool // the log may have a digest more often than it changed
	rowsAfterMany  int  // of the log, after a statement that changes most keys
	loggedKeys     int  // in the test of the log's length
}

var drivers = map[string]*driver{"sqlite": &sqliteDriver, "postgres": &postgresDriver}

// database is one that only one test uses.
type database struct {
	*driver
	t       testing.TB
	connect func() handle // opens it another time, as another process does
	exec    func(statements string) error
	scan    func(query string, dest any) error
	prepare func(statement string) (execute func() error)
	copy    func() *database

	// plainInsert creates a table without triggers, and returns a function that inserts a
	// row. It is safe for concurrent use.
	plainInsert func() func(folderID int64, symbol symbols.Symbol) error
}

// handle is what a driver provides.
type handle interface {
	storagetest.Storage
	Migrate(ctx context.Context) error
	Pending(ctx context.Context) ([]string, error)
}

// newDatabase opens an empty database.
func (d *driver) newDatabase(t testing.TB, parameters string) *database {
	db := d.open(t, parameters)
	db.driver, db.t = d, t
	return db
}

// runEach runs a test with an empty database of each driver.
func runEach(t *testing.T, test func(t *testing.T, db *database)) {
	t.Parallel()
	for name, d := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d.newDatabase(t, ""))
		})
	}
}

// digest returns the SQL of digestOf.
func (d *driver) digest(n int) string { return d.blob(fmt.Sprintf("%032d", n)) }

// execute runs statements, as an operator would by hand.
func (db *database) execute(statements string) {
	db.t.Helper()
	if err := db.exec(statements); err != nil {
		db.t.Fatalf("%s: %v", statements, err)
	}
}

// count returns the number that a query returns.
func (db *database) count(query string) (n int) {
	db.t.Helper()
	is.New(db.t).NoErr(db.scan(query, &n))
	return n
}

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

// migrated returns a handle on the database after its migration.
func (db *database) migrated() handle {
	db.t.Helper()
	h := db.connect()
	is.New(db.t).NoErr(h.Migrate(db.t.Context()))
	return h
}

// migrateTo applies the migrations up to one, as an earlier version of the driver does.
func (db *database) migrateTo(last string) {
	db.t.Helper()
	db.execute(db.createMigrations)
	for _, m := range must(migration.Read(db.migrations))(db.t) {
		if m.Name() <= last {
			db.execute(m.SQL)
			db.execute(fmt.Sprintf(`INSERT INTO canvasback_migrations (version, title, applied_at) VALUES (%d, '%s', %s)`, m.Version, m.Title, db.now))
		}
	}
}
