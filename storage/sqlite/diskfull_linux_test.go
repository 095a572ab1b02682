package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// TestStorage_FullFileSystemRejectsWritesOnly fills a file system of 8 MiB, which a
// child process mounts in a namespace of its own.
func TestStorage_FullFileSystemRejectsWritesOnly(t *testing.T) {
	is := is.New(t)
	dir := os.Getenv(childFile)
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
		return
	}
	is.NoErr(syscall.Mount("none", dir, "tmpfs", 0, "size=8m"))
	db := migrate(t, connect(t, "file:"+filepath.Join(dir, "test.db")+pragmas))
	other := filepath.Join(dir, "other")
	rejectWritesOnly(t, db, func() {
		err := os.WriteFile(other, make([]byte, 8<<20), 0o600)
		is.True(errors.Is(err, syscall.ENOSPC))
	}, func() { is.NoErr(os.Remove(other)) })
}
