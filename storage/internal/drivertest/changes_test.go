package drivertest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/testflag"
)

// maxRows is the length of the log that the schema retains.
const maxRows = 10_000

// changeLog reads the log as the store returns it.
type changeLog struct {
	t       *testing.T
	store   keys.Store
	repeats bool
	since   int64
}

func newChangeLog(t *testing.T, db *database) *changeLog {
	t.Helper()
	l := &changeLog{t: t, store: db.migrated().Keys(), repeats: db.repeatsDigests}
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
	return must(l.store.Changes(l.t.Context(), since))(l.t)
}

// none and incomplete are results instead of numbers.
var none, incomplete = []int{}, []int(nil)

// want checks that the log has the digests of the numbers, in any order.
func (l *changeLog) want(numbers ...int) {
	l.t.Helper()
	changes := l.next()
	got := slices.SortedFunc(slices.Values(changes.Digests), func(a, b keys.Digest) int { return slices.Compare(a[:], b[:]) })
	if l.repeats {
		got = slices.Compact(got)
	}
	var want []keys.Digest
	for _, n := range slices.Sorted(slices.Values(numbers)) {
		want = append(want, digestOf(n))
	}
	if changes.Complete != (numbers != nil) || !slices.Equal(got, want) {
		l.t.Errorf("the log has %d digests, complete: %v, want those of %.100v", len(got), changes.Complete, numbers)
	}
}

// digestOf returns the number in 32 digits.
func digestOf(n int) keys.Digest { return keys.Digest(fmt.Appendf(nil, "%032d", n)) }

// numbers returns the numbers "from" to "to".
func numbers(from, to int) (list []int) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

// manualChange is a statement run by hand, and the digests that it must log.
type manualChange struct {
	statement string
	want      []int
}

// Statements run by hand must be logged too, also those for which triggers do not fire
// by default.
func TestChanges_LogManualStatements(t *testing.T) {
	t.Parallel()
	for name, d := range drivers {
		for _, session := range d.sessions {
			t.Run(name+session, func(t *testing.T) {
				t.Parallel()
				db := d.newDatabase(t, session)
				log := newChangeLog(t, db)
				log.want(none...)
				for _, test := range append(manualChanges(d), d.manualChanges(d)...) {
					db.execute(test.statement)
					log.want(test.want...)
					log.want(none...) // nothing since
					if t.Failed() {
						t.Fatal(test.statement)
					}
				}
			})
		}
	}
}

