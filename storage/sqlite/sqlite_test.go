package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pragmas are the settings of the package comment.
const pragmas = "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// connect opens a database that is closed at the end of the test.
func connect(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db := must(sql.Open("sqlite", dsn))(t)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	return db
}

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

// migrate returns a DB whose schema it brings to the latest version.
func migrate(t testing.TB, pool *sql.DB) *sqlite.DB {
	t.Helper()
	db := must(sqlite.New(pool))(t)
	is.New(t).NoErr(db.Migrate(t.Context()))
	return db
}

func TestNew_RequiresDatabase(t *testing.T) {
	t.Parallel()
	is.New(t).True(errorOf(sqlite.New(nil)) != nil)
}

// file returns the data source name of a new database file.
func file(t testing.TB) string {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "test.db")
}

// Another process migrates, or writes, for longer than busy_timeout.
func TestMigrate_WaitsForLock(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	name := file(t)
	other := must(connect(t, name+pragmas).Conn(t.Context()))(t)
	defer other.Close()
	execute := func(statement string) {
		if _, err := other.ExecContext(t.Context(), statement); err != nil {
			t.Error(err)
		}
	}
	db := must(sqlite.New(connect(t, name+strings.Replace(pragmas, "5000", "20", 1))))(t)
	execute(`BEGIN IMMEDIATE`)
	short, cancelShort := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancelShort()
	is.True(errors.Is(db.Migrate(short), context.DeadlineExceeded))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	time.AfterFunc(100*time.Millisecond, func() { execute(`ROLLBACK`) })
	is.NoErr(db.Migrate(ctx))
	execute(`BEGIN IMMEDIATE`)
	is.NoErr(db.Migrate(ctx)) // there is nothing to do
	execute(`ROLLBACK`)
}

// schema returns the names and definitions of all tables, indexes and triggers.
func schema(t testing.TB, db *sql.DB) []string {
	t.Helper()
	is := is.New(t)
	rows := must(db.QueryContext(t.Context(), `
		SELECT name || ': ' || coalesce(sql, '')
		FROM sqlite_schema
		WHERE name NOT LIKE 'sqlite_%'
		ORDER BY name`))(t)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var line string
		is.NoErr(rows.Scan(&line))
		list = append(list, line)
	}
	is.NoErr(rows.Err())
	return list
}

// opened has the names of tests that have opened a copy of the migrated file.
var opened sync.Map

// open opens a copy of the migrated file for the first storage of a test. A second one
// is migrated by itself, because its epoch and versions must differ.
func open(t testing.TB) storagetest.Harness {
	t.Helper()
	if _, again := opened.LoadOrStore(t.Name(), true); again {
		harness := newHarness(t, file(t)+pragmas)
		is.New(t).NoErr(harness.Storage.(*sqlite.DB).Migrate(t.Context()))
		return harness
	}
	harness, _ := openFile(t)
	return harness
}

// migratedFile returns the content of a migrated database file. Copying it takes a tenth
// of the time of a migration.
var migratedFile = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "canvasback")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "migrated.db")
	pool, err := sql.Open("sqlite", "file:"+name+pragmas)
	if err != nil {
		return nil, err
	}
	db, err := sqlite.New(pool)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(db.Migrate(context.Background()), pool.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
})

// openFile opens a copy of the migrated database file.
func openFile(t testing.TB) (harness storagetest.Harness, dsn string) {
	t.Helper()
	is := is.New(t)
	content := must(migratedFile())(t)
	name := file(t)
	is.NoErr(os.WriteFile(strings.TrimPrefix(name, "file:"), content, 0o600))
	return newHarness(t, name+pragmas), name + pragmas
}

func newHarness(t testing.TB, dsn string) storagetest.Harness {
	var pools []*sql.DB
	reopen := func() storagetest.Storage {
		pools = append(pools, connect(t, dsn))
		return must(sqlite.New(pools[len(pools)-1]))(t)
	}
	inUse := func() (n int) {
		for _, pool := range pools {
			n += pool.Stats().InUse
		}
		return n
	}
	return storagetest.Harness{Storage: reopen(), Reopen: reopen, InUse: inUse}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, open)
	storagetest.RunConcurrent(t, open)
}

