package drivertest

import (
	"fmt"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
)

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
