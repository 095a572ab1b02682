package powerloss

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// losses is the number of simulated power losses for each setting.
const losses = 1000

// event is a write: the numbers of operations of the disk when it began and when it was
// acknowledged.
type event struct{ began, acknowledged int }

// history is what a test has written.
type history struct {
	inserted, deleted []event // of keys, by number in the name
	updated           []event // of the symbol, whose data has the number of updates
}

// TestSQLite_PowerLoss simulates power losses. With synchronous=FULL no acknowledged
// write is lost. With the other settings some are, so the test can fail.
func TestSQLite_PowerLoss(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"FULL", "NORMAL", "OFF"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			d := newDisk("powerloss-" + setting)
			h := writeHistory(t, d, setting)
			lost := 0
			for seed := range losses {
				random := rand.New(rand.NewPCG(uint64(seed), 0))
				first := h.inserted[0].began
				n := first + random.IntN(len(d.operations)-first+1)
				dir := t.TempDir()
				if err := d.losePower(n, random, dir); err != nil {
					t.Fatal(err)
				}
				problems := h.check(t, dir, n)
				if len(problems) == 0 {
					continue
				}
				if lost++; setting == "FULL" {
					t.Errorf("seed %d, after %d of %d operations: %s", seed, n, len(d.operations), strings.Join(problems, "; "))
				}
			}
			t.Logf("%d of %d power losses lost acknowledged writes; %d operations", lost, losses, len(d.operations))
			if setting != "FULL" && lost == 0 {
				t.Error("no power loss lost a write")
			}
		})
	}
}

func open(t *testing.T, dir, parameters string) (*sql.DB, *sqlite.DB) {
	t.Helper()
	name := "file:" + filepath.Join(dir, "test.db") + "?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)" + parameters
	pool := must(sql.Open("sqlite3", name))(t)
	return pool, must(sqlite.New(pool))(t)
}

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

// writeHistory writes to a database one call after the other. It checkpoints often.
func writeHistory(t *testing.T, d *disk, setting string) (h history) {
	t.Helper()
	pool, db := open(t, t.TempDir(),
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(30)&vfs=powerloss-"+setting)
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	noErr := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	noErr(db.Migrate(t.Context())) // it rejects other settings
	must(pool.ExecContext(t.Context(), `PRAGMA synchronous = `+setting))(t)
	folder := must(db.Symbols().InsertFolder(t.Context(), symbols.Folder{Name: "folder"}))(t)
	list := must(db.Symbols().InsertSymbols(t.Context(), folder.ID, []symbols.Symbol{{Name: "symbol"}}))(t)
	record := func(events *[]event, write func() error) {
		began := d.now()
		noErr(write())
		*events = append(*events, event{began, d.now()})
	}
	for i := range 100 {
		key := keys.Key{Name: fmt.Sprint(i), Digest: keys.Digest{byte(i), 1}, CreatedAt: time.Now().UTC(), UpdatedAt: time.Now().UTC()}
		record(&h.inserted, func() (err error) { key, err = db.Keys().Insert(t.Context(), key); return err })
		record(&h.updated, func() error {
			return errorOf(db.Symbols().UpdateSymbol(t.Context(), list[0].ID, func(s *symbols.Symbol) error {
				s.Data = strings.Repeat("x", i+1)
				return nil
			}))
		})
		if i%2 == 0 {
			record(&h.deleted, func() error {
				return errorOf(db.Keys().Delete(t.Context(), []int64{key.ID}, func([]keys.Key) error { return nil }))
			})
		}
	}
	d.operations = d.operations[:d.now():d.now()] // without those of Close
	return h
}

// check returns what is wrong with a database after a power loss behind n operations.
func (h history) check(t *testing.T, dir string, n int) (problems []string) {
	pool, db := open(t, dir, "")
	defer pool.Close()
	fail := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var result string
	if err := pool.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&result); err != nil || result != "ok" {
		fail("integrity: %s %v", result, err)
		return problems
	}
	page, err := db.Keys().List(t.Context(), keys.Filter{}, keys.Range{})
	if err != nil {
		fail("list keys: %v", err)
		return problems
	}
	found := make(map[string]bool)
	for _, key := range page.Keys {
		found[key.Name] = true
	}
	for i, inserted := range h.inserted {
		name := fmt.Sprint(i)
		deleted := event{began: n + 1, acknowledged: n + 1} // later
		if i%2 == 0 {
			deleted = h.deleted[i/2]
		}
		switch {
		case deleted.acknowledged <= n && found[name]:
			fail("key %d is back", i)
		case inserted.acknowledged <= n && deleted.began > n && !found[name]:
			fail("key %d is lost", i)
		case inserted.began > n && found[name]:
			fail("key %d is from the future", i)
		}
	}
	updates := 0
	for _, e := range h.updated {
		if e.acknowledged <= n {
			updates++
		}
	}
	symbol, err := db.Symbols().GetSymbol(t.Context(), 1)
	if err != nil || len(symbol.Data) < updates {
		fail("%d of %d updates of the symbol: %v", len(symbol.Data), updates, err)
	}
	return problems
}