func TestCheck_NamesMissingSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, dsn, missing string
	}{
		{"as documented", file(t) + pragmas, ""},
		{"stronger", file(t) + strings.Replace(pragmas, "FULL", "EXTRA", 1), ""},
		{"in memory", "file::memory:" + strings.Replace(pragmas, "WAL", "MEMORY", 1), ""},
		{"nothing set", file(t), "foreign_keys, busy_timeout, journal_mode"},
		{"no foreign keys", file(t) + strings.Replace(pragmas, "foreign_keys(1)", "foreign_keys(0)", 1), "foreign_keys"},
		{"no busy timeout", file(t) + strings.Replace(pragmas, "5000", "0", 1), "busy_timeout"},
		{"no WAL", file(t) + strings.Replace(pragmas, "WAL", "TRUNCATE", 1), "journal_mode"},
		{"journal in memory", file(t) + strings.Replace(pragmas, "WAL", "MEMORY", 1), "journal_mode"},
		{"UTF-16", file(t) + "?_pragma=encoding('UTF-16')&" + pragmas[1:], "encoding"},
		{"no sync", file(t) + strings.Replace(pragmas, "FULL", "NORMAL", 1), "synchronous"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			conn := connect(t, test.dsn)
			db := must(sqlite.New(conn))(t)
			err := db.Check(t.Context())
			if test.missing == "" {
				is.NoErr(err)
				return
			}
			is.True(err != nil)
			for _, pragma := range strings.Split(test.missing, ", ") {
				is.True(strings.Contains(err.Error(), pragma)) // names the setting
			}
			is.True(db.Migrate(t.Context()) != nil)
			is.Equal(len(schema(t, conn)), 0) // Migrate has created nothing
		})
	}
}

func TestSchema_PreviousKeyEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := connect(t, file(t)+pragmas)
	db := migrate(t, conn)
	_, err := db.Keys().Insert(t.Context(), keys.Key{Name: "key", Active: true})
	is.True(err != nil) // times are required
	now := time.UnixMilli(1)
	must(db.Keys().Insert(t.Context(), keys.Key{Name: "key", CreatedAt: now, UpdatedAt: now}))(t)
	for _, half := range []string{"previous_digest = zeroblob(32)", "previous_expires_at = 1"} {
		is.True(errorOf(conn.ExecContext(t.Context(), "UPDATE canvasback_keys SET "+half)) != nil)
	}
	must(conn.ExecContext(t.Context(), "UPDATE canvasback_keys SET previous_digest = zeroblob(32), previous_expires_at = 1"))(t)
}

func TestPruneTrash_RemovesRows(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, file(t)+pragmas)
	store := migrate(t, pool).Symbols()
	for _, insert := range []string{ // 450 empty folders, and symbols of the last one
		`INSERT INTO canvasback_trash (id, tenant, folder_id, name, symbols, size, deleted_at, deleted_by) SELECT i, '', i, 'n', 0, 1024, 0, 0`,
		`INSERT INTO canvasback_trash_symbols (id, trash_id, folder_id, created_at, name, type, tags, meta, data) SELECT i, 450, 450, 0, 'n', 'a/b', '', '', 'x'`,
	} {
		_, err := pool.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 450) ` + insert + ` FROM n`)
		is.NoErr(err)
	}
	for more := true; more; {
		var err error
		more, err = store.PruneTrash(t.Context(), time.Time{}, 0)
		is.NoErr(err)
	}
	var rows int
	is.NoErr(pool.QueryRow(`SELECT (SELECT count(*) FROM canvasback_trash) + (SELECT count(*) FROM canvasback_trash_symbols)`).Scan(&rows))
	is.Equal(rows, 0)
}
