package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// TestStorage_ConcurrentWritesDoNotDeadlock makes random changes to few folders
// and symbols from two pools, and then reads the deadlock counter of PostgreSQL.
func TestStorage_ConcurrentWritesDoNotDeadlock(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	const workers, rounds = 12, 60
	dsn := pgtest.Database(t)
	pools := []*pgxpool.Pool{connect(t, dsn), connect(t, dsn)}
	migrate(t, pools[0])

	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			store := must(postgres.New(pools[worker%len(pools)], nil))(t).Symbols()
			for round := range rounds {
				if err := changeRandomly(t, store, fmt.Sprint(worker, round)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()

	for _, pool := range pools {
		pool.Close() // a session reports its statistics when it ends
	}
	pool := connect(t, dsn)
	is.Equal(count(t, pool, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`), 0)
	const orphans = `SELECT count(*) FROM canvasback_symbols WHERE folder_id NOT IN (SELECT id FROM canvasback_folders)`
	is.Equal(count(t, pool, orphans), 0)
}

// changeRandomly makes one random change. It ignores the sentinel errors that a
// concurrent change can cause.
func changeRandomly(t *testing.T, store symbols.Store, name string) error {
	ctx := t.Context()
	list, err := store.ListFolders(ctx, symbols.Range{})
	if err != nil {
		return err
	}
	if len(list.Folders) < 3 {
		return errorOf(store.InsertFolder(ctx, symbols.Folder{Name: name}))
	}
	folder := list.Folders[rand.N(len(list.Folders))].ID
	another := list.Folders[rand.N(len(list.Folders))].ID
	page, err := store.ListSymbols(ctx, folder, symbols.Range{}, 1<<20, true)
	if errors.Is(err, symbols.ErrFolderNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	choice := rand.N(20)
	switch {
	case choice == 0:
		err = store.DeleteFolder(ctx, folder, symbols.Deletion{Match: symbols.Any})
	case choice == 1:
		_, err = store.UpdateFolder(ctx, folder, func(folder *symbols.Folder) error {
			folder.Name = name
			return nil
		})
	case choice < 5 || len(page.Symbols) == 0:
		_, err = store.InsertSymbols(ctx, folder, make([]symbols.Symbol, 3))
	case choice < 8:
		err = store.DeleteSymbols(ctx, []int64{page.Symbols[rand.N(len(page.Symbols))].ID}, symbols.Deletion{Match: symbols.Any})
	default:
		_, err = store.UpdateSymbol(ctx, page.Symbols[rand.N(len(page.Symbols))].ID, func(symbol *symbols.Symbol) error {
			symbol.Name, symbol.FolderID = name, another
			return nil
		})
	}
	if errors.Is(err, symbols.ErrFolderNotFound) || errors.Is(err, symbols.ErrSymbolNotFound) {
		return nil
	}
	return err
}

// TestStorage_RetriesAbortedReads aborts the first reads of a table, as PostgreSQL does
// at the isolation level serializable.
func TestStorage_RetriesAbortedReads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	pool, db := newDatabase(t)
	store := db.Symbols()
	folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "Valves"}))(t)
	for name, read := range map[string]func() error{
		"row": func() error { return errorOf(store.GetFolder(t.Context(), folder.ID)) },
		"rows": func() error {
			page, err := store.ListFolders(t.Context(), symbols.Range{})
			is.Equal(len(page.Folders), 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			execute(t, pool, `
				CREATE SEQUENCE reads;
				CREATE FUNCTION abort_first() RETURNS boolean LANGUAGE plpgsql AS $$
				BEGIN
					IF nextval('reads') <= 2 THEN
						RAISE EXCEPTION 'aborted' USING ERRCODE = 'serialization_failure';
					END IF;
					RETURN true;
				END $$;
				ALTER TABLE canvasback_folders RENAME TO folders;
				CREATE VIEW canvasback_folders AS SELECT * FROM folders WHERE abort_first()`)
			is.NoErr(read())
			is.Equal(count(t, pool, `SELECT last_value FROM reads`), 3)
			execute(t, pool, `
				DROP VIEW canvasback_folders;
				ALTER TABLE folders RENAME TO canvasback_folders;
				DROP FUNCTION abort_first;
				DROP SEQUENCE reads`)
		})
	}
}
