package sqlite_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/sqlite"
	"example.com/canvasback/storage/storagetest"
	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
)

// childFile names the database file for a child process, which is another run of
// the test binary.
const childFile = "CANVASBACK_SQLITE_CHILD"

// childCommand returns a command that runs the calling test as a child process.
func childCommand(t *testing.T, file string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", fmt.Sprintf("-long=%v", *testflag.Long))
	cmd.Env = append(os.Environ(), childFile+"="+file)
	return cmd
}

// The writes of a worker, which repeats them in this order.
const (
	insertStep = iota // three symbols
	renameStep        // the folder
	rotateStep        // the key
	putStep           // the export
	deleteStep        // the first of the three symbols
	steps
)

// worker writes to a folder, a key and an export that no other worker uses. The
// written values contain the number of the write, counted from 0.
type worker struct {
	db          *sqlite.DB
	source      string
	folder, key int64 // ids
	first       int64 // id of a symbol
}

func newWorker(ctx context.Context, db *sqlite.DB) (*worker, error) {
	w := &worker{db: db, source: fmt.Sprintf("%016x", rand.Uint64())}
	folder, err := db.Symbols().InsertFolder(ctx, symbols.Folder{Name: w.text(-1)})
	if err != nil {
		return nil, err
	}
	key, err := db.Keys().Insert(ctx, keys.Key{Digest: w.digest(-1), CreatedAt: time.Now(), UpdatedAt: time.Now()})
	w.folder, w.key = folder.ID, key.ID
	return w, err
}

// text and digest are the values that write n stores.
func (w *worker) text(n int) string        { return fmt.Sprint(w.source, " ", n) }
func (w *worker) digest(n int) keys.Digest { return sha256.Sum256([]byte(w.text(n))) }

// write runs write n. It returns the assigned ids, or the new version of the
// folder.
func (w *worker) write(ctx context.Context, n int) (assigned []int64, err error) {
	switch n % steps {
	case insertStep:
		list := make([]symbols.Symbol, 3)
		for i := range list {
			list[i] = symbols.Symbol{Name: fmt.Sprint(n), Data: strings.Repeat("<svg/>", rand.N(2000))}
		}
		list, err = w.db.Symbols().InsertSymbols(ctx, w.folder, list)
		for _, symbol := range list {
			assigned = append(assigned, symbol.ID)
		}
		if err == nil {
			w.first = assigned[0]
		}
	case renameStep:
		var folder symbols.Folder
		folder, err = w.db.Symbols().UpdateFolder(ctx, w.folder, func(folder *symbols.Folder) error {
			folder.Name = w.text(n)
			return nil
		})
		assigned = []int64{int64(folder.Version)}
	case rotateStep:
		_, err = storagetest.UpdateKey(ctx, w.db.Keys(), w.key, func(key *keys.Key) error {
			key.Digest = w.digest(n)
			return nil
		})
	case putStep:
		_, _, err = w.db.Exports().Put(ctx, exports.Export{
			SourceURL: w.source, ExportedURL: w.text(n), CreatedAt: time.Now(), UpdatedAt: time.Now(),
		}, exports.PutRule{})
	case deleteStep:
		err = w.db.Symbols().DeleteSymbols(ctx, []int64{w.first}, symbols.Deletion{Match: symbols.Any})
	}
	return assigned, err
}

// expected describes the content of the storage after a number of writes.
func (w *worker) expected(writes int) string {
	folder, digest, export := w.text(-1), w.digest(-1), ""
	symbolCounts := make(map[string]int)
	for n := range writes {
		switch n % steps {
		case insertStep:
			symbolCounts[fmt.Sprint(n)] = 3
		case renameStep:
			folder = w.text(n)
		case rotateStep:
			digest = w.digest(n)
		case putStep:
			export = w.text(n)
		case deleteStep:
			symbolCounts[fmt.Sprint(n-deleteStep)]--
		}
	}
	return describe(folder, digest, export, symbolCounts)
}

// describe returns a text to compare contents of the storage by.
func describe(folder string, digest keys.Digest, export string, symbolCounts map[string]int) string {
	text := fmt.Sprintf("%s, %x, %s", folder, digest[:4], export)
	for _, name := range slices.Sorted(maps.Keys(symbolCounts)) {
		text += fmt.Sprintf(", %s: %d", name, symbolCounts[name])
	}
	return text
}

// actual describes the content of the storage. It also returns the version of
// the folder and the ids of its symbols.
func (w *worker) actual(t *testing.T, db *sqlite.DB) (text string, version symbols.Version, ids []int64) {
	t.Helper()
	ctx := t.Context()
	folder := must(db.Symbols().GetFolder(ctx, w.folder))(t)
	key := must(db.Keys().Get(ctx, w.key))(t)
	export := ""
	if found := must(db.Exports().Find(ctx, "", w.source))(t); len(found) == 1 {
		export = found[0].ExportedURL
	}
	symbolCounts := make(map[string]int)
	for _, symbol := range must(db.Symbols().ListSymbols(ctx, w.folder, symbols.Range{}, 1<<30, true))(t).Symbols {
		symbolCounts[symbol.Name]++
		ids = append(ids, symbol.ID)
	}
	return describe(folder.Name, key.Digest, export, symbolCounts), folder.Version, ids
}

// writeUntilKilled runs three workers, which print each acknowledged write.
func writeUntilKilled(t *testing.T, db *sqlite.DB) {
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			w, err := newWorker(t.Context(), db)
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Printf("worker %s %d %d\n", w.source, w.folder, w.key)
			for n := 0; ; n++ {
				assigned, err := w.write(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Println("write", w.source, n, assigned)
			}
		})
	}
	group.Wait()
}
