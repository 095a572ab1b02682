package sqlite_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/symbols"
)

// TestStorage_FullFileSystemKeepsRevoking fills a file system of 12 MiB, which a child
// process mounts in a namespace of its own.
func TestStorage_FullFileSystemKeepsRevoking(t *testing.T) {
	if dir := os.Getenv(childFile); dir != "" {
		revokeOnFullDisk(t, dir)
		return
	}
	t.Parallel()
	cmd := childCommand(t, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	output, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("mounting a file system requires root; TestStorage_FullDiskKeepsRevoking simulates a full one")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

func revokeOnFullDisk(t *testing.T, dir string) {
	is := is.New(t)
	is.NoErr(syscall.Mount("none", dir, "tmpfs", 0, "size=16m"))
	name := filepath.Join(dir, "test.db")
	db := must(sqlite.New(connect(t, "file:"+name+pragmas)))
	is.NoErr(db.Migrate(t.Context()))
	newKey := func(n int) error {
		_, err := db.Keys().Insert(t.Context(), keys.Key{
			Active: true, Digest: sha256.Sum256(fmt.Append(nil, n)), CreatedAt: time.Now(), UpdatedAt: time.Now(),
		})
		return err
	}
	const count = 30
	for n := range count {
		is.NoErr(newKey(n))
	}
	room := filepath.Join(dir, "room") // for the reserve, in the end
	is.NoErr(os.WriteFile(room, make([]byte, 4<<20), 0o600))
	folder, err := db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"})
	is.NoErr(err)
	for size := 100_000; size > 0; size /= 10 {
		for err = nil; err == nil; {
			_, err = db.Symbols().InsertSymbols(t.Context(), folder.ID, []symbols.Symbol{{Data: strings.Repeat("x", size)}})
		}
	}
	rest := os.WriteFile(filepath.Join(dir, "rest"), make([]byte, 16<<20), 0o600)
	is.True(errors.Is(rest, syscall.ENOSPC))
	is.True(newKey(count) != nil) // full

	for n := range int64(count) {
		_, err := db.Keys().Update(t.Context(), n+1, func(key *keys.Key) error {
			key.Active = false
			return nil
		})
		is.NoErr(err)
		_, err = db.Keys().Delete(t.Context(), n+1)
		is.NoErr(err)
	}
	is.NoErr(os.Remove(room))
	is.NoErr(db.Keys().Touch(t.Context(), nil, time.Now()))
	reserve, err := os.Stat(name + "-reserve")
	is.NoErr(err)
	is.Equal(reserve.Size(), int64(2<<20))
}
