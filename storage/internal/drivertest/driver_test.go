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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driver is what the tests must know about a driver.
type driver struct {
	open       func(t testing.TB) *database // an empty one
	migrations fs.FS

	now              string // SQL of a time
	blob             func(text string) string
	createMigrations string                    // a table as Migrate creates it
	insertExports    func(from, to int) string // with sources https://cad.example/N
}

var drivers = map[string]*driver{"sqlite": &sqliteDriver, "postgres": &postgresDriver}

// database is one that only one test uses.
type database struct {
	*driver
	t       testing.TB
	connect func() handle // opens it another time, as another process does
	exec    func(statements string) error
	scan    func(query string, dest any) error
}

// handle is what a driver provides.
type handle interface {
	storagetest.Storage
	Migrate(ctx context.Context) error
	Pending(ctx context.Context) ([]string, error)
	Baseline(ctx context.Context) error
}

// runEach runs a test with an empty database of each driver.
func runEach(t *testing.T, test func(t *testing.T, db *database)) {
	t.Parallel()
	for name, d := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := d.open(t)
			db.driver, db.t = d, t
			test(t, db)
		})
	}
}

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

// must returns the value of a call that must succeed.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

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
	list, err := migration.Read(db.migrations)
	is.New(db.t).NoErr(err)
	db.execute(db.createMigrations)
	for _, m := range list {
		if m.Name() <= last {
			db.execute(m.SQL)
			db.execute(fmt.Sprintf(`INSERT INTO canvasback_migrations (version, title, applied_at) VALUES (%d, '%s', %s)`, m.Version, m.Title, db.now))
		}
	}
}
