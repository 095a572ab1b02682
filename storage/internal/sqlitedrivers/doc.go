// Package sqlitedrivers runs the tests of storage drivers with package sqlite over
// github.com/mattn/go-sqlite3, which needs cgo, and github.com/ncruces/go-sqlite3.
//
// It is a module of its own, so that importers of the main module do not depend on
// these drivers. Each has a package, because both register the name sqlite3. Package
// powerloss simulates power losses.
package sqlitedrivers

import (
	"database/sql"
	"path/filepath"
	"testing"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
)

// Run runs the tests with the driver sqlite3. The parameters are the query of its data
// source names.
func Run(t *testing.T, parameters string) {
	open := func(t testing.TB) storagetest.Harness {
		t.Helper()
		dsn := "file:" + filepath.Join(t.TempDir(), "test.db") + "?" + parameters
		var pools []*sql.DB
		reopen := func() storagetest.Storage {
			pool := testflag.Must(sql.Open("sqlite3", dsn))(t)
			t.Cleanup(func() { pool.Close() })
			pool.SetMaxOpenConns(4)
			pool.SetMaxIdleConns(4)
			pools = append(pools, pool)
			return testflag.Must(sqlite.New(pool))(t)
		}
		first := reopen()
		if err := first.(*sqlite.DB).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		inUse := func() (n int) {
			for _, pool := range pools {
				n += pool.Stats().InUse
			}
			return n
		}
		return storagetest.Harness{Storage: first, Reopen: reopen, InUse: inUse}
	}
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}
