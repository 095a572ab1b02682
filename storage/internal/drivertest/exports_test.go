package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/testflag"
)

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
