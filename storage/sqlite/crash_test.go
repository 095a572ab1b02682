package sqlite_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// TestStorage_KeepsAcknowledgedWritesAfterCrash repeatedly kills a process that
// writes. Each time the file must contain all acknowledged writes, and no partial
// write.
func TestStorage_KeepsAcknowledgedWritesAfterCrash(t *testing.T) {
	if name := os.Getenv(childFile); name != "" {
		writeUntilKilled(t, must(sqlite.New(connect(t, name+pragmas)))(t))
		return
	}
	t.Parallel()
	is := is.New(t)
	c := &crashTest{t: t, name: file(t), ids: make(map[int64]bool)}
	migrate(t, connect(t, c.name+pragmas))
	for range testflag.Rounds(15, 15, 400) {
		killed := c.runAndKill()
		c.check(killed)
		c.workers = append(c.workers, killed...)
	}
	c.check(c.workers)
	t.Logf("%d writes acknowledged; of %d writes in progress, %d committed", c.acknowledged, len(c.workers), c.committed)
	is.True(c.committed < len(c.workers)) // some processes were killed during a write
}

// crashTest is a database file and the workers of all killed processes.
type crashTest struct {
	t    *testing.T
	name string // of the file

	workers      []*killedWorker
	acknowledged int // writes
	committed    int // writes that were committed, but not acknowledged
	ids          map[int64]bool
	lastID       int64
	epoch        int64
}

// killedWorker is a worker of a killed process.
type killedWorker struct {
	worker
	acknowledged int     // writes
	version      int64   // of the folder after the last acknowledged rename; 0 before it
	inserted     []int64 // ids
	found        int     // writes, at the first check; -1 before it
}

// runAndKill runs a child process, and kills it at a random time after some
// writes.
func (c *crashTest) runAndKill() (workers []*killedWorker) {
	t := c.t
	t.Helper()
	cmd := childCommand(t, c.name)
	output := must(cmd.StdoutPipe())(t)
	is.New(t).NoErr(cmd.Start())
	bySource := make(map[string]*killedWorker)
	lines, killAfter := bufio.NewScanner(output), 3+rand.N(100)
	otherOutput := ""
	for n := 0; lines.Scan(); n++ {
		if n == killAfter {
			time.Sleep(rand.N(3 * time.Millisecond))
			cmd.Process.Kill()
		}
		var source string
		var a, b int64
		if _, err := fmt.Sscanf(lines.Text(), "worker %s %d %d", &source, &a, &b); err == nil {
			bySource[source] = &killedWorker{worker: worker{source: source, folder: a, key: b}, found: -1}
			workers = append(workers, bySource[source])
		} else if _, err := fmt.Sscanf(lines.Text(), "write %s %d", &source, &a); err == nil {
			_, assigned, _ := strings.Cut(lines.Text(), "[")
			bySource[source].acknowledge(int(a), parseNumbers(assigned))
			c.acknowledged++
		} else {
			otherOutput += lines.Text() + "\n"
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != -1 || len(workers) == 0 {
		t.Fatalf("the process was not killed during its writes: %v\n%s", cmd.ProcessState, otherOutput)
	}
	return workers
}

// parseNumbers parses "1 2 3]".
func parseNumbers(text string) (list []int64) {
	for _, field := range strings.Fields(strings.TrimSuffix(text, "]")) {
		var n int64
		fmt.Sscan(field, &n)
		list = append(list, n)
	}
	return list
}

func (w *killedWorker) acknowledge(n int, assigned []int64) {
	w.acknowledged = n + 1
	switch n % steps {
	case insertStep:
		w.inserted = append(w.inserted, assigned...)
	case renameStep:
		w.version = assigned[0]
	}
}

// check reopens the file and compares the content of some workers with their
// acknowledged writes.
func (c *crashTest) check(workers []*killedWorker) {
	t := c.t
	t.Helper()
	is := is.New(t)
	conn := connect(t, c.name+pragmas)
	defer conn.Close()
	db := must(sqlite.New(conn))(t)
	var integrity string
	is.NoErr(conn.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&integrity))
	is.Equal(integrity, "ok")
	var dangling int
	is.NoErr(conn.QueryRowContext(t.Context(), `SELECT count(*) FROM pragma_foreign_key_check`).Scan(&dangling))
	is.Equal(dangling, 0)

	firstCheck := false
	for _, w := range workers {
		actual, version, ids := w.actual(t, db)
		first := w.found < 0
		switch {
		case actual == w.expected(w.acknowledged) && (first || w.found == w.acknowledged):
			w.found = w.acknowledged
		case actual == w.expected(w.acknowledged+1) && (first || w.found == w.acknowledged+1):
			w.found = w.acknowledged + 1
		default:
			t.Fatalf("after %d acknowledged writes the file has:\n%s\nwant:\n%s\nor:\n%s",
				w.acknowledged, actual, w.expected(w.acknowledged), w.expected(w.acknowledged+1))
		}
		unacknowledged := w.found - w.acknowledged
		renamed := unacknowledged == 1 && w.acknowledged%steps == renameStep
		if w.version != 0 && renamed == (w.version == int64(version)) {
			t.Errorf("the folder has version %d after %d, renamed since: %v", version, w.version, renamed)
		}
		if !first {
			continue
		}
		firstCheck = true
		c.committed += unacknowledged
		for _, id := range w.inserted {
			if c.ids[id] {
				t.Errorf("id %d was assigned twice", id)
			}
			c.ids[id] = true
		}
		for _, id := range slices.Concat(w.inserted, ids) {
			c.lastID = max(c.lastID, id)
		}
	}

	changes := must(db.Keys().Changes(t.Context(), c.epoch))(t)
	is.Equal(changes.Epoch > c.epoch, firstCheck) // new workers have inserted keys
	is.Equal(changes.Complete, c.epoch > 0)
	is.Equal(len(changes.Digests) > 0, firstCheck && changes.Complete)
	c.epoch = changes.Epoch
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: fmt.Sprint(rand.Uint64())}))(t)
	list := must(db.Symbols().InsertSymbols(t.Context(), folder.ID, make([]symbols.Symbol, 1)))(t)
	is.True(list[0].ID > c.lastID) // no id is reused
	c.lastID = list[0].ID
}

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
