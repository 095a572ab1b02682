package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// mountSmall returns a file system of some MiB, which a child process mounts in a namespace
// of its own. In the parent it runs the child and returns an empty string.
func mountSmall(t *testing.T, size string) (dir string) {
	dir = os.Getenv(childFile)
	if dir == "" {
		t.Parallel()
		cmd := childCommand(t, t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		output, err := cmd.CombinedOutput()
		if errors.Is(err, fs.ErrPermission) {
			t.Skip("mounting a file system requires root; TestStorage_FullDiskRejectsWritesOnly simulates a full one")
		}
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		return ""
	}
	is.New(t).NoErr(syscall.Mount("none", dir, "tmpfs", 0, "size="+size))
	return dir
}

func TestBackup_FullFileSystemKeepsNothing(t *testing.T) {
	is := is.New(t)
	dir := mountSmall(t, "3m")
	if dir == "" {
		return
	}
	db := migrate(t, connect(t, file(t)+pragmas))
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	large := []symbols.Symbol{{Name: "large", Data: strings.Repeat("data", 2<<20)}}
	must(db.Symbols().InsertSymbols(t.Context(), folder.ID, large))(t)
	is.True(db.Backup(t.Context(), filepath.Join(dir, "copy.db")) != nil)
	left := must(os.ReadDir(dir))(t)
	is.Equal(len(left), 0)
}

func TestStorage_FullFileSystemRejectsWritesOnly(t *testing.T) {
	is := is.New(t)
	dir := mountSmall(t, "8m")
	if dir == "" {
		return
	}
	db := migrate(t, connect(t, "file:"+filepath.Join(dir, "test.db")+pragmas))
	other := filepath.Join(dir, "other")
	rejectWritesOnly(t, db, func() {
		err := os.WriteFile(other, make([]byte, 8<<20), 0o600)
		is.True(errors.Is(err, syscall.ENOSPC))
	}, func() { is.NoErr(os.Remove(other)) })
}
