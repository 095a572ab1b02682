package sqlite_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/symbols"
	"github.com/matryer/is"
)

// TestStorage_crash kills a process that writes, again and again, and looks
// each time whether the file has all that was acknowledged, and nothing by
// half.
func TestStorage_crash(t *testing.T) {
	if name := os.Getenv(childFile); name != "" {
		writeUntilKilled(t, sqlite.New(connect(t, name+pragmas)))
		return
	}
	t.Parallel()
	is := is.New(t)
	cycles := 15
	if storagetest.Long() {
		cycles = 400
	}
	c := &crashes{t: t, name: file(t), ids: make(map[int64]bool)}
	is.NoErr(sqlite.New(connect(t, c.name+pragmas)).Migrate(t.Context()))
	for range cycles {
		killed := c.kill()
		c.check(killed)
		c.all = append(c.all, killed...)
	}
	c.check(c.all)
	t.Logf("%d writes were acknowledged; of %d that were under way, %d were carried out", c.acknowledged, len(c.all), c.unheard)
	is.True(c.unheard < len(c.all)) // processes have died in the middle of a write
}

// crashes is a file and what those who were killed had been told.
type crashes struct {
	t    *testing.T
	name string

	all          []*killedWorker
	acknowledged int
	unheard      int // writes that were carried out, and nobody had been told
	ids          map[int64]bool
	lastID       int64
	epoch        int64
}

// killedWorker is what is known of a worker whose process is dead.
type killedWorker struct {
	worker
	acknowledged int     // writes
	version      int64   // of the folder, by the last of them
	inserted     []int64 // ids
	carriedOut   int     // writes, as first found; -1 before that
}

// kill runs a process until it has made some writes and kills it somewhere in
// the next one.
func (c *crashes) kill() (workers []*killedWorker) {
	t := c.t
	t.Helper()
	cmd := child(t, c.name)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bySource := make(map[string]*killedWorker)
	lines, most := bufio.NewScanner(output), 3+rand.N(100)
	said := ""
	for n := 0; lines.Scan(); n++ {
		if n == most {
			time.Sleep(rand.N(3 * time.Millisecond))
			cmd.Process.Kill()
		}
		var source string
		var a, b int64
		if _, err := fmt.Sscanf(lines.Text(), "worker %s %d %d", &source, &a, &b); err == nil {
			bySource[source] = &killedWorker{worker: worker{source: source, folder: a, key: b}, carriedOut: -1}
			workers = append(workers, bySource[source])
		} else if _, err := fmt.Sscanf(lines.Text(), "write %s %d", &source, &a); err == nil {
			_, drawn, _ := strings.Cut(lines.Text(), "[")
			bySource[source].heard(int(a), numbers(drawn))
			c.acknowledged++
		} else {
			said += lines.Text() + "\n"
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != -1 || len(workers) == 0 {
		t.Fatalf("the process was not killed at work: %v\n%s", cmd.ProcessState, said)
	}
	return workers
}

// numbers reads "1 2 3]".
func numbers(text string) (list []int64) {
	for _, field := range strings.Fields(strings.TrimSuffix(text, "]")) {
		var n int64
		fmt.Sscan(field, &n)
		list = append(list, n)
	}
	return list
}

func (w *killedWorker) heard(n int, drawn []int64) {
	w.acknowledged = n + 1
	switch n % steps {
	case insertStep:
		w.inserted = append(w.inserted, drawn...)
	case renameStep:
		w.version = drawn[0]
	}
}

// check opens the file again and compares what it holds of some workers with
// what they had been told.
func (c *crashes) check(workers []*killedWorker) {
	t := c.t
	t.Helper()
	is := is.New(t)
	conn := connect(t, c.name+pragmas)
	defer conn.Close()
	db := sqlite.New(conn)
	var verdict string
	is.NoErr(conn.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&verdict))
	is.Equal(verdict, "ok")
	var dangling int
	is.NoErr(conn.QueryRowContext(t.Context(), `SELECT count(*) FROM pragma_foreign_key_check`).Scan(&dangling))
	is.Equal(dangling, 0)

	fresh := false
	for _, w := range workers {
		held, version, ids, err := w.held(t.Context(), db)
		is.NoErr(err)
		first := w.carriedOut < 0
		switch {
		case held == w.after(w.acknowledged) && (first || w.carriedOut == w.acknowledged):
			w.carriedOut = w.acknowledged
		case held == w.after(w.acknowledged+1) && (first || w.carriedOut == w.acknowledged+1):
			w.carriedOut = w.acknowledged + 1
		default:
			t.Fatalf("after %d writes the file holds:\n%s\nwant:\n%s\nor:\n%s",
				w.acknowledged, held, w.after(w.acknowledged), w.after(w.acknowledged+1))
		}
		unheard := w.carriedOut - w.acknowledged
		renamed := unheard == 1 && w.acknowledged%steps == renameStep
		if w.version != 0 && renamed == (w.version == int64(version)) {
			t.Errorf("the folder has version %d after %d, renamed since: %v", version, w.version, renamed)
		}
		if !first {
			continue
		}
		fresh = true
		c.unheard += unheard
		for _, id := range w.inserted {
			if c.ids[id] {
				t.Errorf("id %d was given twice", id)
			}
			c.ids[id] = true
		}
		for _, id := range slices.Concat(w.inserted, ids) {
			c.lastID = max(c.lastID, id)
		}
	}

	epoch, err := db.Keys().Epoch(t.Context())
	is.NoErr(err)
	is.Equal(epoch > c.epoch, fresh) // with their keys
	c.epoch = epoch
	folder, err := db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: fmt.Sprint(rand.Uint64())})
	is.NoErr(err)
	list, err := db.Symbols().InsertSymbols(t.Context(), folder.ID, make([]symbols.Symbol, 1))
	is.NoErr(err)
	is.True(list[0].ID > c.lastID) // and not one of those before
	c.lastID = list[0].ID
}
