package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

var contextChecks = []check{
	{"methods return an error and change nothing if ctx has ended", contextEnded},
}

// call is a method call.
type call struct {
	method string
	do     func(context.Context) error
}

func contextEnded(t *testing.T, s Harness) {
	key := insertKey(t, s, "key")
	folder := insertFolder(t, s, "folder")
	symbol := insertSymbols(t, s, folder.ID, newSymbols("symbol")...)[0]
	fillTrash(t, s)
	export := putExport(t, s, newExport("export"))
	link := newLink("link", "x")
	if hasLinks(s) {
		insertLink(t, s, link, manyLinks)
		putFacts(t, s, newFact("fact"))
	}
	before := epoch(t, s)
	trash := listTrash(t, s.Symbols())

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, ctx := range []context.Context{canceled, expired} {
		for _, c := range allCalls(s, key, symbol, export) {
			err := c.do(ctx)
			if err == nil {
				t.Errorf("%s succeeds with ctx error %v", c.method, ctx.Err())
			}
			wantNoSentinel(t, c.method, err)
		}
		if _, err := s.Symbols().InsertSymbols(ctx, folder.ID, nil); err == nil {
			t.Errorf("symbols.InsertSymbols of nothing succeeds with ctx error %v", ctx.Err())
		}
		wantKey(t, s, key)
		wantFolders(t, s, folder)
		wantSymbols(t, s, folder.ID, symbol)
		wantFound(t, s, []string{"export", "new"}, export)
		if hasLinks(s) {
			wantLink(t, s, link)
			wantFacts(t, s, []string{"fact", "new"}, newFact("fact"))
		}
		wantEqual(t, "the epoch is", epoch(t, s), before)
		if got, err := s.Symbols().ListTrash(t.Context(), longAgo, symbols.Range{}); err != nil || !slices.Equal(got.Entries, trash.Entries) {
			t.Errorf("ListTrash returns %+v, %v, want %+v", got, err, trash)
		}
	}
	for _, c := range allCalls(s, key, symbol, export) {
		if err := c.do(t.Context()); err != nil {
			t.Errorf("%s with a valid context: %v", c.method, err)
		}
	}
}

// wantNoSentinel checks that err does not match a documented error, which a call
// without a result from the database must not return.
func wantNoSentinel(t testing.TB, method string, err error) {
	t.Helper()
	for _, sentinel := range []error{
		keys.ErrNotFound, exports.ErrNotFound, exports.ErrNotOwner, exports.ErrLinkNotFound,
		exports.ErrTaken, exports.ErrTooManyLinks,
		symbols.ErrFolderNotFound, symbols.ErrSymbolNotFound,
		symbols.ErrFolderNameTaken, symbols.ErrChanged,
	} {
		if errors.Is(err, sentinel) {
			t.Errorf("%s returns error %v although the database did not", method, err)
		}
	}
}

// firstOfTrash returns the id of an entry of the trash.
func firstOfTrash(ctx context.Context, store symbols.Store) (int64, error) {
	if ctx.Err() != nil { // it is for the call that gets the id
		ctx = context.Background()
	}
	page, err := store.ListTrash(ctx, longAgo, symbols.Range{Limit: 1})
	if err == nil && len(page.Entries) == 0 {
		err = errors.New("the trash is empty") // because an earlier call has failed
	}
	if err != nil {
		return 0, err
	}
	return page.Entries[0].ID, nil
}

