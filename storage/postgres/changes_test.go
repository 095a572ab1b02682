package postgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
)

// maxRows is the length of the log that the schema retains.
const maxRows = 10_000

// changeLog reads the log as the store returns it.
type changeLog struct {
	t     *testing.T
	store keys.Store
	since int64
}

func newChangeLog(t *testing.T, pool *pgxpool.Pool) *changeLog {
	t.Helper()
	l := &changeLog{t: t, store: must(postgres.New(pool, nil)).Keys()}
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

// want checks that the log has the digests of the named keys, in any order.
func (l *changeLog) want(names ...string) {
	l.t.Helper()
	changes := l.next()
	var want []keys.Digest
	for _, name := range names {
		want = append(want, digestOf(name))
	}
	if !changes.Complete || !slices.Equal(sorted(changes.Digests), sorted(want)) {
		l.t.Errorf("the log has %d digests, complete: %v, want those of %v", len(changes.Digests), changes.Complete, names)
	}
}

// wantIncomplete checks that all digests may have changed.
func (l *changeLog) wantIncomplete() {
	l.t.Helper()
	if changes := l.next(); changes.Complete || len(changes.Digests) > 0 {
		l.t.Errorf("the log has %d digests, complete: %v, want an incomplete result", len(changes.Digests), changes.Complete)
	}
}

func digestOf(name string) keys.Digest { return sha256.Sum256([]byte(name)) }

func sorted(list []keys.Digest) []keys.Digest {
	return slices.SortedFunc(slices.Values(list), func(a, b keys.Digest) int { return slices.Compare(a[:], b[:]) })
}

// insertKeys returns a statement that inserts keys with the names "from" to "to".
func insertKeys(from, to int) string {
	return fmt.Sprintf(`
		INSERT INTO canvasback_keys (name, prefix, mask, digest, active, created_at, updated_at)
		SELECT n, '', '', sha256(n::text::bytea), true, now(), now()
		FROM generate_series(%d, %d) AS n;`, from, to)
}

// names returns the names "from" to "to".
func names(from, to int) (list []string) {
	for n := from; n <= to; n++ {
		list = append(list, fmt.Sprint(n))
	}
	return list
}

// Statements run by hand must be logged too, also where triggers do not fire by
// default.
func TestChanges_LogManualStatements(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"origin", "replica", "local"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			pool := connect(t, pgtest.Database(t)+"&session_replication_role="+role)
			migrate(t, pool)
			log := newChangeLog(t, pool)
			log.want()
			for _, test := range []struct {
				statement string
				want      []string // nil: incomplete
			}{
				{insertKeys(1, 5), names(1, 5)},
				{`UPDATE canvasback_keys SET active = active`, []string{}},
				{`UPDATE canvasback_keys SET name = 'x', prefix = 'x', mask = 'x', updated_at = now()`, []string{}},
				{`UPDATE canvasback_keys SET last_used_at = now(), use_count = 3`, []string{}},
				{`UPDATE canvasback_keys SET active = false WHERE id IN (2, 3)`, []string{"2", "3"}},
				{`UPDATE canvasback_keys SET active = false`, []string{"1", "4", "5"}},
				{`UPDATE canvasback_keys SET expires_at = now() WHERE id = 2`, []string{"2"}},
				{`UPDATE canvasback_keys SET expires_at = NULL`, []string{"2"}},
				{`UPDATE canvasback_keys SET digest = sha256('new') WHERE id = 2`, []string{"2", "new"}},
				{`UPDATE canvasback_keys SET digest = sha256('newer'), active = true WHERE id = 2`, []string{"new", "newer"}},
				{`UPDATE canvasback_keys SET owner = 'a' WHERE id = 2`, []string{"newer"}},
				{`UPDATE canvasback_keys SET scopes = '' WHERE id = 2`, []string{"newer"}},
				{`UPDATE canvasback_keys SET previous_digest = sha256('new'), previous_expires_at = now() WHERE id = 2`, []string{"newer", "new"}},
				{`UPDATE canvasback_keys SET previous_expires_at = previous_expires_at + interval '1 s', active = false WHERE id IN (1, 2)`, []string{"newer", "new"}},
				{`UPDATE canvasback_keys SET digest = sha256('x'), previous_digest = sha256('newer') WHERE id = 2`, []string{"newer", "x", "new"}},
				{`UPDATE canvasback_keys SET digest = sha256('newer'), previous_digest = NULL, previous_expires_at = NULL WHERE id = 2`, []string{"x", "newer"}},
				{`UPDATE canvasback_keys SET id = DEFAULT WHERE id = 5`, []string{"5", "5"}},
				{insertKeys(2, 1), []string{}},
				{`DELETE FROM canvasback_keys WHERE false`, []string{}},
				{`DELETE FROM canvasback_keys WHERE id IN (1, 2)`, []string{"1", "newer"}},
				{`
					INSERT INTO canvasback_keys (name, prefix, mask, digest, active, created_at, updated_at)
					SELECT name, prefix, mask, digest, active, created_at, updated_at FROM canvasback_keys WHERE id = 3
					ON CONFLICT (digest) DO UPDATE SET active = true`, []string{"3"}},
				{`BEGIN; DELETE FROM canvasback_keys; ROLLBACK`, []string{}},
				{`BEGIN; UPDATE canvasback_keys SET active = false WHERE id = 3;` + insertKeys(8, 9) + `COMMIT`, []string{"3", "8", "9"}},
				{`BEGIN; SAVEPOINT a; UPDATE canvasback_keys SET active = true WHERE id = 3; ROLLBACK TO a;` +
					`DELETE FROM canvasback_keys WHERE id = 3; COMMIT`, []string{"3"}},
				{insertKeys(1001, 2000), names(1001, 2000)}, // the most that is logged
				{insertKeys(2001, 3001), nil},
				{insertKeys(4001, 4001), []string{"4001"}},
				{`UPDATE canvasback_keys SET digest = sha256('x') WHERE digest = sha256('4001')`, []string{"4001", "x"}},
				{`UPDATE canvasback_keys SET digest = sha256(digest)`, nil},
				{`UPDATE canvasback_keys SET last_used_at = now()`, []string{}},
				{`DELETE FROM canvasback_keys`, nil},
				{insertKeys(1, 1), []string{"1"}},
				{`TRUNCATE canvasback_keys`, nil},
				{`TRUNCATE canvasback_keys`, nil},
				{insertKeys(2, 2), []string{"2"}},
			} {
				execute(t, pool, test.statement)
				if test.want == nil {
					log.wantIncomplete()
				} else {
					log.want(test.want...)
				}
				log.want() // nothing since
				if t.Failed() {
					t.Fatal(test.statement)
				}
			}
		})
	}
}

