package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
	_ "modernc.org/sqlite"
)

// pragmas are those of the package comment.
const pragmas = "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// connect opens a database until the end of the test.
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

func open(t testing.TB) storagetest.Opened {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "test.db") + pragmas
	db := sqlite.New(connect(t, dsn))
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := func() storagetest.Storage { return sqlite.New(connect(t, dsn)) }
	return storagetest.Opened{Storage: db, Again: again}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}

func BenchmarkStorage(b *testing.B) {
	storagetest.RunBenchmarks(b, open)
}
