package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// A queued writer stops waiting when its context ends. Readers do not wait.
func TestWrite_QueueRespectsContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := open(t).Symbols()
	folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)

	writing, proceed, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := store.UpdateFolder(t.Context(), folder.ID, func(folder *symbols.Folder) error {
			close(writing)
			<-proceed
			folder.Name = "renamed"
			return nil
		})
		done <- err
	}()
	<-writing
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	is.True(errors.Is(errorOf(store.InsertFolder(ctx, symbols.Folder{Name: "late"})), context.DeadlineExceeded))
	got := must(store.GetFolder(t.Context(), folder.ID))(t)
	is.Equal(got, folder) // from before the update

	close(proceed)
	is.NoErr(<-done)
	list := must(store.ListFolders(t.Context(), symbols.Range{}))(t)
	is.Equal(len(list.Folders), 1)
	is.Equal(list.Folders[0].Name, "renamed")
}

// An interrupted write must not leave a transaction open. It must not close the
// only connection of an in-memory database either.
func TestWrite_InterruptionRollsBack(t *testing.T) {
	t.Parallel()
	conn := connect(t, "file::memory:?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)")
	conn.SetMaxOpenConns(1)
	db := migrate(t, conn)
	store := db.Symbols()
	is := is.New(t)
	folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)

	// A deletion that runs until it is interrupted.
	must(conn.ExecContext(t.Context(), `
		CREATE VIEW endless AS
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
		SELECT i FROM n;
		CREATE TRIGGER slow AFTER DELETE ON canvasback_folders
		BEGIN
			SELECT count(*) FROM endless;
		END`))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	is.True(store.DeleteFolder(ctx, folder.ID, symbols.Deletion{Match: symbols.Any}) != nil)
	must(conn.ExecContext(t.Context(), `DROP TRIGGER slow`))(t)

	ctx, cancel = context.WithCancel(t.Context())
	_, err := store.UpdateFolder(ctx, folder.ID, func(folder *symbols.Folder) error {
		folder.Name = "renamed"
		cancel()
		return nil
	})
	is.True(errors.Is(err, context.Canceled))

	func() {
		defer func() { is.Equal(recover(), "interrupted") }()
		store.UpdateFolder(t.Context(), folder.ID, func(*symbols.Folder) error { panic("interrupted") })
	}()

	got := must(store.GetFolder(t.Context(), folder.ID))(t)
	is.Equal(got, folder) // unchanged
	is.NoErr(store.DeleteFolder(t.Context(), folder.ID, symbols.Deletion{Match: symbols.Any}))
}

// Insertions that wait for the writer share a commit. An error of one and a canceled
// context do not affect the others. A failed commit is an error of all, and so is a panic of
// the driver.
func TestInsertSymbols_WaitingShareCommit(t *testing.T) {
	t.Parallel()
	const waiting = 10
	for _, test := range []struct {
		name          string
		missingFolder bool
		failAt        int32 // the commit that fails, if not 0
		panics        bool  // instead of failing
		commits       int32
	}{
		{name: "success", commits: 2}, // with that of the folder
		{name: "missing folder", missingFolder: true, commits: 2},
		{name: "failed commit", failAt: 2, commits: 2},
		{name: "panic", failAt: 2, panics: true, commits: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dsn := file(t) + pragmas
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				faults := new(faultInjector)
				pool := sql.OpenDB(faultyConnector{dsn, faults})
				defer pool.Close()
				db := migrate(t, pool)
				store := db.Symbols()
				folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
				faults.commits.Store(0)
				faults.failCommit.Store(test.failAt)
				faults.panics.Store(test.panics)

				var all sync.WaitGroup
				errs := make([]error, waiting)
				inserted := make([]symbols.Symbol, waiting)
				canceled, cancel := context.WithCancel(t.Context())
				_, err := store.UpdateFolder(t.Context(), folder.ID, func(*symbols.Folder) error {
					for i := range waiting {
						ctx, id := t.Context(), folder.ID
						switch {
						case i == 1:
							ctx = canceled
						case i == 2 && test.missingFolder:
							id++
						}
						all.Go(func() {
							defer func() {
								if recover() != nil {
									errs[i] = errInjected
								}
							}()
							var list []symbols.Symbol
							if list, errs[i] = store.InsertSymbols(ctx, id, []symbols.Symbol{{Name: fmt.Sprint(i)}}); errs[i] == nil {
								inserted[i] = list[0]
							}
						})
					}
					synctest.Wait()
					cancel()
					synctest.Wait()
					return nil
				})
				is.NoErr(err)
				all.Wait()
				is.Equal(faults.commits.Load(), test.commits)

				want := make(map[symbols.Symbol]bool)
				for i, err := range errs {
					switch {
					case i == 1:
						is.Equal(err, context.Canceled)
					case i == 2 && test.missingFolder:
						is.Equal(err, symbols.ErrFolderNotFound)
					case test.failAt != 0:
						is.True(errors.Is(err, errInjected) || test.panics && err != nil)
					default:
						is.NoErr(err)
						want[inserted[i]] = true
					}
				}
				page := must(store.ListSymbols(t.Context(), folder.ID, symbols.Range{}, 1<<20, true))(t)
				is.Equal(len(page.Symbols), len(want))
				for _, symbol := range page.Symbols {
					is.True(want[symbol])
				}
			})
		})
	}
}

// SQLite ends the transaction of a group when the database is full. Exactly the
// acknowledged symbols are stored.
func TestInsertSymbols_FullDatabaseKeepsAcknowledged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := migrate(t, connect(t, file(t)+pragmas+"&_pragma=max_page_count(400)"))
	store := db.Symbols()
	folder := must(store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	var acknowledged atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for {
				symbol := symbols.Symbol{Data: strings.Repeat("x", 20_000)}
				if _, err := store.InsertSymbols(t.Context(), folder.ID, []symbols.Symbol{symbol}); err != nil {
					return
				}
				acknowledged.Add(1)
			}
		})
	}
	all.Wait()
	infos := must(store.ListSymbolInfos(t.Context(), folder.ID, symbols.Range{}))(t)
	is.True(len(infos.Symbols) > 20)
	is.Equal(len(infos.Symbols), int(acknowledged.Load()))
}