// manualChanges are those that all drivers log alike. They end with keys 1 to 5.
func manualChanges(d *driver) []manualChange {
	return []manualChange{
		{d.insertKeys(1, 5), numbers(1, 5)},
		{`UPDATE canvasback_keys SET active = active, digest = digest, expires_at = expires_at`, none},
		{`UPDATE canvasback_keys SET name = 'x', prefix = 'x', mask = 'x', updated_at = ` + d.later, none},
		{`UPDATE canvasback_keys SET last_used_at = ` + d.now + `, use_count = 3`, none},
		{`UPDATE canvasback_keys SET active = false WHERE id IN (2, 3)`, []int{2, 3}},
		{`UPDATE canvasback_keys SET active = false`, []int{1, 4, 5}},
		{`UPDATE canvasback_keys SET expires_at = ` + d.now + ` WHERE id = 2`, []int{2}},
		{`UPDATE canvasback_keys SET expires_at = NULL`, []int{2}},
		{`UPDATE canvasback_keys SET digest = ` + d.digest(12) + ` WHERE id = 2`, []int{2, 12}},
		{`UPDATE canvasback_keys SET digest = ` + d.digest(13) + `, active = true WHERE id = 2`, []int{12, 13}},
		{`UPDATE canvasback_keys SET owner = 'a' WHERE id = 2`, []int{13}},
		{`UPDATE canvasback_keys SET scopes = '' WHERE id = 2`, []int{13}},
		{`UPDATE canvasback_keys SET previous_digest = ` + d.digest(22) + `, previous_expires_at = ` + d.now + ` WHERE id = 2`, []int{13, 22}},
		{`UPDATE canvasback_keys SET previous_expires_at = ` + d.later + ` WHERE id = 2`, []int{13, 22}},
		{`UPDATE canvasback_keys SET active = false WHERE id = 2`, []int{13, 22}},
		{`UPDATE canvasback_keys SET digest = previous_digest, previous_digest = digest WHERE id = 2`, []int{13, 22}},
		{`UPDATE canvasback_keys SET digest = ` + d.digest(23) + ` WHERE id = 2`, []int{13, 22, 23}},
		{`UPDATE canvasback_keys SET digest = previous_digest, previous_digest = NULL, previous_expires_at = NULL WHERE id = 2`, []int{13, 23}},
		{d.insertKeys(2, 1), none},
		{`DELETE FROM canvasback_keys WHERE false`, none},
		{`DELETE FROM canvasback_keys WHERE id IN (1, 2)`, []int{1, 13}},
		{`
			INSERT INTO canvasback_keys (name, prefix, mask, digest, active, created_at, updated_at)
			SELECT name, prefix, mask, digest, active, created_at, updated_at FROM canvasback_keys WHERE id = 3
			ON CONFLICT (digest) DO UPDATE SET active = true`, []int{3}},
		{`BEGIN; DELETE FROM canvasback_keys; ROLLBACK`, none},
		{`BEGIN; UPDATE canvasback_keys SET active = false WHERE id = 3;` + d.insertKeys(8, 9) + `COMMIT`, []int{3, 8, 9}},
		{`BEGIN; SAVEPOINT a; UPDATE canvasback_keys SET active = true WHERE id = 3; ROLLBACK TO a;` +
			`DELETE FROM canvasback_keys WHERE id = 3; COMMIT`, []int{3}},
		{`BEGIN; SAVEPOINT a; DELETE FROM canvasback_keys; ROLLBACK TO a;` + d.insertKeys(6, 7) + `COMMIT`, []int{6, 7}},
		{`DELETE FROM canvasback_keys`, numbers(4, 9)},
		{d.insertKeys(1, 5), numbers(1, 5)},
	}
}

// The log retains its last entries and never grows beyond them.
func TestChanges_LogIsPruned(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		log := newChangeLog(t, db)
		rows := func() int { return db.count(`SELECT count(*) FROM canvasback_key_changes`) }
		inserted := map[int64]int{log.since: 0} // the last key by epoch
		insert := func(from, to int) {
			t.Helper()
			db.execute(db.insertKeys(from, to))
			log.want(numbers(from, to)...)
			inserted[log.since] = to
			for epoch, last := range inserted {
				if age := to - last; age > 2000 && max(age-maxRows, maxRows-age) > 2000 {
					continue // neither new nor near the limit
				}
				changes := log.after(epoch)
				is.Equal(changes.Complete, to-last < maxRows)
				if changes.Complete {
					is.Equal(len(slices.Compact(changes.Digests)), to-last)
				}
			}
		}
		last := 0
		for ; last+1000 < maxRows; last += 1000 {
			insert(last+1, last+1000)
		}
		insert(last+1, maxRows-1)
		is.Equal(rows(), maxRows)
		insert(maxRows, maxRows) // the first epoch is gone
		is.Equal(rows(), maxRows)
		const step = 997
		for last = maxRows; last < db.loggedKeys; last += step {
			insert(last+1, last+step)
			is.Equal(rows(), maxRows)
		}
		db.execute(`UPDATE canvasback_keys SET active = false WHERE name = '1'`)
		log.want(1)
		is.Equal(rows(), maxRows)
		known := log.since
		db.execute(`UPDATE canvasback_keys SET active = NOT active`)
		is.Equal(rows(), db.rowsAfterMany)
		is.Equal(log.after(known).Complete, false)
		log.next()
		db.execute(`UPDATE canvasback_keys SET digest = ` + db.digest(0) + ` WHERE id = 7`)
		log.want(7, 0)
		is.True(rows() <= maxRows)
	})
}

