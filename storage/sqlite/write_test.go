package sqlite_test

import (
	"context"
	"errors"
	"testing"
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
