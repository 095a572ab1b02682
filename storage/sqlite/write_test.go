package sqlite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
	"github.com/matryer/is"
)

// A writer that waits for another one gives up with its context; readers do
// not wait at all.
func TestWrite_queue(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := open(t).Symbols()
	folder, err := store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"})
	is.NoErr(err)

	working, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := store.UpdateFolder(t.Context(), folder.ID, func(folder *symbols.Folder) error {
			close(working)
			<-goOn
			folder.Name = "renamed"
			return nil
		})
		done <- err
	}()
	<-working
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = store.InsertFolder(ctx, symbols.Folder{Name: "late"})
	is.True(errors.Is(err, context.DeadlineExceeded))
	got, err := store.GetFolder(t.Context(), folder.ID)
	is.NoErr(err)
	is.Equal(got, folder) // as it was before the update

	close(goOn)
	is.NoErr(<-done)
	list, err := store.ListFolders(t.Context())
	is.NoErr(err)
	is.Equal(len(list.Folders), 1)
	is.Equal(list.Folders[0].Name, "renamed")
}

// A write that is broken off, whatever by, must not leave a transaction open,
// and must not cost a database in memory its only connection.
func TestWrite_brokenOff(t *testing.T) {
	t.Parallel()
	conn := connect(t, "file::memory:?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)")
	conn.SetMaxOpenConns(1)
	db := sqlite.New(conn)
	store := db.Symbols()
	is := is.New(t)
	is.NoErr(db.Migrate(t.Context()))
	folder, err := store.InsertFolder(t.Context(), symbols.Folder{Name: "folder"})
	is.NoErr(err)

	// A deletion that goes on until it is told to stop.
	_, err = conn.ExecContext(t.Context(), `
		CREATE VIEW endless AS
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
		SELECT i FROM n;
		CREATE TRIGGER slow AFTER DELETE ON canvasback_folders
		BEGIN
			SELECT count(*) FROM endless;
		END`)
	is.NoErr(err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	is.True(store.DeleteFolder(ctx, folder.ID) != nil)
	_, err = conn.ExecContext(t.Context(), `DROP TRIGGER slow`)
	is.NoErr(err)

	ctx, cancel = context.WithCancel(t.Context())
	_, err = store.UpdateFolder(ctx, folder.ID, func(folder *symbols.Folder) error {
		folder.Name = "renamed"
		cancel()
		return nil
	})
	is.True(errors.Is(err, context.Canceled))

	func() {
		defer func() { is.Equal(recover(), "broken off") }()
		store.UpdateFolder(t.Context(), folder.ID, func(*symbols.Folder) error { panic("broken off") })
	}()

	got, err := store.GetFolder(t.Context(), folder.ID)
	is.NoErr(err)
	is.Equal(got, folder) // nothing has happened
	is.NoErr(store.DeleteFolder(t.Context(), folder.ID))
}
