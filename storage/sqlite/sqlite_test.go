package sqlite_test

import (
	"database/sql"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pragmas are the settings of the package comment.
const pragmas = "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// connect opens a database that is closed at the end of the test.
func connect(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	return db
}

func open(t testing.TB) storagetest.Harness {
	t.Helper()
	harness, _ := openFile(t)
	return harness
}

// openFile creates and migrates a database file.
func openFile(t testing.TB) (harness storagetest.Harness, dsn string) {
	t.Helper()
	dsn = file(t) + pragmas
	var pools []*sql.DB
	reopen := func() storagetest.Storage {
		pools = append(pools, connect(t, dsn))
		return sqlite.New(pools[len(pools)-1])
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
	return storagetest.Harness{Storage: first, Reopen: reopen, InUse: inUse}, dsn
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}

func BenchmarkStorage(b *testing.B) {
	storagetest.RunBenchmarks(b, open)
}

func BenchmarkExports(b *testing.B) {
	storagetest.RunExportBenchmarks(b, func(t testing.TB) (storagetest.Storage, func([]exports.Export)) {
		harness, dsn := openFile(t)
		conn := connect(t, dsn)
		return harness.Storage, func(list []exports.Export) {
			tx, err := conn.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, export := range list {
				_, err := tx.ExecContext(t.Context(), `
					INSERT INTO canvasback_exports (source_url, exported_url, file_name, created_at, updated_at)
					VALUES (?, ?, ?, 0, 0)`,
					export.SourceURL, export.ExportedURL, export.FileName,
				)
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
