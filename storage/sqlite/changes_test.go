package sqlite_test

import (
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
)

// maxRows is the length of the log that the schema retains.
const maxRows = 10_000

// changeLog reads the log as the store returns it.
type changeLog struct {
	t     *testing.T
	store keys.Store
	since int64
}

func newChangeLog(t *testing.T, conn *sql.DB) *changeLog {
	t.Helper()
	l := &changeLog{t: t, store: must(sqlite.New(conn)).Keys()}
	l.next()
	return l
}

// next returns the changes since the last call.
func (l *changeLog) next() keys.Changes {
	l.t.Helper()
	changes := l.after(l.since)
	l.since = changes.Epoch
	return changes
}

func (l *changeLog) after(since int64) keys.Changes {
	l.t.Helper()
	changes, err := l.store.Changes(l.t.Context(), since)
	if err != nil {
		l.t.Fatal(err)
	}
	return changes
}

// want checks that the log has the digests of the numbers, each at least once,
// and no others.
func (l *changeLog) want(numbers ...int) {
	l.t.Helper()
	changes := l.next()
	got := make(map[keys.Digest]bool)
	for _, digest := range changes.Digests {
		got[digest] = true
	}
	missing := slices.ContainsFunc(numbers, func(n int) bool { return !got[digestOf(n)] })
	if !changes.Complete || missing || len(got) != len(numbers) {
		l.t.Errorf("the log has %d digests, complete: %v, want those of %v", len(changes.Digests), changes.Complete, numbers)
	}
}

// digestOf returns the number in 32 digits.
func digestOf(n int) keys.Digest { return keys.Digest([]byte(fmt.Sprintf("%032d", n))) }

const digestColumn = `CAST(substr('00000000000000000000000000000000' || n, -32) AS BLOB)`

// insertKeys returns a statement that inserts keys with the ids "from" to "to" and
// the digests of these numbers.
func insertKeys(from, to int) string {
	return fmt.Sprintf(`
		WITH RECURSIVE numbers (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM numbers WHERE n < %d)
		INSERT INTO canvasback_keys (id, name, prefix, mask, digest, active, created_at, updated_at)
		SELECT n, n, '', '', `+digestColumn+`, 1, 0, 0
		FROM numbers`, from, to)
}

func setDigest(id, n int) string {
	return fmt.Sprintf(`UPDATE canvasback_keys SET digest = (SELECT %s FROM (SELECT %d AS n)) WHERE id = %d`, digestColumn, n, id)
}