func migrate(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if err := must(postgres.New(pool, nil)).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The log retains its last entries and never grows beyond them.
func TestChanges_LogIsPruned(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	migrate(t, pool)
	log := newChangeLog(t, pool)
	rows := func() int { return count(t, pool, `SELECT count(*) FROM canvasback_key_changes`) }

	type known struct {
		epoch int64
		last  int // name of the last key
	}
	all := []known{{log.since, 0}}
	const step = 997
	for last := step; last < 3*maxRows; last += step {
		execute(t, pool, insertKeys(last-step+1, last))
		log.want(names(last-step+1, last)...)
		all = append(all, known{log.since, last})
		for _, k := range all {
			if age := last - k.last; age > 2*step && max(age-maxRows, maxRows-age) > 2*step {
				continue // neither new nor near the limit
			}
			changes := log.after(k.epoch)
			is.Equal(changes.Complete, last-k.last < maxRows)
			if changes.Complete {
				is.Equal(len(changes.Digests), last-k.last)
			}
		}
		is.True(rows() <= maxRows)
	}
	is.Equal(rows(), maxRows)
	execute(t, pool, `UPDATE canvasback_keys SET active = false WHERE name = '1'`)
	log.want("1")
	is.Equal(rows(), maxRows)
	execute(t, pool, `UPDATE canvasback_keys SET active = NOT active`)
	is.Equal(rows(), 1) // too many changes to log
	log.wantIncomplete()
}

// While a change is not committed, neither its epoch nor its digests are visible,
// and later changes wait.
func TestChanges_LogInOrderOfCommits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	migrate(t, pool)
	log := newChangeLog(t, pool)
	first, err := pool.Begin(t.Context())
	is.NoErr(err)
	defer first.Rollback(context.Background())
	_, err = first.Exec(t.Context(), insertKeys(1, 1))
	is.NoErr(err)
	log.want()
	second := make(chan error)
	go func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), insertKeys(2, 2))
		second <- err
	}()
	eventually(t, 1, waiting(t, pool))
	log.want()
	_, err = first.Exec(t.Context(), insertKeys(3, 3))
	is.NoErr(err)
	is.NoErr(first.Commit(t.Context()))
	is.NoErr(<-second)
	is.Equal(log.next().Digests, []keys.Digest{digestOf("1"), digestOf("3"), digestOf("2")})
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
		"raised":            {`UPDATE canvasback_key_epoch SET epoch = epoch + 1`, true},
		"unchanged":         {`UPDATE canvasback_key_epoch SET epoch = epoch`, true},
		"replaced":          {`DELETE FROM canvasback_key_epoch; INSERT INTO canvasback_key_epoch DEFAULT VALUES`, false},
		"truncated":         {`TRUNCATE canvasback_key_epoch; INSERT INTO canvasback_key_epoch DEFAULT VALUES`, false},
		"log deleted":       {`DELETE FROM canvasback_key_changes`, false},
		"end deleted":       {`DELETE FROM canvasback_key_changes WHERE digest = sha256('5')`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			pool := connect(t, pgtest.Database(t))
			migrate(t, pool)
			execute(t, pool, insertKeys(1, 3))
			log := newChangeLog(t, pool)
			lower := log.since
			execute(t, pool, insertKeys(4, 5))
			log.want("4", "5")
			higher := log.since

			execute(t, pool, test.statement)
			for range 3 { // higher may be in the log, but not after it is set back
				is.Equal(log.after(higher).Complete, test.complete)
				is.True(len(log.after(lower).Digests) == 2 || !log.after(lower).Complete)
			}
			known := log.next().Epoch
			for n := 6; n < 16; n++ {
				execute(t, pool, insertKeys(n, n))
				for _, since := range []int64{lower, higher, known} {
					changes := log.after(since)
					is.True(!changes.Complete || slices.Contains(changes.Digests, digestOf(fmt.Sprint(n))))
					is.True(!changes.Complete || since != lower || len(changes.Digests) >= n-3)
					is.True(changes.Epoch != since)
				}
				log.next()
				if n > 6 {
					is.True(log.after(log.since).Complete) // recovered
				}
			}
		})
	}
}

