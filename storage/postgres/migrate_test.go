package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/migration"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// oddSchema must be quoted and contains the prefix of the tables.
const oddSchema = `Odd "canvasback_" schema; näme.`

// execute runs statements, as an operator would by hand.
func execute(t testing.TB, pool *pgxpool.Pool, statements string) {
	t.Helper()
	must(pool.Exec(t.Context(), statements))(t)
}

// checkWorks writes to the database and reads from it.
func checkWorks(t testing.TB, db *postgres.DB) {
	t.Helper()
	is := is.NewRelaxed(t)
	ctx := context.WithoutCancel(t.Context())
	folder := must(db.Symbols().InsertFolder(ctx, symbols.Folder{Name: "folder"}))(t)
	must(db.Symbols().InsertSymbols(ctx, folder.ID, make([]symbols.Symbol, 1)))(t)
	is.Equal(len(must(db.Symbols().ListFolders(ctx, symbols.Range{}))(t).Folders), 1) // no folder but this one
	is.NoErr(db.Symbols().DeleteFolder(ctx, folder.ID, symbols.Deletion{Match: symbols.Any}))
}

func TestMigrate_RunsConcurrentlyInNewSchema(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	dsn, options := pgtest.Database(t), &postgres.Options{Schema: oddSchema}
	migrateAtOnce(t, dsn, slices.Repeat([]*postgres.Options{options}, 8)...)
	checkWorks(t, must(postgres.New(connect(t, dsn), options))(t))
}

