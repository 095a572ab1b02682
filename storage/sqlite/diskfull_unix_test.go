//go:build unix

package sqlite_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/sqlite"
)

// A file size limit acts like a full disk: writes fail and reads succeed.
// Without the limit writes succeed again, without a restart. The limit applies to
// a process, so the test runs in a child.
func TestStorage_FullDiskRejectsWritesOnly(t *testing.T) {
	name := os.Getenv(childFile)
	if name == "" {
		t.Parallel()
		output, err := childCommand(t, file(t)).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	is := is.New(t)
	l := openLibrary(t, name+pragmas)
	folder := l.folder("folder")
	var original syscall.Rlimit
	is.NoErr(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &original))
	setLimit := func(limit syscall.Rlimit) { is.NoErr(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)) }
	stored := 0
	for round := range 2 {
		limit := original
		limit.Cur = 1 << (19 + round)
		setLimit(limit)
		stored += l.fill(folder)
		for range 3 {
			is.True(l.insert(folder) != nil)
			is.Equal(l.count(folder), stored) // only the acknowledged symbols
		}
		setLimit(original)
		is.NoErr(l.insert(folder)) // without a restart
		stored++
	}
	is.Equal(l.count(folder), stored)
	rejectWritesOnly(t, must(sqlite.New(l.pool))(t), func() {
		limit := original
		limit.Cur = 1 << 19
		setLimit(limit)
	}, func() { setLimit(original) })
	l.checkIntegrity()
}