// A process may cache a key that was changed after the epoch that the process knows. If
// the database is then restored to that epoch, the cached key is outdated.
func TestChanges_RestoreInPlaceIsNoticed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	migrate(t, pool)
	execute(t, pool, insertKeys(1, 3))
	log := newChangeLog(t, pool)
	is.Equal(log.after(log.since), keys.Changes{Epoch: log.since, Complete: true})
	execute(t, pool, `
		CREATE TABLE copy (LIKE canvasback_key_epoch INCLUDING ALL);
		INSERT INTO copy SELECT * FROM canvasback_key_epoch;
		DROP TABLE canvasback_key_epoch;
		ALTER TABLE copy RENAME TO canvasback_key_epoch`)
	log.wantIncomplete()
	is.True(log.after(log.since).Complete)
}

// Without an epoch, changes of keys succeed, but the cache must not be used.
func TestChanges_FailWithoutEpoch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	migrate(t, pool)
	store := must(postgres.New(pool, nil)).Keys()
	log := newChangeLog(t, pool)
	before := log.since
	execute(t, pool, `CREATE TABLE epoch AS SELECT * FROM canvasback_key_epoch`)
	execute(t, pool, `DELETE FROM canvasback_key_epoch;`+insertKeys(1, 2))
	_, err := store.Changes(t.Context(), before)
	is.True(err != nil)
	execute(t, pool, `INSERT INTO canvasback_key_epoch (epoch) SELECT epoch FROM epoch`)
	for n := 3; n < 6; n++ {
		is.Equal(log.after(before).Complete, false) // keys 1 and 2 are not logged
		execute(t, pool, insertKeys(n, n))
	}
}

