//go:build unix

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/examples/internal/database"
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

// An operator replaces the file of a running server, which continues with the previous one.
func TestWatchDisk_ReportsReplacedDatabase(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "canvas.db")
	db := must(database.Open(t.Context(), "sqlite:"+path, nil))(t)
	defer db.Close()
	var text strings.Builder
	p := &program{db: db, log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelError}))}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.watchDisk(ended)
	is.Equal(text.String(), "")
	is.NoErr(os.Rename(path, path+".old"))
	p.watchDisk(ended)
	is.True(strings.Contains(text.String(), "no such file"))
	is.NoErr(os.WriteFile(path, nil, 0o600))
	p.watchDisk(ended)
	is.True(strings.Contains(text.String(), "is another file now"))
}

// SQLite only says that it is unable to open the database file.
func TestOpenSQLite_NamesFileThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "canvas.db")
	is.NoErr(os.Mkdir(path+"-wal", 0o700)) // also for root
	_, err := database.Open(t.Context(), "sqlite:"+path, nil)
	is.True(err != nil && strings.Contains(err.Error(), "open "+path+"-wal: "))
}