// execute runs statements, as an operator would by hand.
func execute(t testing.TB, conn *sql.DB, statements string) {
	t.Helper()
	if _, err := conn.ExecContext(t.Context(), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func count(t testing.TB, conn *sql.DB, query string) (n int) {
	t.Helper()
	if err := conn.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func migrated(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	conn := connect(t, dsn)
	if err := must(sqlite.New(conn)).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Statements run by hand must be logged too, also those that delete rows without
// firing the trigger for deletions.
func TestChanges_LogManualStatements(t *testing.T) {
	t.Parallel()
	const insert = `INTO canvasback_keys (id, name, prefix, mask, digest, active, created_at, updated_at)`
	values := func(id, digest int) string {
		return fmt.Sprintf(` SELECT %d, '', '', '', %s, 1, 0, 0 FROM (SELECT %d AS n) WHERE true`, id, digestColumn, digest)
	}
	for _, recursive := range []string{"0", "1"} {
		t.Run("recursive_triggers="+recursive, func(t *testing.T) {
			t.Parallel()
			conn := migrated(t, file(t)+pragmas+"&_pragma=recursive_triggers("+recursive+")")
			log := newChangeLog(t, conn)
			log.want()
			for _, test := range []struct {
				statement string
				want      []int
			}{
				{insertKeys(1, 5), []int{1, 2, 3, 4, 5}},
				{`UPDATE canvasback_keys SET active = active, digest = digest, expires_at = expires_at`, nil},
				{`UPDATE canvasback_keys SET name = 'x', prefix = 'x', mask = 'x', updated_at = 1`, nil},
				{`UPDATE canvasback_keys SET last_used_at = 1, use_count = 3`, nil},
				{`UPDATE canvasback_keys SET active = 0 WHERE id IN (2, 3)`, []int{2, 3}},
				{`UPDATE canvasback_keys SET active = 0`, []int{1, 4, 5}},
				{`UPDATE canvasback_keys SET expires_at = 1 WHERE id = 2`, []int{2}},
				{`UPDATE canvasback_keys SET expires_at = NULL`, []int{2}},
				{setDigest(2, 12), []int{2, 12}},
				{`UPDATE canvasback_keys SET owner = 'a' WHERE id = 2`, []int{12}},
				{`UPDATE canvasback_keys SET scopes = '' WHERE id = 2`, []int{12}},
				{`UPDATE canvasback_keys SET previous_digest = (SELECT ` + digestColumn + ` FROM (SELECT 22 AS n)), previous_expires_at = 1 WHERE id = 2`, []int{12, 22}},
				{`UPDATE canvasback_keys SET previous_expires_at = 2 WHERE id = 2`, []int{12, 22}},
				{`UPDATE canvasback_keys SET active = 1 WHERE id = 2`, []int{12, 22}},
				{`UPDATE canvasback_keys SET digest = previous_digest, previous_digest = digest WHERE id = 2`, []int{12, 22}},
				{`UPDATE canvasback_keys SET id = 26 WHERE id = 2`, []int{12, 22}},
				{`UPDATE OR REPLACE canvasback_keys SET id = 2 WHERE id = 26`, []int{12, 22}},
				{`UPDATE OR REPLACE canvasback_keys SET digest = (SELECT digest FROM canvasback_keys WHERE id = 2) WHERE id = 1`, []int{1, 22, 12}},
				{`DELETE FROM canvasback_keys WHERE id = 1; ` + insertKeys(1, 2), []int{22, 1, 2}},
				{setDigest(2, 12), []int{2, 12}},
				{`UPDATE canvasback_keys SET id = 25 WHERE id = 5`, []int{5}},
				{`DELETE FROM canvasback_keys WHERE false`, nil},
				{`DELETE FROM canvasback_keys WHERE id IN (1, 2)`, []int{1, 12}},
				{`BEGIN; DELETE FROM canvasback_keys; ROLLBACK`, nil},
				{`BEGIN; SAVEPOINT a; DELETE FROM canvasback_keys; ROLLBACK TO a; ` + insertKeys(7, 8) + `; COMMIT`, []int{7, 8}},
				{`INSERT ` + insert + values(0, 7) + ` ON CONFLICT (digest) DO UPDATE SET active = 0`, []int{7}},
				{`REPLACE ` + insert + values(7, 17), []int{7, 17}}, // the same id
				{`REPLACE ` + insert + values(27, 17), []int{17}},   // the same digest
				{`REPLACE ` + insert + values(27, 8), []int{17, 8}}, // both
				{`REPLACE ` + insert + values(27, 8), []int{8}},     // the same key
				{`UPDATE OR REPLACE canvasback_keys SET id = 4 WHERE id = 3`, []int{3, 4}},
				{`UPDATE OR REPLACE canvasback_keys SET digest = (SELECT digest FROM canvasback_keys WHERE id = 25) WHERE id = 4`, []int{3, 5}},
				{`DELETE FROM canvasback_keys`, []int{5, 8}},
			} {
				execute(t, conn, test.statement)
				log.want(test.want...)
				log.want() // nothing since
				if t.Failed() {
					t.Fatal(test.statement)
				}
			}
		})
	}
}

// The log retains its last entries and never grows beyond them.
func TestChanges_LogIsPruned(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := migrated(t, file(t)+pragmas)
	log := newChangeLog(t, conn)
	rows := func() int { return count(t, conn, `SELECT count(*) FROM canvasback_key_changes`) }
	start := log.since
	execute(t, conn, insertKeys(1, maxRows-1))
	is.Equal(rows(), maxRows)
	known := log.next()
	is.True(known.Complete)
	is.Equal(len(known.Digests), maxRows-1)
	execute(t, conn, insertKeys(maxRows, maxRows))
	is.Equal(log.after(start).Complete, false)
	log.want(maxRows)

	execute(t, conn, `UPDATE canvasback_keys SET active = 0`) // all of the log
	is.Equal(log.after(known.Epoch).Complete, false)
	is.Equal(rows(), maxRows)
	log.next()
	execute(t, conn, setDigest(7, 0))
	log.want(7, 0)
	is.Equal(rows(), maxRows)
}

// An epoch that was changed by hand makes results incomplete until keys change.
func TestChanges_FollowEpochChangedByHand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statement string
		complete  bool // for a process that knows only the epoch before
	}{
		"set back":          {`UPDATE canvasback_key_epoch SET epoch = epoch - 1000`, false},
		"set back far":      {`UPDATE canvasback_key_epoch SET epoch = 1`, false},
		"set back to known": {`UPDATE canvasback_key_epoch SET epoch = (SELECT min(epoch) FROM canvasback_key_changes)`, false},
		"raised":            {`UPDATE canvasback_key_epoch SET epoch = epoch + 1`, false},
		"unchanged":         {`UPDATE canvasback_key_epoch SET epoch = epoch`, true},
		"replaced":          {`DELETE FROM canvasback_key_epoch; INSERT INTO canvasback_key_epoch DEFAULT VALUES`, false},
		"log deleted":       {`DELETE FROM canvasback_key_changes`, false},
		"end deleted":       {`DELETE FROM canvasback_key_changes WHERE number = 6`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			conn := migrated(t, file(t)+pragmas)
			execute(t, conn, insertKeys(1, 3))
			log := newChangeLog(t, conn)
			lower := log.since
			execute(t, conn, insertKeys(4, 5))
			log.want(4, 5)
			higher := log.since

			execute(t, conn, test.statement)
			is.Equal(log.after(higher).Complete, test.complete)
			is.True(len(log.after(lower).Digests) == 2 || !log.after(lower).Complete)
			known := log.next().Epoch
			for n := 6; n < 16; n++ {
				execute(t, conn, insertKeys(n, n))
				for _, since := range []int64{lower, higher, known} {
					changes := log.after(since)
					is.True(!changes.Complete || slices.Contains(changes.Digests, digestOf(n)))
					is.True(!changes.Complete || since != lower || len(changes.Digests) >= n-3)
					is.True(changes.Epoch != since)
				}
				log.next()
				is.True(log.after(log.since).Complete) // recovered
			}
		})
	}
}

// Without an epoch, changes of keys succeed, but the cache must not be used.
func TestChanges_FailWithoutEpoch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := migrated(t, file(t)+pragmas)
	log := newChangeLog(t, conn)
	before := log.since
	execute(t, conn, `DELETE FROM canvasback_key_epoch`)
	execute(t, conn, insertKeys(1, 2))
	_, err := log.store.Changes(t.Context(), before)
	is.True(err != nil)
	execute(t, conn, fmt.Sprintf(`INSERT INTO canvasback_key_epoch (epoch) VALUES (%d)`, before))
	for n := 3; n < 6; n++ {
		is.Equal(log.after(before).Complete, false) // keys 1 and 2 are not logged
		execute(t, conn, insertKeys(n, n))
	}
}

