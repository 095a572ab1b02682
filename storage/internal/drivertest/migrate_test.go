package drivertest

import (
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

func TestMigrate_IsIdempotent(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		h := db.connect()
		schema := func() (definitions string) {
			is.Helper()
			is.NoErr(db.scan(db.schema, &definitions))
			return definitions
		}
		empty := schema()
		is.Equal(must(h.Pending(t.Context()))(t), db.names)
		is.Equal(schema(), empty) // Pending has changed nothing

		is.NoErr(h.Migrate(t.Context()))
		migrated := schema()
		is.True(migrated != empty)
		for line := range strings.Lines(migrated) {
			is.True(strings.HasPrefix(line, "canvasback_"))
		}
		folder := must(h.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
		before := must(h.Symbols().ListFolders(t.Context(), symbols.Range{}))(t)
		is.Equal(before.Folders, []symbols.Folder{folder})
		for range 2 {
			is.Equal(len(must(h.Pending(t.Context()))(t)), 0)
			is.NoErr(h.Migrate(t.Context()))
			is.Equal(schema(), migrated) // unchanged
			is.Equal(must(h.Symbols().ListFolders(t.Context(), symbols.Range{}))(t), before)
		}
	})
}

// During an upgrade, processes of the release before may start beside new ones, until a
// release removes what they need.
func TestMigrate_RejectsNewerSchemaThatContracts(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		h := db.migrated()
		db.execute(`INSERT INTO canvasback_migrations (version, title, applied_at) VALUES (9998, 'of_a_later_release', ` + db.now + `)`)
		is.NoErr(h.Migrate(t.Context()))
		is.Equal(len(must(h.Pending(t.Context()))(t)), 0)
		db.execute(`INSERT INTO canvasback_migrations (version, title, applied_at) VALUES (9999, 'contract_keys', ` + db.now + `)`)
		is.True(h.Migrate(t.Context()) != nil)
		is.True(errorOf(h.Pending(t.Context())) != nil)
	})
}

func TestMigrate_RunsConcurrently(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		errs := make([]error, 8)
		var group sync.WaitGroup
		for i := range errs {
			h := db.connect() // as if in several processes
			group.Go(func() { errs[i] = h.Migrate(t.Context()) })
		}
		group.Wait()
		for _, err := range errs {
			is.NoErr(err)
		}
		is.Equal(db.count(`SELECT count(*) FROM canvasback_migrations`), len(db.names)) // each once
		must(db.connect().Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	})
}

// TestMigrations_RunAsScripts applies each file as one script, as other tools do.
func TestMigrations_RunAsScripts(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		for _, name := range db.names {
			text := must(fs.ReadFile(db.migrations, name+".sql"))(t)
			db.execute("-- +goose Up\n-- +goose StatementBegin\n" + string(text) + "-- +goose StatementEnd\n")
		}
		must(db.connect().Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	})
}
