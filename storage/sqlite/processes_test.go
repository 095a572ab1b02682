package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// TestStorage_TwoProcessesLoseNoUpdate writes to one file from two processes.
func TestStorage_TwoProcessesLoseNoUpdate(t *testing.T) {
	rounds := testflag.Rounds(60, 60, 2000)
	if name := os.Getenv(childFile); name != "" {
		countUp(t, must(sqlite.New(connect(t, name+pragmas)))(t), rounds)
		return
	}
	t.Parallel()
	is := is.New(t)
	name := file(t)
	db := migrate(t, connect(t, name+pragmas))
	must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "0"}))(t)
	other := childCommand(t, name)
	other.Stdout, other.Stderr = os.Stderr, os.Stderr
	is.NoErr(other.Start())
	countUp(t, db, rounds)
	is.NoErr(other.Wait())

	is.Equal(must(db.Symbols().GetFolder(t.Context(), 1))(t).Name, fmt.Sprint(2*rounds)) // no update is lost
	page := must(db.Symbols().ListSymbols(t.Context(), 1, symbols.Range{}, 1<<30, true))(t)
	is.Equal(len(page.Symbols), 2*2*rounds)
}

// countUp increments the number in the name of a folder, and adds symbols to it.
// SQLite has no fair queue: a write may fail after busy_timeout without having
// changed anything, and is then retried.
func countUp(t *testing.T, db *sqlite.DB, rounds int) {
	t.Helper()
	failures := 0
	write := func(f func() error) {
		t.Helper()
		for err := f(); err != nil; err = f() {
			if failures++; failures > 10 {
				t.Fatal(err)
			}
		}
	}
	for range rounds {
		write(func() error {
			return errorOf(db.Symbols().UpdateFolder(t.Context(), 1, func(folder *symbols.Folder) error {
				n, err := strconv.Atoi(folder.Name)
				folder.Name = strconv.Itoa(n + 1)
				return err
			}))
		})
		write(func() error { return errorOf(db.Symbols().InsertSymbols(t.Context(), 1, make([]symbols.Symbol, 2))) })
	}
}

// While another process holds the write lock, writes fail after busy_timeout and
// reads succeed.
func TestStorage_LockedFileRejectsWritesOnly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const timeout = 50 * time.Millisecond
	name := file(t)
	db := migrate(t, connect(t, name+strings.Replace(pragmas, "5000", "50", 1)))
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)

	other := must(connect(t, name+pragmas).Conn(t.Context()))(t)
	defer other.Close()
	must(other.ExecContext(t.Context(), `BEGIN IMMEDIATE`))(t)
	for range 3 {
		began := time.Now()
		_, err := db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "another"})
		is.True(err != nil && !errors.Is(err, symbols.ErrFolderNameTaken))
		is.True(time.Since(began) >= timeout)
		got := must(db.Symbols().GetFolder(t.Context(), folder.ID))(t)
		is.Equal(got, folder)
	}
	must(other.ExecContext(t.Context(), `ROLLBACK`))(t)
	must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "another"}))(t)
}
