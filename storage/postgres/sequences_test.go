package postgres_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/symbols"
)

// Logical replication copies no sequences.
func TestStorage_ExplainsSequenceBehindIDs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool := connect(t, pgtest.Database(t))
	migrate(t, pool)
	store := must(postgres.New(pool, nil))(t).Symbols()
	must(store.InsertFolder(t.Context(), symbols.Folder{Name: "first"}))(t)
	execute(t, pool, `SELECT setval(pg_get_serial_sequence('canvasback_folders', 'id'), 1, false)`)
	_, err := store.InsertFolder(t.Context(), symbols.Folder{Name: "second"})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "setval"))

	page := must(os.ReadFile("../../.github/PROCESSES.md"))(t)
	documented := regexp.MustCompile("(?s)```sql\n(DO .*?)```").FindSubmatch(page)
	is.True(documented != nil)
	execute(t, pool, string(documented[1]))
	folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "second"}))(t)
	is.True(folder.ID > 1)

	// Usage and exports of a key outlive it: they do not become those of a new key.
	db, at := must(postgres.New(pool, nil))(t), time.UnixMilli(1000)
	execute(t, pool, `SELECT setval(pg_get_serial_sequence('canvasback_keys', 'id'), 5)`)
	key := must(db.Keys().Insert(t.Context(), keys.Key{Digest: keys.Digest{1}, CreatedAt: at, UpdatedAt: at}))(t)
	is.NoErr(db.Keys().Touch(t.Context(), []keys.Use{{ID: key.ID, CreatedAt: at, At: at, Count: 1, Today: 1}}, at))
	must(db.Keys().Delete(t.Context(), []int64{key.ID}, func([]keys.Key) error { return nil }))(t)
	for i, registeredBy := range []string{"an administrator", fmt.Sprint("key ", key.ID+1)} {
		export := exports.Export{SourceURL: fmt.Sprint(i), RegisteredBy: registeredBy, CreatedAt: at, UpdatedAt: at}
		_, _, err := db.Exports().Put(t.Context(), export, exports.PutRule{})
		is.NoErr(err)
		execute(t, pool, `SELECT setval(pg_get_serial_sequence('canvasback_keys', 'id'), 1, false)`)
		execute(t, pool, string(documented[1]))
		next := must(db.Keys().Insert(t.Context(), keys.Key{Digest: keys.Digest{2}, CreatedAt: at, UpdatedAt: at}))(t)
		is.Equal(next.ID, key.ID+1+int64(i))
		must(db.Keys().Delete(t.Context(), []int64{next.ID}, func([]keys.Key) error { return nil }))(t)
	}

	// So do its name at a symbol, and at an entry of the trash, even if its usage was never stored.
	for _, by := range []int64{key.ID + 10, key.ID + 20} {
		list := must(store.InsertSymbols(t.Context(), folder.ID, []symbols.Symbol{{UpdatedBy: by}}))(t)
		if by > key.ID+10 {
			is.NoErr(store.DeleteSymbols(t.Context(), []int64{list[0].ID}, symbols.Deletion{Match: symbols.Any, Stamp: symbols.Stamp{At: at, By: by}}))
		}
		execute(t, pool, string(documented[1]))
		next := must(db.Keys().Insert(t.Context(), keys.Key{Digest: keys.Digest{2}, CreatedAt: at, UpdatedAt: at}))(t)
		is.Equal(next.ID, by+1)
		must(db.Keys().Delete(t.Context(), []int64{next.ID}, func([]keys.Key) error { return nil }))(t)
	}

	// What is in the trash can be restored: new records do not get its ids.
	symbol := func() int64 {
		return must(store.InsertSymbols(t.Context(), folder.ID, make([]symbols.Symbol, 1)))(t)[0].ID
	}
	deletion := symbols.Deletion{Match: symbols.Any, Stamp: symbols.Stamp{At: time.Now()}}
	is.NoErr(store.DeleteSymbols(t.Context(), []int64{symbol()}, deletion))
	is.NoErr(store.DeleteFolder(t.Context(), must(store.InsertFolder(t.Context(), symbols.Folder{Name: "third"}))(t).ID, deletion))
	for _, table := range []string{"folders", "symbols", "trash"} {
		execute(t, pool, `SELECT setval(pg_get_serial_sequence('canvasback_`+table+`', 'id'), 1, false)`)
	}
	execute(t, pool, `SELECT setval(pg_get_serial_sequence('canvasback_trash', 'id'), min(id), false) FROM canvasback_trash`)
	err = store.DeleteFolder(t.Context(), folder.ID, deletion) // in a transaction
	is.True(err != nil && strings.Count(err.Error(), "setval") == 1)
	execute(t, pool, string(documented[1]))
	must(store.InsertFolder(t.Context(), symbols.Folder{Name: "fourth"}))(t)
	is.NoErr(store.DeleteSymbols(t.Context(), []int64{symbol()}, deletion))
	for _, entry := range must(store.ListTrash(t.Context(), time.Time{}, symbols.Range{}))(t).Entries {
		_, err := store.RestoreTrash(t.Context(), entry.ID, time.Time{}, deletion.Stamp, func(e symbols.TrashEntry) (int64, error) { return e.FolderID, nil })
		is.NoErr(err)
	}
	is.Equal(count(t, pool, `SELECT count(*) FROM pg_sequences WHERE last_value IS NULL AND sequencename LIKE '%_id_seq'`), 0)
}