// epochChange is a statement that changes the epoch by hand.
type epochChange struct {
	statement string
	complete  bool // for a process that knows only the epoch before
}

// An epoch that was changed by hand makes results incomplete until keys change.
func TestChanges_FollowEpochChangedByHand(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	for name, d := range drivers {
		changes := map[string]epochChange{
			"set back":          {`UPDATE canvasback_key_epoch SET epoch = epoch - 1000`, false},
			"set back far":      {`UPDATE canvasback_key_epoch SET epoch = 1`, false},
			"set back to known": {`UPDATE canvasback_key_epoch SET epoch = (SELECT min(epoch) FROM canvasback_key_changes)`, false},
			"unchanged":         {`UPDATE canvasback_key_epoch SET epoch = epoch`, true},
			"replaced":          {`DELETE FROM canvasback_key_epoch; INSERT INTO canvasback_key_epoch DEFAULT VALUES`, false},
			"log deleted":       {`DELETE FROM canvasback_key_changes`, false},
			"end deleted":       {`DELETE FROM canvasback_key_changes WHERE digest = ` + d.digest(5), false},
		}
		maps.Copy(changes, d.epochChanges)
		for change, test := range changes {
			t.Run(name+"/"+change, func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				db := d.newDatabase(t, "")
				log := newChangeLog(t, db)
				db.execute(db.insertKeys(1, 3))
				lower := log.next().Epoch
				db.execute(db.insertKeys(4, 5))
				log.want(4, 5)
				higher := log.since

				db.execute(test.statement)
				for range 3 { // higher may be in the log, but not after it is set back
					is.Equal(log.after(higher).Complete, test.complete)
					is.True(len(log.after(lower).Digests) == 2 || !log.after(lower).Complete)
				}
				known := log.next().Epoch
				for n := 6; n < 16; n++ {
					db.execute(db.insertKeys(n, n))
					for _, since := range []int64{lower, higher, known} {
						changes := log.after(since)
						is.True(!changes.Complete || slices.Contains(changes.Digests, digestOf(n)))
						is.True(!changes.Complete || since != lower || len(changes.Digests) >= n-3)
						is.True(changes.Epoch != since)
					}
					log.next()
					if n > 6 || name == "sqlite" { // PostgreSQL needs two changes
						is.True(log.after(log.since).Complete) // recovered
					}
				}
			})
		}
	}
}

// Without an epoch, changes of keys succeed, but the cache must not be used.
func TestChanges_FailWithoutEpoch(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		log := newChangeLog(t, db)
		before := log.since
		db.execute(`CREATE TABLE epoch AS SELECT epoch FROM canvasback_key_epoch`)
		db.execute(`DELETE FROM canvasback_key_epoch;` + db.insertKeys(1, 2))
		is.True(errorOf(log.store.Changes(t.Context(), before)) != nil)
		db.execute(`INSERT INTO canvasback_key_epoch (epoch) SELECT epoch FROM epoch`)
		for n := 3; n < 6; n++ {
			is.Equal(log.after(before).Complete, false) // keys 1 and 2 are not logged
			db.execute(db.insertKeys(n, n))
		}
	})
}

// A copy of the database has the epochs of the original, but none that either
// reaches later.
func TestChanges_CopyDivergesFromOriginal(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		log := newChangeLog(t, db)
		db.execute(db.insertKeys(1, 3))
		before := log.next().Epoch
		db.execute(db.insertKeys(4, 5))
		copied := log.next().Epoch
		restoredDB := db.copy()
		restoredDB.driver, restoredDB.t = db.driver, t
		db.execute(`UPDATE canvasback_keys SET active = false WHERE id = 4`)
		later := log.next().Epoch

		restored := newChangeLog(t, restoredDB)
		is.Equal(restored.after(before).Digests, []keys.Digest{digestOf(4), digestOf(5)})
		is.Equal(restored.after(copied), keys.Changes{Epoch: copied, Complete: true})
		is.Equal(restored.after(later).Complete, false)

		db.execute(`UPDATE canvasback_keys SET active = false WHERE id = 1`)
		restoredDB.execute(`UPDATE canvasback_keys SET active = false WHERE id = 2`)
		is.Equal(log.after(copied).Digests, []keys.Digest{digestOf(4), digestOf(1)})
		is.Equal(restored.after(copied).Digests, []keys.Digest{digestOf(2)})
		is.Equal(log.after(restored.next().Epoch).Complete, false)
		is.Equal(restored.after(log.next().Epoch).Complete, false)
		is.Equal(restored.after(later).Complete, false)
	})
}

