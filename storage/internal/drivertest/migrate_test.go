package drivertest

import (
	"context"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/testflag"
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

// The version with an index of chunks continues to work. Its searches find what was
// registered before the migration that stops maintaining the index.
func TestMigrate_SupportsExportIndexSideBySide(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		db.migrateTo("0008_symbol_segments")
		db.execute(db.insertExports(1, 2))
		chunks := func() int { return db.count(`SELECT count(*) FROM canvasback_export_chunks`) }
		is.Equal(chunks(), 2*6) // of 21 bytes
		previousSearch := func() int {
			return db.count(`
				SELECT count(*)
				FROM canvasback_export_chunks
				JOIN canvasback_exports ON id = export_id
				WHERE chunk = ` + db.blob("https://"))
		}
		is.Equal(previousSearch(), 2)

		store := db.migrated().Exports()
		search := func(text string) (ids []int64) {
			is.Helper()
			list := must(store.List(t.Context(), exports.Filter{Contains: text}, exports.Range{Limit: 10}))(t)
			for _, export := range list.Exports {
				ids = append(ids, export.ID)
			}
			return ids
		}
		is.Equal(search("s://cad.example/"), []int64{1, 2})
		_, created, err := store.Put(t.Context(), exports.Export{SourceURL: "https://cad.example/3", CreatedAt: time.Now(), UpdatedAt: time.Now()}, exports.PutRule{})
		is.NoErr(err)
		is.True(created)
		db.execute(db.insertExports(4, 4)) // by the previous version
		is.Equal(search("s://cad.example/"), []int64{1, 2, 3, 4})
		is.Equal(previousSearch(), 2)

		is.NoErr(store.Delete(t.Context(), 1))
		db.execute(`DELETE FROM canvasback_exports WHERE id = 4`)
		is.Equal(search("s://cad.example/"), []int64{2, 3})
		is.Equal(previousSearch(), 1)
		is.Equal(chunks(), 2*6) // registrations and deletions change no other row
	})
}

// A search reads all registered exports, and ends with its context.
func TestList_SearchEndsWithContext(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		store := db.migrated().Exports()
		db.execute(db.insertExports(1, 100_000)) // takes longer than the context lasts
		list, err := store.List(t.Context(), exports.Filter{Contains: "example/100000"}, exports.Range{Limit: 10})
		is.NoErr(err)
		is.Equal(len(list.Exports), 1)
		for attempt := 0; err == nil && attempt < 20; attempt++ { // on a busy machine, the timer may be late
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			list, err = store.List(ctx, exports.Filter{Contains: "missing"}, exports.Range{Limit: 10})
			cancel()
		}
		is.True(err != nil) // of the context, or of the driver that it interrupts
		is.Equal(len(list.Exports), 0)
	})
}

// A process of an earlier version rotates a key without its public keys.
func TestFind_IgnoresPublicKeyOfEarlierRawKey(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is := is.New(t)
		store := db.migrated().Keys()
		now := time.Now().UTC().Truncate(time.Millisecond)
		must(store.Insert(t.Context(), keys.Key{
			Digest: digestOf(1), PublicKey: keys.PublicKey{1}, CreatedAt: now, UpdatedAt: now,
			PreviousDigest: digestOf(2), PreviousPublicKey: keys.PublicKey{2}, PreviousExpiresAt: now,
		}))(t)
		for _, rotation := range []struct {
			statement        string
			find             int
			public, previous keys.PublicKey
		}{
			{`SELECT 1`, 1, keys.PublicKey{1}, keys.PublicKey{2}},
			{`UPDATE canvasback_keys SET digest = ` + db.digest(3), 3, keys.PublicKey{}, keys.PublicKey{2}},
			{`UPDATE canvasback_keys SET previous_digest = ` + db.digest(4), 4, keys.PublicKey{}, keys.PublicKey{}},
		} {
			db.execute(rotation.statement)
			key := must(store.Find(t.Context(), digestOf(rotation.find)))(t)
			is.Equal([]keys.PublicKey{key.PublicKey, key.PreviousPublicKey}, []keys.PublicKey{rotation.public, rotation.previous})
		}
	})
}