// A copy of the file has the epochs of the original, but none that either reaches
// later.
func TestChanges_CopyDivergesFromOriginal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	conn := migrated(t, file(t)+pragmas)
	execute(t, conn, insertKeys(1, 3))
	log := newChangeLog(t, conn)
	before := log.since
	execute(t, conn, insertKeys(4, 5))
	copied := log.next().Epoch
	name := filepath.Join(t.TempDir(), "copy.db")
	execute(t, conn, `VACUUM INTO '`+name+`'`)
	execute(t, conn, `UPDATE canvasback_keys SET active = 0 WHERE id = 4`)
	later := log.next().Epoch

	restoredConn := migrated(t, "file:"+name+pragmas)
	restored := newChangeLog(t, restoredConn)
	is.Equal(restored.after(before).Digests, []keys.Digest{digestOf(4), digestOf(5)})
	is.Equal(restored.after(copied), keys.Changes{Epoch: copied, Complete: true})
	is.Equal(restored.after(later).Complete, false)

	execute(t, conn, `UPDATE canvasback_keys SET active = 0 WHERE id = 1`)
	execute(t, restoredConn, `UPDATE canvasback_keys SET active = 0 WHERE id = 2`)
	is.Equal(log.after(copied).Digests, []keys.Digest{digestOf(4), digestOf(1)})
	is.Equal(restored.after(copied).Digests, []keys.Digest{digestOf(2)})
	is.Equal(log.after(restored.next().Epoch).Complete, false)
	is.Equal(restored.after(log.next().Epoch).Complete, false)
	is.Equal(restored.after(later).Complete, false)
}

// Processes of the first version continue to work on the new schema.
func TestMigrate_SupportsFirstVersionSideBySide(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := file(t) + pragmas
	old := connect(t, dsn)
	first, err := fs.ReadFile(sqlite.Migrations, "0001_initial.sql")
	is.NoErr(err)
	execute(t, old, string(first)+`;
		CREATE TABLE canvasback_migrations (version INTEGER PRIMARY KEY, title TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT;
		INSERT INTO canvasback_migrations VALUES (1, 'initial', 0);`+insertKeys(1, 3))
	epoch := func() int { return count(t, old, `SELECT epoch FROM canvasback_key_epoch`) }
	deactivate, err := old.PrepareContext(t.Context(), `UPDATE canvasback_keys SET active = 0 WHERE id = ?`)
	is.NoErr(err)
	defer deactivate.Close()
	before := epoch()
	log := newChangeLog(t, migrated(t, dsn))
	is.Equal(epoch(), before) // the caches of running processes remain valid
	is.Equal(log.since, int64(before))

	_, err = deactivate.ExecContext(t.Context(), 2)
	is.NoErr(err)
	log.want(2)
	is.True(epoch() > before)
	before = epoch()
	execute(t, old, `UPDATE canvasback_keys SET last_used_at = 1`)
	is.Equal(epoch(), before)
	execute(t, old, insertKeys(4, 4))
	log.want(4)
	is.True(epoch() > before)
}
