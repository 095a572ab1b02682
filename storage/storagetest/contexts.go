package storagetest

import (
	"context"
	"errors"
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
