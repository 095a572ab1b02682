package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

var contextPromises = []promise{
	{"no method does anything under a context that has ended", contextEnded},
}

// call is a call of one method.
type call struct {
	method string
	do     func(context.Context) error
}

func contextEnded(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	folder := insertFolder(t, s, "folder")
	symbol := insertSymbols(t, s, folder.ID, newSymbols("symbol")...)[0]
	export := putExport(t, s, newExport("export"))
	before := epoch(t, s)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		for _, c := range allCalls(s, key, symbol) {
			err := c.do(ctx)
			if err == nil {
				t.Errorf("%s under %v succeeds", c.method, ctx.Err())
			}
			wantNoFact(t, c.method, err)
		}
		wantKey(t, s, key)
		wantFolders(t, s, folder)
		wantSymbols(t, s, folder.ID, symbol)
		wantFound(t, s, []string{"export", "new"}, export)
		if after := epoch(t, s); after != before {
			t.Errorf("the epoch went from %d to %d", before, after)
		}
	}
	for _, c := range allCalls(s, key, symbol) {
		if err := c.do(t.Context()); err != nil {
			t.Errorf("%s afterwards: %v", c.method, err)
		}
	}
}

// wantNoFact reports an error that tells what a call that was kept from the
// storage cannot know.
func wantNoFact(t testing.TB, method string, err error) {
	t.Helper()
	for _, fact := range []error{
		keys.ErrNotFound, exports.ErrNotFound,
		symbols.ErrFolderNotFound, symbols.ErrSymbolNotFound,
		symbols.ErrFolderNameTaken, symbols.ErrChanged,
	} {
		if errors.Is(err, fact) {
			t.Errorf("%s tells what it cannot know: %v", method, err)
		}
	}
}

// allCalls are a call of each method that may fail. In this order all of them
// succeed.
func allCalls(s Storage, key keys.Key, symbol symbols.Symbol) []call {
	k, y, e := s.Keys(), s.Symbols(), s.Exports()
	return []call{
		{"keys.Insert", func(ctx context.Context) error { _, err := k.Insert(ctx, newKey("new")); return err }},
		{"keys.Get", func(ctx context.Context) error { _, err := k.Get(ctx, key.ID); return err }},
		{"keys.List", func(ctx context.Context) error { _, err := k.List(ctx); return err }},
		{"keys.Update", func(ctx context.Context) error {
			_, err := k.Update(ctx, key.ID, func(key *keys.Key) error { key.Active = false; return nil })
			return err
		}},
		{"keys.Find", func(ctx context.Context) error { _, err := k.Find(ctx, key.Digest); return err }},
		{"keys.Touch", func(ctx context.Context) error { return k.Touch(ctx, []keys.Use{{ID: key.ID, At: noon}}) }},
		{"keys.Epoch", func(ctx context.Context) error { _, err := k.Epoch(ctx); return err }},
		{"keys.Delete", func(ctx context.Context) error { return k.Delete(ctx, key.ID) }},

		{"symbols.ListFolders", func(ctx context.Context) error { _, err := y.ListFolders(ctx); return err }},
		{"symbols.GetFolder", func(ctx context.Context) error { _, err := y.GetFolder(ctx, symbol.FolderID); return err }},
		{"symbols.InsertFolder", func(ctx context.Context) error {
			_, err := y.InsertFolder(ctx, symbols.Folder{Name: "new"})
			return err
		}},
		{"symbols.UpdateFolder", func(ctx context.Context) error {
			_, err := y.UpdateFolder(ctx, symbol.FolderID, func(folder *symbols.Folder) error {
				folder.Name = "altered"
				return nil
			})
			return err
		}},
		{"symbols.ListSymbols", func(ctx context.Context) error {
			_, err := y.ListSymbols(ctx, symbol.FolderID, 0, wholeFolder)
			return err
		}},
		{"symbols.GetSymbol", func(ctx context.Context) error { _, err := y.GetSymbol(ctx, symbol.ID); return err }},
		{"symbols.InsertSymbols", func(ctx context.Context) error {
			_, err := y.InsertSymbols(ctx, symbol.FolderID, newSymbols("new"))
			return err
		}},
		{"symbols.UpdateSymbol", func(ctx context.Context) error {
			_, err := y.UpdateSymbol(ctx, symbol.ID, func(symbol *symbols.Symbol) error {
				symbol.Name = "altered"
				return nil
			})
			return err
		}},
		{"symbols.FolderListVersion", func(ctx context.Context) error { _, err := y.FolderListVersion(ctx); return err }},
		{"symbols.FolderVersion", func(ctx context.Context) error { _, err := y.FolderVersion(ctx, symbol.FolderID); return err }},
		{"symbols.ContentsVersion", func(ctx context.Context) error { _, err := y.ContentsVersion(ctx, symbol.FolderID); return err }},
		{"symbols.SymbolVersion", func(ctx context.Context) error { _, err := y.SymbolVersion(ctx, symbol.ID); return err }},
		{"symbols.DeleteSymbol", func(ctx context.Context) error { return y.DeleteSymbol(ctx, symbol.ID) }},
		{"symbols.DeleteFolder", func(ctx context.Context) error { return y.DeleteFolder(ctx, symbol.FolderID) }},

		{"exports.Put", func(ctx context.Context) error { _, _, err := e.Put(ctx, newExport("new")); return err }},
		{"exports.Find", func(ctx context.Context) error { _, err := e.Find(ctx, "export"); return err }},
		{"exports.Delete", func(ctx context.Context) error { return e.Delete(ctx, "export") }},
	}
}

