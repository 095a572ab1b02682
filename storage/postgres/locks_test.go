package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/postgres"
	"example.com/canvasback/storage/postgres/pgtest"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// eventually waits until count returns want.
func eventually(t testing.TB, want int, count func() int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for n := count(); n != want; n = count() {
		if time.Now().After(deadline) {
			t.Fatalf("the count is %d, want %d", n, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// waiting returns a function that counts the sessions waiting for a lock.
func waiting(t testing.TB, pool *pgxpool.Pool) func() int {
	return func() int {
		t.Helper()
		return count(t, pool, `
			SELECT count(*)
			FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`,
		)
	}
}

func TestStorage_RetriesAfterDeadlock(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	// A session looks for a deadlock once, after this timeout, and aborts itself. The
	// operator must wait for its second lock by then.
	operator := connect(t, dsn+"&deadlock_timeout=60s")
	store := migrate(t, connect(t, dsn+"&deadlock_timeout=2s"))
	from := must(store.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "from"}))(t)
	to := must(store.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "to"}))(t)
	list := must(store.Symbols().InsertSymbols(t.Context(), from.ID, make([]symbols.Symbol, 1)))(t)

	const lock = `SELECT FROM canvasback_folders WHERE id = $1 FOR UPDATE`
	tx := begin(t, operator, lock, to.ID)
	moved := make(chan error, 1)
	go func() {
		moved <- errorOf(store.Symbols().UpdateSymbol(t.Context(), list[0].ID, func(symbol *symbols.Symbol) error {
			symbol.FolderID = to.ID
			return nil
		}))
	}()
	eventually(t, 1, waiting(t, operator))
	must(tx.Exec(t.Context(), lock, from.ID))(t) // against the lock order
	is.NoErr(tx.Commit(t.Context()))
	is.NoErr(<-moved)
}

// TestImport_WaitsForSameDigest imports a key that another transaction is importing.
func TestImport_WaitsForSameDigest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	operator, db := newDatabase(t)
	tx := begin(t, operator, insertKeys(1, 1))
	imported := make(chan error, 1)
	go func() {
		var list []keys.Key
		for _, text := range []string{"2", "1"} {
			list = append(list, keys.Key{Digest: digestOf(text), CreatedAt: time.Now(), UpdatedAt: time.Now()})
		}
		imported <- errorOf(db.Keys().Import(t.Context(), list))
	}()
	eventually(t, 1, waiting(t, operator))
	is.NoErr(tx.Commit(t.Context()))
	taken := new(keys.TakenError)
	is.True(errors.As(<-imported, &taken))
	is.Equal(taken.Index, 1)
}

// TestUpdateKey_SaysWhichLockItWaitedFor has a transaction of an operator that changed the
// key.
func TestUpdateKey_SaysWhichLockItWaitedFor(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	operator := connect(t, dsn)
	db := migrate(t, connectWith(t, dsn, postgres.ConfigurePool))
	key := must(db.Keys().Insert(t.Context(), keys.Key{CreatedAt: time.Now(), UpdatedAt: time.Now()}))(t)
	begin(t, operator, `UPDATE canvasback_keys SET name = 'a' WHERE id = $1`, key.ID)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		failed <- errorOf(storagetest.UpdateKey(ctx, db.Keys(), key.ID, func(*keys.Key) error { return nil }))
	}()
	eventually(t, 1, waiting(t, operator))
	cancel()
	is.True(strings.Contains(fmt.Sprint(<-failed), `in relation "canvasback_keys"`))
}

