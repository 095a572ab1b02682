//go:build unix

package sqlite_test

import (
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/sqlite"
)

// A file size limit acts like a full disk: writes return 503 and reads succeed.
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
	a := serve(t, name+pragmas)
	folder := a.folder("folder")
	var original syscall.Rlimit
	is.NoErr(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &original))
	setLimit := func(limit syscall.Rlimit) { is.NoErr(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)) }
	stored := 0
	for round := range 2 {
		limit := original
		limit.Cur = 1 << (19 + round)
		setLimit(limit)
		stored += a.fill(folder)
		for range 3 {
			is.Equal(a.insert(folder), http.StatusServiceUnavailable)
			is.Equal(a.count(folder), stored) // only the acknowledged symbols
		}
		setLimit(original)
		is.Equal(a.insert(folder), http.StatusCreated) // without a restart
		stored++
	}
	is.Equal(a.count(folder), stored)
	rejectWritesOnly(t, must(sqlite.New(a.pool)), func() {
		limit := original
		limit.Cur = 1 << 19
		setLimit(limit)
	}, func() { setLimit(original) })
	a.checkIntegrity()
}