// Processes of the first version continue to work on the new schema.
func TestMigrate_SupportsFirstVersionSideBySide(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		db.migrateTo("0001_initial")
		db.execute(db.insertKeys(1, 3))
		epoch := func() (n int64) {
			is.NoErr(db.scan(`SELECT epoch FROM canvasback_key_epoch`, &n))
			return n
		}
		deactivate := db.prepare(`UPDATE canvasback_keys SET active = false WHERE id = 2`)
		before := epoch()
		log := newChangeLog(t, db)
		is.Equal(epoch(), before) // the caches of running processes remain valid
		log.want(none...)

		is.NoErr(deactivate())
		log.want(2)
		is.True(epoch() > before)
		before = epoch()
		db.execute(`UPDATE canvasback_keys SET last_used_at = ` + db.now)
		is.Equal(epoch(), before)
		log.want(none...)
		db.execute(db.insertKeys(4, 4) + `DELETE FROM canvasback_keys WHERE id = 1`)
		log.want(1, 4)
		is.True(epoch() > before)
	})
}

// A process may cache a key that was changed after the epoch that the process knows. If
// the database is then restored to that epoch, the cached key is outdated.
func TestChanges_RestoreInPlaceIsNoticed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := postgresDriver.newDatabase(t, "")
	log := newChangeLog(t, db)
	db.execute(db.insertKeys(1, 3))
	log.next()
	is.Equal(log.after(log.since), keys.Changes{Epoch: log.since, Complete: true})
	db.execute(`
		CREATE TABLE copy (LIKE canvasback_key_epoch INCLUDING ALL);
		INSERT INTO copy SELECT * FROM canvasback_key_epoch;
		DROP TABLE canvasback_key_epoch;
		ALTER TABLE copy RENAME TO canvasback_key_epoch`)
	log.want(incomplete...)
	is.True(log.after(log.since).Complete)
}

// Roles of the first version continue to work on the new schema, with the rights that
// they had.
func TestMigrate_SupportsRolesOfFirstVersion(t *testing.T) {
	t.Parallel()
	db := postgresDriver.newDatabase(t, "")
	db.migrateTo("0001_initial")
	db.execute(db.insertKeys(1, 3))
	var name string // roles belong to the server, not to the database
	is.New(t).NoErr(db.scan(`SELECT current_database()`, &name))
	roles := []string{name + "_old", name + "_few"}
	for _, role := range roles {
		if err := db.exec(`CREATE ROLE ` + role); err != nil {
			t.Skip(err)
		}
		defer db.execute(`DROP OWNED BY ` + role + `; DROP ROLE ` + role)
	}
	db.execute(`
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ` + roles[0] + `;
		GRANT SELECT, INSERT, DELETE ON canvasback_keys TO ` + roles[1] + `;
		GRANT SELECT, UPDATE ON canvasback_key_epoch TO ` + roles[1])
	log := newChangeLog(t, db)
	for n, role := range roles {
		db.execute(`SET ROLE ` + role + `; BEGIN;` + db.insertKeys(10+n, 10+n) +
			fmt.Sprintf(`DELETE FROM canvasback_keys WHERE id = %d; COMMIT; RESET ROLE`, n+1))
		log.want(10+n, n+1)
	}
	db.execute(`SET ROLE ` + roles[0] + `; UPDATE canvasback_keys SET last_used_at = now(); RESET ROLE`)
	log.want(none...)
}