func TestStorage_EndedContextReleasesConnection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	operator, pool := connect(t, dsn), connect(t, dsn)
	db := migrate(t, pool)
	key := must(db.Keys().Insert(t.Context(), keys.Key{CreatedAt: time.Now(), UpdatedAt: time.Now()}))(t)
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	list := must(db.Symbols().InsertSymbols(t.Context(), folder.ID, make([]symbols.Symbol, 1)))(t)

	tx := begin(t, operator, `LOCK TABLE canvasback_keys, canvasback_folders`)
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { return errorOf(db.Keys().List(ctx, keys.Filter{}, keys.Range{})) },
		func(ctx context.Context) error { _, err := db.Keys().Find(ctx, key.Digest); return err },
		func(ctx context.Context) error {
			return errorOf(storagetest.UpdateKey(ctx, db.Keys(), key.ID, func(*keys.Key) error { return nil }))
		},
		func(ctx context.Context) error { _, err := db.Symbols().ListFolders(ctx, symbols.Range{}); return err },
		func(ctx context.Context) error {
			return errorOf(db.Symbols().ListSymbols(ctx, folder.ID, symbols.Range{}, 1, true))
		},
		func(ctx context.Context) error { return errorOf(db.Symbols().InsertSymbols(ctx, folder.ID, list)) },
		func(ctx context.Context) error {
			return errorOf(db.Symbols().UpdateSymbol(ctx, list[0].ID, func(*symbols.Symbol) error { return nil }))
		},
		func(ctx context.Context) error {
			return db.Symbols().DeleteFolder(ctx, folder.ID, symbols.Deletion{Match: symbols.Any})
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		is.True(errors.Is(call(ctx), context.DeadlineExceeded))
		cancel()
	}
	// A cancel request that arrives before its statement has no effect: the
	// server waits for the lock, and pgx waits for the server.
	is.NoErr(tx.Rollback(t.Context()))
	eventually(t, 0, func() int { return int(pool.Stat().AcquiredConns()) }) // all released
	must(db.Keys().Find(t.Context(), key.Digest))(t)
}

// TestStorage_WritersOfDifferentFoldersDoNotWait has a transaction that has changed a
// symbol and is not committed.
func TestStorage_WritersOfDifferentFoldersDoNotWait(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dsn := pgtest.Database(t)
	single := func() (pool *pgxpool.Pool, writer int) {
		pool = connect(t, dsn+"&pool_max_conns=1")
		return pool, count(t, pool, `SELECT pg_backend_pid() % 8`)
	}
	operator, first := single()
	pool, second := single()
	for second == first {
		pool, second = single()
	}
	store := migrate(t, pool)
	var folders []int64
	for _, name := range []string{"a", "b"} {
		folder := must(store.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: name}))(t)
		must(store.Symbols().InsertSymbols(t.Context(), folder.ID, make([]symbols.Symbol, 1)))(t)
		folders = append(folders, folder.ID)
	}
	tx := begin(t, operator, `UPDATE canvasback_symbols SET name = 'changed' WHERE folder_id = $1`, folders[0])
	before := must(store.Symbols().ListSegments(t.Context()))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(store.Symbols().InsertSymbols(ctx, folders[1], make([]symbols.Symbol, 1)))(t)
	inserted := must(store.Symbols().ListSegments(t.Context()))(t)
	is.True(inserted[0].Version != before[0].Version)
	is.NoErr(tx.Commit(t.Context()))
	committed := must(store.Symbols().ListSegments(t.Context()))(t)
	is.True(committed[0].Version != inserted[0].Version)
	is.Equal(len(committed), 1)
}

// TestPruneTrash_RemovesWhatItHasMarked deletes a large folder while PruneTrash waits: an
// entry that is too much only then must not lose symbols in this call.
func TestPruneTrash_RemovesWhatItHasMarked(t *testing.T) {
	is, ctx := is.New(t), t.Context()
	operator, db := newDatabase(t)
	store := db.Symbols()
	now := time.Now().UTC().Truncate(time.Millisecond)
	oldest := now.Add(-time.Minute)
	discard := func(name string, at time.Time, list ...symbols.Symbol) {
		folder := must(store.InsertFolder(ctx, symbols.Folder{Name: name}))(t)
		if len(list) > 0 {
			must(store.InsertSymbols(ctx, folder.ID, list))(t)
		}
		is.NoErr(store.DeleteFolder(ctx, folder.ID, symbols.Deletion{Stamp: symbols.Stamp{At: at}, Match: symbols.Any}))
	}
	discard("expired", now.Add(-time.Hour))
	discard("kept", now, slices.Repeat([]symbols.Symbol{{Name: "s", Type: "a/b", Data: "x"}}, 300)...)
	tx := begin(t, operator, `SELECT FROM canvasback_trash WHERE name = 'expired' FOR UPDATE`)
	pruned := make(chan error, 1)
	go func() { pruned <- errorOf(store.PruneTrash(ctx, oldest, 1<<20)) }()
	eventually(t, 1, waiting(t, operator))
	discard("large", now, symbols.Symbol{Name: "s", Type: "a/b", Data: strings.Repeat("y", 2<<20)})
	is.NoErr(tx.Commit(ctx))
	is.NoErr(<-pruned)
	page := must(store.ListTrash(ctx, oldest, symbols.Range{}))(t)
	is.Equal(page.Entries[0].Name, "kept")
	is.Equal(count(t, operator, `SELECT count(*) FROM canvasback_trash_symbols WHERE name = 's' AND data = 'x'`), 300)
}

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