// raceContexts breaks off calls at random instants, among others that must not
// feel it.
func raceContexts(t *testing.T, handles []Storage) {
	const workers = 8 // the contexts of every other one end
	key := insertKey(t, handles[0], "key")
	folder, counted := insertFolder(t, handles[0], "folder"), insertFolder(t, handles[0], "counted")
	symbol := insertSymbols(t, handles[0], folder.ID, symbols.Symbol{Name: "symbol"})[0]
	putExport(t, handles[0], newExport("export"))

	var succeeded, brokenOff, updated, inDoubt atomic.Int64
	stored := make([]map[string]bool, workers) // pairs of symbols: false is in doubt
	for _, err := range together(handles, workers, func(s Storage, worker int) error {
		stored[worker] = make(map[string]bool)
		for round := range rounds(60, 3000) {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if worker%2 == 0 {
				ctx, cancel = context.WithTimeout(ctx, 1<<rand.N(24)) // up to 8 ms
			}
			choice, pair := rand.N(8), fmt.Sprint(worker, ",", round)
			err := anyCall(s, key, symbol, counted.ID, choice, pair)(ctx)
			ended := ctx.Err() != nil
			cancel()
			switch {
			case err == nil:
				succeeded.Add(1)
			case ended:
				brokenOff.Add(1)
			default:
				return fmt.Errorf("call %d under a context that has not ended: %w", choice, err)
			}
			switch {
			case choice == callInsert:
				stored[worker][pair] = err == nil
			case choice == callUpdate && err == nil:
				updated.Add(1)
			case choice == callUpdate:
				inDoubt.Add(1)
			}
		}
		return nil
	}) {
		must(t, err)
	}
	if succeeded.Load() == 0 || brokenOff.Load() == 0 {
		t.Errorf("%d calls succeeded and %d were broken off", succeeded.Load(), brokenOff.Load())
	}

	got, err := handles[0].Symbols().GetSymbol(t.Context(), symbol.ID)
	must(t, err)
	if n := int64(len(got.Data)); n < updated.Load() || n > updated.Load()+inDoubt.Load() {
		t.Errorf("of %d updates and %d in doubt %d are stored", updated.Load(), inDoubt.Load(), n)
	}
	page, err := handles[0].Symbols().ListSymbols(t.Context(), counted.ID, 0, wholeFolder)
	must(t, err)
	found := make(map[string]int)
	for _, symbol := range page.Symbols {
		found[strings.TrimRight(symbol.Name, "ab")]++
	}
	for _, pairs := range stored {
		for pair, certain := range pairs {
			if n := found[pair]; n != 2 && (certain || n != 0) {
				t.Errorf("of a pair of symbols %d are stored, certain: %v", n, certain)
			}
		}
	}
	for i, s := range handles {
		wantVersions(t, s)
		if i == 0 {
			for _, c := range allCalls(s, key, symbol) {
				if err := c.do(t.Context()); err != nil {
					t.Errorf("%s afterwards: %v", c.method, err)
				}
			}
		}
	}
}

// Choices of anyCall.
const (
	callUpdate = iota // adds a character to the data of the symbol
	callInsert        // inserts a pair of symbols
)

// anyCall is one of some calls that succeed at any time.
func anyCall(s Storage, key keys.Key, symbol symbols.Symbol, folderID int64, choice int, pair string) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		switch choice {
		case callUpdate:
			_, err = s.Symbols().UpdateSymbol(ctx, symbol.ID, func(symbol *symbols.Symbol) error {
				appendTo(&symbol.Data)
				return nil
			})
		case callInsert:
			_, err = s.Symbols().InsertSymbols(ctx, folderID, newSymbols(pair+"a", pair+"b"))
		case 2:
			_, err = s.Keys().Update(ctx, key.ID, func(key *keys.Key) error {
				key.Active = !key.Active
				return nil
			})
		case 3:
			_, err = s.Keys().Find(ctx, key.Digest)
		case 4:
			_, err = s.Symbols().ListSymbols(ctx, folderID, 0, 1<<14)
		case 5:
			err = s.Keys().Touch(ctx, []keys.Use{{ID: key.ID, At: time.Now()}})
		case 6:
			_, err = s.Exports().Find(ctx, "export")
		case 7:
			_, _, err = s.Exports().Put(ctx, exports.Export{SourceURL: "export", CreatedAt: noon, UpdatedAt: noon})
		}
		return err
	}
}
