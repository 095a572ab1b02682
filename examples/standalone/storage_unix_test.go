//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"
)

func TestOpenSQLite_OwnerOnlyFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "canvas back?.db")
	symlink := path + ".link"
	is.NoErr(os.Symlink(path, symlink))
	s := startServer(t, map[string]string{"DATABASE_URL": "sqlite:" + symlink})
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info := must(os.Stat(path + suffix))(t)
		is.Equal(info.Mode().Perm(), os.FileMode(0o600))
	}
	is.NoErr(s.stop())

	is.NoErr(os.Chmod(path, 0o640)) // by an operator
	startServer(t, map[string]string{"DATABASE_URL": "sqlite:" + path})
	info := must(os.Stat(path))(t)
	is.Equal(info.Mode().Perm(), os.FileMode(0o640))
}