// allCalls returns a call of each method that can fail. All of them succeed in
// this order.
func allCalls(s Storage, key keys.Key, symbol symbols.Symbol, export exports.Export) []call {
	k, y, e := s.Keys(), s.Symbols(), s.Exports()
	calls := []call{
		{"keys.Insert", func(ctx context.Context) error { _, err := k.Insert(ctx, newKey("new")); return err }},
		{"keys.Import", func(ctx context.Context) error { _, err := k.Import(ctx, []keys.Key{newKey("imported")}); return err }},
		{"keys.Get", func(ctx context.Context) error { _, err := k.Get(ctx, key.ID); return err }},
		{"keys.List", func(ctx context.Context) error { _, err := k.List(ctx, keys.Filter{}, keys.Range{}); return err }},
		{"keys.Update", func(ctx context.Context) error {
			_, err := UpdateKey(ctx, k, key.ID, func(key *keys.Key) error { key.Active = false; return nil })
			return err
		}},
		{"keys.Find", func(ctx context.Context) error { _, err := k.Find(ctx, key.Digest); return err }},
		{"keys.FindID", func(ctx context.Context) error { _, err := k.FindID(ctx, key.ID); return err }},
		{"keys.Touch", func(ctx context.Context) error { return k.Touch(ctx, []keys.Use{useOf(key, testTime)}, testTime) }},
		{"keys.Usage", func(ctx context.Context) error { _, err := k.Usage(ctx, []int64{key.ID}, nil, 0); return err }},
		{"keys.PruneUsage", func(ctx context.Context) error { _, err := k.PruneUsage(ctx, 1, 1); return err }},
		{"keys.Changes", func(ctx context.Context) error { _, err := k.Changes(ctx, 0); return err }},
		{"keys.Delete", func(ctx context.Context) error { _, err := DeleteKey(ctx, k, key.ID); return err }},

		{"symbols.ListFolders", func(ctx context.Context) error { _, err := y.ListFolders(ctx, symbols.Range{}); return err }},
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
			_, err := y.ListSymbols(ctx, symbol.FolderID, symbols.Range{}, unlimited, true)
			return err
		}},
		{"symbols.ListSymbolInfos", func(ctx context.Context) error {
			_, err := y.ListSymbolInfos(ctx, symbol.FolderID, symbols.Range{})
			return err
		}},
		{"symbols.ListSegments", func(ctx context.Context) error { _, err := y.ListSegments(ctx); return err }},
		{"symbols.ListSegment", func(ctx context.Context) error { _, err := y.ListSegment(ctx, 0); return err }},
		{"symbols.FindSymbolInfos", func(ctx context.Context) error {
			_, err := y.FindSymbolInfos(ctx, []int64{symbol.ID})
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
		{"symbols.ContentsVersion", func(ctx context.Context) error { _, err := y.ContentsVersion(ctx, symbol.FolderID); return err }},
		{"symbols.GetSymbolInfo", func(ctx context.Context) error { _, err := y.GetSymbolInfo(ctx, symbol.ID); return err }},
		{"symbols.UpdateSymbols", func(ctx context.Context) error {
			_, err := y.UpdateSymbols(ctx, []int64{symbol.ID}, restorer, func(info *symbols.SymbolInfo) error {
				info.Tags = newTags("altered")
				return nil
			})
			return err
		}},
		{"symbols.DeleteSymbols", func(ctx context.Context) error { return y.DeleteSymbols(ctx, []int64{symbol.ID}, deletion) }},
		{"symbols.DeleteFolder", func(ctx context.Context) error { return y.DeleteFolder(ctx, symbol.FolderID, deletion) }},
		{"symbols.ListTrash", func(ctx context.Context) error {
			_, err := y.ListTrash(ctx, longAgo, symbols.Range{})
			return err
		}},
		{"symbols.RestoreTrash", func(ctx context.Context) error {
			id, err := firstOfTrash(ctx, y)
			if err == nil {
				_, err = y.RestoreTrash(ctx, id, longAgo, restorer, toOwn)
			}
			return err
		}},
		{"symbols.DeleteTrash", func(ctx context.Context) error {
			id, err := firstOfTrash(ctx, y)
			if err == nil {
				err = y.DeleteTrash(ctx, id, longAgo)
			}
			return err
		}},
		{"symbols.PruneTrash", func(ctx context.Context) error { _, err := y.PruneTrash(ctx, longAgo, 1<<40); return err }},
		{"symbols.Changes", func(ctx context.Context) error { _, err := y.Changes(ctx, symbols.Position{}); return err }},
		{"symbols.AssignTenant", func(ctx context.Context) error { return y.Tenant("other").AssignTenant(ctx, "moved") }},

		{"exports.Put", func(ctx context.Context) error {
			_, _, err := e.Put(ctx, newExport("new"), exports.PutRule{})
			return err
		}},
		{"exports.Find", func(ctx context.Context) error { _, err := e.Find(ctx, "", "export"); return err }},
		{"exports.Get", func(ctx context.Context) error { _, err := e.Get(ctx, export.ID); return err }},
		{"exports.List", func(ctx context.Context) error {
			_, err := e.List(ctx, exports.Filter{}, exports.Range{Limit: 1})
			return err
		}},
		{"exports.List with a text", func(ctx context.Context) error {
			_, err := e.List(ctx, exports.Filter{Contains: export.SourceURL}, exports.Range{Limit: 1})
			return err
		}},
		{"exports.Delete", func(ctx context.Context) error { return e.Delete(ctx, export.ID) }},
		{"exports.AssignTenant", func(ctx context.Context) error { return e.AssignTenant(ctx, "", "moved") }},
	}
	l, ok := s.Exports().(exports.LinkStore)
	if !ok {
		return calls
	}
	return append(calls, []call{
		{"exports.InsertLink", func(ctx context.Context) error { return l.InsertLink(ctx, newLink("new", "x"), manyLinks) }},
		{"exports.FindLink", func(ctx context.Context) error { _, err := l.FindLink(ctx, digestOf("link"), true); return err }},
		{"exports.ReplacePlan", func(ctx context.Context) error {
			_, err := l.ReplacePlan(ctx, digestOf("link"), 1, []byte("new"))
			return err
		}},
		{"exports.AddServed", func(ctx context.Context) error { return l.AddServed(ctx, digestOf("link"), 1) }},
		{"exports.FindFacts", func(ctx context.Context) error { _, err := l.FindFacts(ctx, digestOf("fact")); return err }},
		{"exports.PutFacts", func(ctx context.Context) error {
			return l.PutFacts(ctx, []exports.Fact{newFact("new"), newFact("other")}, manyFacts)
		}},
	}...)
}

