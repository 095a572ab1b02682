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
	"example.com/canvasback/symbols"
)

// childFile makes a run of the test binary the process that a test starts: it
// names the database file.
const childFile = "CANVASBACK_SQLITE_CHILD"

// child prepares a run of the test binary for the test that calls it.
func child(t *testing.T, file string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", fmt.Sprintf("-long=%v", storagetest.Long()))
	cmd.Env = append(os.Environ(), childFile+"="+file)
	return cmd
}

// The writes of a worker, in this order and over and over.
const (
	insertStep = iota // three symbols
	renameStep        // the folder
	rotateStep        // the key
	putStep           // the export
	deleteStep        // the first of the three symbols
	steps
)

// worker writes to a folder, a key and an export of its own. Its writes are
// numbered from 0, and the numbers show in what it writes.
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

// text and digest are what a write leaves behind.
func (w *worker) text(n int) string        { return fmt.Sprint(w.source, " ", n) }
func (w *worker) digest(n int) keys.Digest { return sha256.Sum256([]byte(w.text(n))) }

// write makes a write. It returns the ids or the version that it has drawn.
func (w *worker) write(ctx context.Context, n int) (drawn []int64, err error) {
	switch n % steps {
	case insertStep:
		list := make([]symbols.Symbol, 3)
		for i := range list {
			list[i] = symbols.Symbol{Name: fmt.Sprint(n), Data: strings.Repeat("<svg/>", rand.N(2000))}
		}
		list, err = w.db.Symbols().InsertSymbols(ctx, w.folder, list)
		for _, symbol := range list {
			drawn = append(drawn, symbol.ID)
		}
		if err == nil {
			w.first = drawn[0]
		}
	case renameStep:
		var folder symbols.Folder
		folder, err = w.db.Symbols().UpdateFolder(ctx, w.folder, func(folder *symbols.Folder) error {
			folder.Name = w.text(n)
			return nil
		})
		drawn = []int64{int64(folder.Version)}
	case rotateStep:
		_, err = w.db.Keys().Update(ctx, w.key, func(key *keys.Key) error {
			key.Digest = w.digest(n)
			return nil
		})
	case putStep:
		_, _, err = w.db.Exports().Put(ctx, exports.Export{
			SourceURL: w.source, ExportedURL: w.text(n), CreatedAt: time.Now(), UpdatedAt: time.Now(),
		})
	case deleteStep:
		err = w.db.Symbols().DeleteSymbol(ctx, w.first)
	}
	return drawn, err
}

// after is what the storage holds of the worker after so many writes, and held
// is what it does hold.
func (w *worker) after(writes int) string {
	folder, digest, export := w.text(-1), w.digest(-1), ""
	left := make(map[string]int)
	for n := range writes {
		switch n % steps {
		case insertStep:
			left[fmt.Sprint(n)] = 3
		case renameStep:
			folder = w.text(n)
		case rotateStep:
			digest = w.digest(n)
		case putStep:
			export = w.text(n)
		case deleteStep:
			left[fmt.Sprint(n-deleteStep)]--
		}
	}
	return describe(folder, digest, export, left)
}

func describe(folder string, digest keys.Digest, export string, left map[string]int) string {
	text := fmt.Sprintf("%s, %x, %s", folder, digest[:4], export)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		text += fmt.Sprintf(", %s: %d", name, left[name])
	}
	return text
}

func (w *worker) held(ctx context.Context, db *sqlite.DB) (text string, version symbols.Version, ids []int64, err error) {
	folder, err := db.Symbols().GetFolder(ctx, w.folder)
	if err != nil {
		return "", 0, nil, err
	}
	key, err := db.Keys().Get(ctx, w.key)
	if err != nil {
		return "", 0, nil, err
	}
	found, err := db.Exports().Find(ctx, w.source)
	if err != nil {
		return "", 0, nil, err
	}
	export := ""
	if len(found) == 1 {
		export = found[0].ExportedURL
	}
	page, err := db.Symbols().ListSymbols(ctx, w.folder, 0, 1<<40)
	if err != nil {
		return "", 0, nil, err
	}
	left := make(map[string]int)
	for _, symbol := range page.Symbols {
		left[symbol.Name]++
		ids = append(ids, symbol.ID)
	}
	return describe(folder.Name, key.Digest, export, left), folder.Version, ids, nil
}

// writeUntilKilled has some workers write, and tells what is acknowledged.
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
				drawn, err := w.write(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Println("write", w.source, n, drawn)
			}
		})
	}
	group.Wait()
}
