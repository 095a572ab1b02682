package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// While four writers add folders, each backup has all folders that were acknowledged
// before it began.
func TestBackup_HasAcknowledgedWrites(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	name := file(t)
	db := migrate(t, connect(t, name+pragmas))

	var mu sync.Mutex
	acknowledged := make(map[string]bool)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	wrote := make(chan struct{}, 1)
	for writer := range 4 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				folder := symbols.Folder{Name: fmt.Sprint(writer, " ", i)}
				if _, err := db.Symbols().InsertFolder(ctx, folder); err == nil {
					mu.Lock()
					acknowledged[folder.Name] = true
					mu.Unlock()
				}
				select {
				case wrote <- struct{}{}:
				default:
				}
			}
		})
	}
	defer writers.Wait()
	defer stop()
	for i := range 3 {
		for range 5 {
			<-wrote
		}
		mu.Lock()
		before := maps.Clone(acknowledged)
		mu.Unlock()
		path := filepath.Join(t.TempDir(), fmt.Sprint("copy ", i, "?.db"))
		is.NoErr(db.Backup(t.Context(), path))

		copied := must(sqlite.New(connect(t, "file:"+filepath.Join(filepath.Dir(path), fmt.Sprint("copy ", i, "%3f.db"))+pragmas)))(t)
		is.NoErr(copied.Check(t.Context()))
		is.Equal(len(must(copied.Pending(t.Context()))(t)), 0)
		for _, folder := range must(copied.Symbols().ListFolders(t.Context(), symbols.Range{}))(t).Folders {
			delete(before, folder.Name)
		}
		is.Equal(before, map[string]bool{}) // none is missing
	}
}

func TestBackup_ReplacesNoFileAndLeavesNone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := migrate(t, connect(t, file(t)+pragmas))
	dir := t.TempDir()
	existing := filepath.Join(dir, "existing.db")
	is.NoErr(os.WriteFile(existing, []byte("content"), 0o600))
	is.True(errors.Is(db.Backup(t.Context(), existing), fs.ErrExist))
	is.True(errors.Is(db.Backup(t.Context(), filepath.Join(dir, "missing", "copy.db")), fs.ErrNotExist))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	is.True(db.Backup(canceled, filepath.Join(dir, "canceled.db")) != nil)

	is.Equal(string(must(os.ReadFile(existing))(t)), "content")
	is.Equal(len(must(os.ReadDir(dir))(t)), 1) // no part of a copy
}

// A restored database has the records of an earlier time. It never repeats a version
// that the lost time had, so caches and the ETags of clients miss.
func TestBackup_RestoredVersionsDoNotRepeat(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := migrate(t, connect(t, file(t)+pragmas))
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "before"}))(t)
	path := filepath.Join(t.TempDir(), "copy.db")
	is.NoErr(db.Backup(t.Context(), path))
	rename := func(db *sqlite.DB, name string) symbols.Version {
		t.Helper()
		renamed := must(db.Symbols().UpdateFolder(t.Context(), folder.ID, func(f *symbols.Folder) error {
			f.Name = name
			return nil
		}))(t)
		return renamed.Version
	}
	lost := rename(db, "lost")
	restored := must(sqlite.New(connect(t, "file:"+path+pragmas)))(t)
	is.True(rename(restored, "other") != lost)
}