// migrateAtOnce migrates a database in several processes.
func migrateAtOnce(t *testing.T, dsn string, processes ...*postgres.Options) {
	var group sync.WaitGroup
	for _, options := range processes {
		db := must(postgres.New(connect(t, dsn), options))(t)
		group.Go(func() {
			if err := db.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// TestMigrate_RunsConcurrentlyBySchemaAndSearchPath names one schema in two ways.
func TestMigrate_RunsConcurrentlyBySchemaAndSearchPath(t *testing.T) {
	t.Parallel()
	for range 5 {
		migrateAtOnce(t, pgtest.Database(t), &postgres.Options{Schema: "public"}, nil)
	}
}

func TestMigrate_RejectsOtherEncoding(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	name := strings.TrimPrefix(must(url.Parse(dsn))(t).Path, "/")
	operator := connect(t, dsn)
	execute(t, operator, `CREATE DATABASE `+name+`_latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'`)
	t.Cleanup(func() { must(operator.Exec(context.Background(), `DROP DATABASE `+name+`_latin1 WITH (FORCE)`))(t) })
	db := must(postgres.New(connect(t, strings.Replace(dsn, name, name+"_latin1", 1)), nil))(t)
	err := db.Migrate(t.Context())
	is.New(t).True(err != nil && strings.Contains(err.Error(), `the encoding of the database is "LATIN1", not UTF8`))
}

func TestMigrate_LeavesNothingAfterFailure(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	db := must(postgres.New(pool, nil))(t)
	execute(t, pool, `CREATE TABLE canvasback_exports (id bigint)`) // conflicts with the last table of the migration
	is.True(db.Migrate(t.Context()) != nil)
	execute(t, pool, `DROP TABLE canvasback_exports`)
	is.NoErr(db.Migrate(t.Context())) // the first attempt left nothing
	checkWorks(t, db)
}

func TestOptions_SchemasAreSeparate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	files := must(fs.ReadDir(postgres.Migrations, "."))(t)
	var all []*postgres.DB
	for _, options := range []*postgres.Options{nil, {Schema: "one"}, {Schema: oddSchema}} {
		db := must(postgres.New(pool, options))(t)
		is.Equal(len(must(db.Pending(t.Context()))(t)), len(files)) // regardless of other schemas
		is.NoErr(db.Migrate(t.Context()))
		all = append(all, db)
	}
	for _, db := range all {
		is.NoErr(db.Migrate(t.Context()))
		must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder of each"}))(t)
	}
	is.NoErr(all[1].Symbols().DeleteFolder(t.Context(), 1, symbols.Deletion{Match: symbols.Any}))
	checkWorks(t, all[1])
	for _, db := range []*postgres.DB{all[0], all[2]} {
		is.Equal(must(db.Symbols().GetFolder(t.Context(), 1))(t).Name, "folder of each") // unchanged
	}
}

// The search_path may find existing tables in another schema than the one where
// it would create them.
func TestMigrate_FollowsSearchPath(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	migrate(t, connect(t, dsn))
	execute(t, connect(t, dsn), `CREATE SCHEMA mine`)

	second := must(postgres.New(connect(t, dsn+"&search_path=mine,public"), nil))(t)
	is.Equal(len(must(second.Pending(t.Context()))(t)), 0) // found in the second schema of the search_path
	is.NoErr(second.Migrate(t.Context()))
	checkWorks(t, second)

	noSchema := must(postgres.New(connect(t, dsn+"&search_path=missing"), nil))(t)
	err := noSchema.Migrate(t.Context())
	is.True(err != nil && strings.Contains(err.Error(), "search_path")) // names the cause
}

// migrateTo applies the first n migrations, as an earlier version did.
func migrateTo(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	execute(t, pool, `
		CREATE TABLE canvasback_migrations (
			version    integer        NOT NULL PRIMARY KEY,
			title      text           NOT NULL,
			applied_at timestamptz(3) NOT NULL DEFAULT now()
		)`)
	for _, m := range must(migration.Read(postgres.Migrations))(t)[:n] {
		execute(t, pool, m.SQL)
		must(pool.Exec(t.Context(), `INSERT INTO canvasback_migrations (version, title) VALUES ($1, $2)`, m.Version, m.Title))(t)
	}
}

// TestMigrate_WaitsWithoutBlocking migrates during a backup: reads of other processes must
// not wait behind a migration that waits. The timeouts of the role do not matter.
func TestMigrate_WaitsWithoutBlocking(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	pool := connect(t, dsn)
	migrateTo(t, pool, 16)
	dump := begin(t, pool, `LOCK TABLE canvasback_symbols, canvasback_folders IN ACCESS SHARE MODE`)
	short, cancelShort := context.WithTimeout(t.Context(), 2500*time.Millisecond) // ends between two tries
	defer cancelShort()
	is.True(errors.Is(must(postgres.New(pool, nil))(t).Migrate(short), context.DeadlineExceeded))
	var log bytes.Buffer
	timeouts := "&statement_timeout=1000"
	if count(t, pool, `SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'`) > 0 {
		timeouts += "&transaction_timeout=1000"
	}
	db := must(postgres.New(connect(t, dsn+timeouts), &postgres.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	done := make(chan error, 1)
	go func() { done <- db.Migrate(t.Context()) }()
	for waiting(t, pool)() == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(1200 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	must(pool.Exec(ctx, `SELECT count(*) FROM canvasback_folders, canvasback_symbols`))(t)
	is.NoErr(dump.Commit(t.Context()))
	is.NoErr(<-done)
	is.Equal(strings.Count(log.String(), "migration waits for a lock"), 1)
	checkWorks(t, db)
}

// TestMigrate_DuringAutovacuum migrates while autovacuum works on a table. PostgreSQL
// cancels that for a statement that has waited for deadlock_timeout, a second.
func TestMigrate_DuringAutovacuum(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	server := pgtest.Start(t) // its settings change
	dsn := server.DSN()
	pool := connect(t, dsn)
	migrateTo(t, pool, 16)
	alterSystem(t, pool, `SET autovacuum_naptime = '1s'`)
	execute(t, pool, `INSERT INTO canvasback_folders (name) SELECT 'f' || n FROM generate_series(1, 20000) AS n`)
	execute(t, pool, `ALTER TABLE canvasback_folders SET (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0,
		autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)`)
	execute(t, pool, `DELETE FROM canvasback_folders WHERE id % 2 = 0`)
	const vacuums = `SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'canvasback_folders'::regclass`
	eventually(t, 1, func() int { return count(t, pool, vacuums) })
	db := must(postgres.New(connect(t, dsn), nil))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	is.NoErr(db.Migrate(ctx))
}

// TestMigrate_AfterRestoreOfOlderBackup follows DEPLOY.md.
func TestMigrate_AfterRestoreOfOlderBackup(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"pg_dump", "pg_restore"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
	}
	is := is.New(t)
	dsn := pgtest.Database(t)
	execute(t, connect(t, dsn), `CREATE SCHEMA viewer`)
	pool := connect(t, dsn+"&search_path=viewer")
	migrateTo(t, pool, 16)
	dump := filepath.Join(t.TempDir(), "canvasback.dump")
	command := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	command("pg_dump", "--format=custom", "--no-owner", "--schema=viewer", "--file="+dump, dsn)
	migrate(t, pool)
	execute(t, pool, `DROP SCHEMA viewer CASCADE`)
	command("pg_restore", "--clean", "--if-exists", "--single-transaction", "--no-owner", "--dbname="+dsn, dump)
	db := must(postgres.New(connect(t, dsn), &postgres.Options{Schema: "viewer"}))(t)
	is.NoErr(db.Migrate(t.Context()))
	checkWorks(t, db)
}

// Triggers work in sessions with another search_path, and for roles with only
// the rights that the package comment lists.
func TestMigrate_TriggersWorkForOtherRole(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	pool := connect(t, dsn)
	execute(t, pool, `ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`)
	owner := must(postgres.New(pool, &postgres.Options{Schema: "viewer"}))(t)
	is.NoErr(owner.Migrate(t.Context()))
	before := must(owner.Keys().Changes(t.Context(), 0))(t)

	role := pool.Config().ConnConfig.Database + "_role" // roles belong to the server, not to the database
	if _, err := pool.Exec(t.Context(), `CREATE ROLE `+role); err != nil {
		t.Skip(err)
	}
	defer execute(t, pool, `DROP OWNED BY `+role+`; DROP ROLE `+role)
	execute(t, pool, `
		GRANT USAGE ON SCHEMA viewer TO `+role+`;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA viewer TO `+role+`;
		BEGIN;
		SET LOCAL ROLE `+role+`;
		SET LOCAL search_path = '';
		INSERT INTO viewer.canvasback_keys (name, prefix, mask, digest, active, created_at, updated_at)
			VALUES ('key', '', '', sha256('key'), true, now(), now());
		INSERT INTO viewer.canvasback_folders (name)
			VALUES ('folder');
		INSERT INTO viewer.canvasback_symbols (folder_id, name, type, data)
			VALUES (1, 'symbol', '', '');
		UPDATE viewer.canvasback_symbols SET name = 'renamed';
		INSERT INTO viewer.canvasback_exports (source_digest, source_url, exported_url, file_name, created_at, updated_at)
			VALUES (sha256('source'), 'source', '', '', now(), now());
		COMMIT`)
	after := must(owner.Keys().Changes(t.Context(), before.Epoch))(t)
	is.Equal(after.Digests, []keys.Digest{sha256.Sum256([]byte("key"))})
	execute(t, pool, `REVOKE SELECT ON pg_database FROM PUBLIC`)
	limited := must(postgres.New(connect(t, dsn+"&role="+role), &postgres.Options{Schema: "viewer"}))(t)
	must(limited.Symbols().Changes(t.Context(), symbols.Position{}))(t)
}

// TestMigrate_RejectsObjectsOfOtherOwner runs Migrate after a role with CREATE in the
// schema, whose triggers and policies would run with the rights of the caller.
func TestMigrate_RejectsObjectsOfOtherOwner(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	super := connect(t, dsn)
	name := super.Config().ConnConfig.Database // roles belong to the server, not to the database
	newRole := func(role string) *pgxpool.Pool {
		if _, err := super.Exec(t.Context(), `CREATE ROLE `+role+` LOGIN PASSWORD 'password'`); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { must(super.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role))(t) })
		execute(t, super, `GRANT CREATE, USAGE ON SCHEMA public TO `+role)
		u := must(url.Parse(dsn))(t)
		u.User = url.UserPassword(role, "password")
		return connect(t, u.String())
	}
	evil, app := newRole(name+"_evil"), newRole(name+"_app")
	check := func(object string) {
		t.Helper()
		for _, pool := range []*pgxpool.Pool{app, super} {
			db := must(postgres.New(pool, nil))(t)
			_, pendingErr := db.Pending(t.Context())
			for _, err := range []error{db.Migrate(t.Context()), pendingErr} {
				if err == nil || !strings.Contains(err.Error(), name+"_evil") || !strings.Contains(err.Error(), object) {
					t.Errorf("%s of another owner: error %v", object, err)
				}
			}
		}
	}

	execute(t, evil, `
		CREATE TABLE seen (role text);
		GRANT ALL ON seen TO PUBLIC;
		CREATE FUNCTION record() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (current_user); RETURN NEW; END $$;
		CREATE FUNCTION policy() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'policy runs as %', current_user; END $$;
		CREATE TABLE canvasback_migrations (
			version    integer        NOT NULL PRIMARY KEY,
			title      text           NOT NULL,
			applied_at timestamptz(3) NOT NULL DEFAULT now()
		);
		GRANT ALL ON canvasback_migrations TO PUBLIC;
		CREATE TRIGGER run BEFORE INSERT ON canvasback_migrations FOR EACH ROW EXECUTE FUNCTION record()`)
	check("canvasback_migrations")
	execute(t, evil, `
		ALTER TABLE canvasback_migrations ENABLE ROW LEVEL SECURITY;
		CREATE POLICY run ON canvasback_migrations USING (policy())`)
	check("canvasback_migrations")
	is.Equal(count(t, super, `SELECT count(*) FROM seen`), 0)
	execute(t, evil, `DROP TABLE canvasback_migrations; CREATE TABLE canvasback_exports (id bigint)`)

	db := must(postgres.New(app, nil))(t)
	err := db.Migrate(t.Context())
	is.True(err != nil && strings.Contains(err.Error(), `canvasback_exports in schema public belongs to role "`+name+`_evil"`))
	execute(t, evil, `DROP TABLE canvasback_exports`)
	is.NoErr(db.Migrate(t.Context()))
	is.NoErr(db.Migrate(t.Context()))
	checkWorks(t, db)
	execute(t, evil, `CREATE FUNCTION canvasback_raise_epoch(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'`)
	is.True(db.Migrate(t.Context()) != nil)
	execute(t, evil, `DROP FUNCTION canvasback_raise_epoch(integer)`)

	group := newRole(name + "_group")
	execute(t, super, `REASSIGN OWNED BY `+name+`_app TO `+name+`_group; GRANT `+name+`_group TO `+name+`_app`)
	is.NoErr(db.Migrate(t.Context())) // by a member of the owner
	migrate(t, group)
}

// The functions of a renamed schema would change the versions, and log the revocations, of
// another one.
func TestMigrate_RejectsRenamedSchema(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	for _, name := range []string{"tenant_1", oddSchema} {
		quoted := pgx.Identifier{name}.Sanitize()
		db := must(postgres.New(pool, &postgres.Options{Schema: name}))(t)
		is.NoErr(db.Migrate(t.Context()))
		is.NoErr(db.Migrate(t.Context()))
		execute(t, pool, `ALTER SCHEMA `+quoted+` RENAME TO tenant`)
		renamed := must(postgres.New(pool, &postgres.Options{Schema: "tenant"}))(t)
		err := renamed.Migrate(t.Context())
		is.True(err != nil && strings.Contains(err.Error(), "renamed"))
		execute(t, pool, `ALTER SCHEMA tenant RENAME TO `+quoted)
		is.NoErr(db.Migrate(t.Context()))
	}

	// An application's own tool may use a longer search_path.
	for _, path := range []string{`tenant_1, public`, `"$user", tenant_1`, `tenant_1`, ` Tenant_1 , public`} {
		execute(t, pool, `SELECT set_config('search_path', '`+path+`', true);
			ALTER FUNCTION tenant_1.canvasback_raise_epoch() SET search_path FROM CURRENT`)
		is.NoErr(must(postgres.New(pool, &postgres.Options{Schema: "tenant_1"}))(t).Migrate(t.Context()))
	}
}