// concurrentCancels cancels calls at random times while others run, which must
// succeed.
func concurrentCancels(t *testing.T, handles []Storage) {
	const workers = 8 // every other one cancels its calls
	key := insertKey(t, handles[0], "key")
	folder, counted := insertFolder(t, handles[0], "folder"), insertFolder(t, handles[0], "counted")
	symbol := insertSymbols(t, handles[0], folder.ID, symbols.Symbol{Name: "symbol"})[0]
	export := putExport(t, handles[0], newExport("export"))
	if hasLinks(handles[0]) {
		insertLink(t, handles[0], newLink("link", "x"), manyLinks)
		putFacts(t, handles[0], newFact("fact"))
	}

	var succeeded, canceled, updated, inDoubt atomic.Int64
	stored := make([]map[string]bool, workers) // by pair of symbols: whether it is certain
	for _, err := range parallel(handles, workers, func(s Storage, worker int) error {
		stored[worker] = make(map[string]bool)
		for round := range iterations(60, 3000) {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if worker%2 == 0 {
				ctx, cancel = context.WithTimeout(ctx, 1<<rand.N(24)) // up to 8 ms
			}
			choice, pair := rand.N(8), fmt.Sprint(worker, ",", round)
			err := randomCall(s, key, symbol, counted.ID, choice, pair)(ctx)
			ended := ctx.Err() != nil
			cancel()
			switch {
			case err == nil:
				succeeded.Add(1)
			case ended:
				canceled.Add(1)
			default:
				return fmt.Errorf("call %d with a valid context: %w", choice, err)
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
	if succeeded.Load() == 0 || canceled.Load() == 0 {
		t.Errorf("%d calls succeeded and %d were canceled, want some of each", succeeded.Load(), canceled.Load())
	}

	got, err := handles[0].Symbols().GetSymbol(t.Context(), symbol.ID)
	must(t, err)
	if n := int64(len(got.Data)); n < updated.Load() || n > updated.Load()+inDoubt.Load() {
		t.Errorf("%d updates are stored, want %d and up to %d more", n, updated.Load(), inDoubt.Load())
	}
	found := make(map[string]int)
	for _, symbol := range listSymbols(t, handles[0], counted.ID) {
		found[strings.TrimRight(symbol.Name, "ab")]++
	}
	for _, pairs := range stored {
		for pair, certain := range pairs {
			if n := found[pair]; n != 2 && (certain || n != 0) {
				t.Errorf("%d symbols of a pair are stored, certain: %v", n, certain)
			}
		}
	}
	for i, s := range handles {
		wantVersions(t, s)
		if i == 0 {
			fillTrash(t, s)
			for _, c := range allCalls(s, key, symbol, export) {
				if err := c.do(t.Context()); err != nil {
					t.Errorf("%s with a valid context: %v", c.method, err)
				}
			}
		}
	}
}

// The choices of randomCall that the test counts.
const (
	callUpdate = iota // appends a character to the data of the symbol
	callInsert        // inserts a pair of symbols
)

// randomCall returns one of eight calls that can succeed at any time.
func randomCall(s Storage, key keys.Key, symbol symbols.Symbol, folderID int64, choice int, pair string) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		switch choice {
		case callUpdate:
			_, err = s.Symbols().UpdateSymbol(ctx, symbol.ID, func(symbol *symbols.Symbol) error {
				appendMark(&symbol.Data)
				return nil
			})
		case callInsert:
			_, err = s.Symbols().InsertSymbols(ctx, folderID, newSymbols(pair+"a", pair+"b"))
		case 2:
			_, err = UpdateKey(ctx, s.Keys(), key.ID, func(key *keys.Key) error {
				key.Active = !key.Active
				return nil
			})
		case 3:
			_, err = s.Keys().Find(ctx, key.Digest)
		case 4:
			_, err = s.Symbols().ListSymbols(ctx, folderID, symbols.Range{}, 1<<14, true)
		case 5:
			err = s.Keys().Touch(ctx, []keys.Use{useOf(key, time.Now())}, time.Now())
		case 6:
			_, err = s.Exports().Find(ctx, "", "export")
		case 7:
			_, _, err = s.Exports().Put(ctx, exports.Export{SourceURL: "export", CreatedAt: testTime, UpdatedAt: testTime}, exports.PutRule{})
		}
		return err
	}
}