// A copy of the database has the epochs of the original, but none that either
// reaches later.
func TestChanges_CopyDivergesFromOriginal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn, operator := pgtest.Database(t), connect(t, pgtest.Database(t))
	pool := connect(t, dsn)
	migrate(t, pool)
	execute(t, pool, insertKeys(1, 3))
	log := newChangeLog(t, pool)
	before := log.since
	execute(t, pool, insertKeys(4, 5))
	copied := log.next().Epoch

	config := pool.Config().ConnConfig
	pool.Reset() // a database in use cannot be copied
	eventually(t, 0, func() int {
		return count(t, operator, `SELECT count(*) FROM pg_stat_activity WHERE datname = '`+config.Database+`'`)
	})
	name := config.Database + "_copy"
	execute(t, operator, `CREATE DATABASE `+name+` TEMPLATE `+config.Database)
	defer execute(t, operator, `DROP DATABASE `+name+` WITH (FORCE)`)
	execute(t, pool, `UPDATE canvasback_keys SET active = false WHERE id = 4`)
	later := log.next().Epoch

	restoredPool := connect(t, strings.ReplaceAll(dsn, config.Database, name))
	restored := newChangeLog(t, restoredPool)
	is.Equal(restored.after(before).Digests, []keys.Digest{digestOf("4"), digestOf("5")})
	is.Equal(restored.after(copied), keys.Changes{Epoch: copied, Complete: true})
	is.Equal(restored.after(later).Complete, false)

	execute(t, pool, `UPDATE canvasback_keys SET active = false WHERE id = 1`)
	execute(t, restoredPool, `UPDATE canvasback_keys SET active = false WHERE id = 2`)
	is.Equal(log.after(copied).Digests, []keys.Digest{digestOf("4"), digestOf("1")})
	is.Equal(restored.after(copied).Digests, []keys.Digest{digestOf("2")})
	is.Equal(log.after(restored.next().Epoch).Complete, false)
	is.Equal(restored.after(log.next().Epoch).Complete, false)
	is.Equal(restored.after(later).Complete, false)
}

// migrateToFirst applies only the first migration, and creates keys.
func migrateToFirst(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	first, err := fs.ReadFile(postgres.Migrations, "0001_initial.sql")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, pool, string(first)+`
		CREATE TABLE canvasback_migrations (version integer PRIMARY KEY, title text NOT NULL, applied_at timestamptz(3) DEFAULT now());
		INSERT INTO canvasback_migrations (version, title) VALUES (1, 'initial');`+insertKeys(1, 3))
}

// Processes of the first version continue to work on the new schema, with the
// rights that they had.
func TestMigrate_SupportsFirstVersionSideBySide(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	pool := connect(t, dsn)
	migrateToFirst(t, pool)
	roles := []string{pool.Config().ConnConfig.Database + "_old", pool.Config().ConnConfig.Database + "_few"}
	for _, role := range roles {
		if _, err := pool.Exec(t.Context(), `CREATE ROLE `+role); err != nil {
			t.Skip(err)
		}
		defer execute(t, pool, `DROP OWNED BY `+role+`; DROP ROLE `+role)
	}
	execute(t, pool, `
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO `+roles[0]+`;
		GRANT SELECT, INSERT, DELETE ON canvasback_keys TO `+roles[1]+`;
		GRANT SELECT, UPDATE ON canvasback_key_epoch TO `+roles[1])
	epoch := func() int { return count(t, pool, `SELECT epoch FROM canvasback_key_epoch`) }
	before := epoch()
	migrate(t, pool)
	is.Equal(epoch(), before) // the caches of running processes remain valid

	log := newChangeLog(t, pool)
	log.want()
	for n, role := range roles {
		execute(t, pool, `SET ROLE `+role+`; BEGIN;`+insertKeys(10+n, 10+n)+
			fmt.Sprintf(`DELETE FROM canvasback_keys WHERE id = %d; COMMIT; RESET ROLE`, n+1))
		is.True(epoch() > before)
		before = epoch()
		log.want(fmt.Sprint(10+n), fmt.Sprint(n+1))
	}
	execute(t, pool, `SET ROLE `+roles[0]+`; UPDATE canvasback_keys SET last_used_at = now(); RESET ROLE`)
	is.Equal(epoch(), before)
	log.want()
}
