//go:build unix

package sqlite_test

import (
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// A file that the system does not let grow is a disk that is full: writes are
// answered 503 and reads as ever, and when there is room again all is well
// without a restart. The limit is that of a process, so it is another one.
func TestStorage_fileLimit(t *testing.T) {
	name := os.Getenv(childFile)
	if name == "" {
		t.Parallel()
		output, err := child(t, file(t)).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	is := is.New(t)
	a := serve(t, name+pragmas)
	folder := a.folder("folder")
	var former syscall.Rlimit
	is.NoErr(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &former))
	limit := func(size uint64) {
		is.NoErr(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: former.Max}))
	}
	stored := 0
	for round := range 2 {
		limit(uint64(round+1) << 19)
		stored += a.fill(folder)
		for range 3 {
			is.Equal(a.insert(folder), http.StatusServiceUnavailable)
			is.Equal(a.count(folder), stored) // what was acknowledged and nothing else
		}
		limit(former.Cur)
		is.Equal(a.insert(folder), http.StatusCreated) // at once
		stored++
	}
	is.Equal(a.count(folder), stored)
	a.wantSound()
}
