package drivertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/symbols"
)

// TestSearch_FollowsOtherProcess changes symbols in one of two processes, and compares what a
// search of the other one returns with what the store has.
func TestSearch_FollowsOtherProcess(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is, ctx := is.New(t), t.Context()
		stores := []symbols.Store{db.migrated().Symbols(), db.connect().Symbols()}
		var processes []*symbols.Service
		for _, store := range stores {
			processes = append(processes, must(symbols.NewService(store, nil))(t))
		}
		var folders [2]int64
		var ids []int64
		for i := range folders {
			folders[i] = must(processes[0].CreateFolder(ctx, fmt.Sprint("folder ", i)))(t).ID
		}
		query := must(symbols.ParseQuery("valve"))(t)
		for range 300 {
			writer := rand.IntN(2)
			s, other := processes[writer], processes[1-writer]
			text := fmt.Sprint([]string{"valve", "pump"}[rand.IntN(2)], rand.IntN(100))
			n := rand.IntN(len(ids) + 1)
			if n == len(ids) {
				symbol := must(s.CreateSymbol(ctx, folders[0], symbols.NewSymbol{Name: text, Type: "a/b", Data: "x"}))(t)
				ids = append(ids, symbol.ID)
			} else if change := rand.IntN(6); change == 5 {
				is.NoErr(s.DeleteSymbol(ctx, ids[n], symbols.Any, 0))
				ids = slices.Delete(ids, n, n+1)
			} else {
				tags := must(symbols.NewTags(text))(t)
				_, err := s.UpdateSymbol(ctx, ids[n], []symbols.SymbolFields{
					{Name: &text}, {Type: new("b/" + text)}, {Data: &text}, {FolderID: &folders[rand.IntN(2)]}, {Tags: &tags},
				}[change], symbols.Any)
				is.NoErr(err)
			}
			page := must(other.Search(ctx, query, symbols.Range{}))(t)
			var want []symbols.SymbolInfo
			for _, info := range must(stores[writer].FindSymbolInfos(ctx, ids))(t) {
				if query.Matches(info.Name, info.Tags) {
					want = append(want, info)
				}
			}
			slices.SortFunc(want, func(a, b symbols.SymbolInfo) int { return int(a.ID - b.ID) })
			is.Equal(page.Symbols, want)
		}
	})
}

// TestSearch_FollowsTenantOfFolder changes the tenant of a folder without the store.
func TestSearch_FollowsTenantOfFolder(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is, ctx := is.New(t), t.Context()
		all := must(symbols.NewService(db.migrated().Symbols(), nil))(t)
		query := must(symbols.ParseQuery("valve"))(t)
		found := func(tenant string) int {
			return len(must(all.Tenant(tenant).Search(ctx, query, symbols.Range{}))(t).Symbols)
		}
		folder := must(all.Tenant("a").CreateFolder(ctx, "folder"))(t)
		must(all.Tenant("a").CreateSymbol(ctx, folder.ID, symbols.NewSymbol{Name: "valve", Type: "a/b", Data: "x"}))(t)
		is.Equal([]int{found("a"), found("b")}, []int{1, 0})
		db.execute(`UPDATE canvasback_folders SET tenant = 'b'`)
		is.Equal([]int{found("a"), found("b")}, []int{0, 1})
	})
}

// TestUpdate_FollowsMovedSymbol moves a symbol out of its folder, and deletes the folder,
// between the read of the symbol and the lock of the folder.
func TestUpdate_FollowsMovedSymbol(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is, ctx := is.New(t), t.Context()
		store, other := db.migrated().Symbols(), db.connect().Symbols()
		s := must(symbols.NewService(other, nil))(t)
		for name, update := range map[string]func(id int64, meanwhile func()) error{
			"one": func(id int64, meanwhile func()) error {
				return errorOf(store.UpdateSymbol(ctx, id, func(symbol *symbols.Symbol) error {
					meanwhile()
					symbol.Name = "new"
					return nil
				}))
			},
			"many": func(id int64, meanwhile func()) error {
				_, err := store.UpdateSymbols(ctx, []int64{id}, symbols.Stamp{}, func(info *symbols.SymbolInfo) error {
					meanwhile()
					info.Tags = must(symbols.NewTags("new"))(t)
					return nil
				})
				return err
			},
		} {
			from, to := must(s.CreateFolder(ctx, "from "+name))(t), must(s.CreateFolder(ctx, "to "+name))(t)
			symbol := must(s.CreateSymbol(ctx, from.ID, symbols.NewSymbol{Name: "old", Type: "a/b", Data: "x"}))(t)
			is.NoErr(update(symbol.ID, sync.OnceFunc(func() {
				must(s.UpdateSymbol(ctx, symbol.ID, symbols.SymbolFields{FolderID: &to.ID}, symbols.Any))(t)
				is.NoErr(s.DeleteFolder(ctx, from.ID, symbols.Any, 0))
			})))
			is.Equal(must(s.GetSymbol(ctx, symbol.ID))(t).FolderID, to.ID)
		}
	})
}

// Statements run by hand change the versions of what they change, and no others.
func TestVersions_FollowManualStatements(t *testing.T) {
	runEach(t, func(t *testing.T, db *database) {
		is, ctx, store := is.New(t), t.Context(), db.migrated().Symbols()
		folder := must(store.InsertFolder(ctx, symbols.Folder{Name: "folder"}))(t)
		must(store.InsertSymbols(ctx, folder.ID, []symbols.Symbol{{Name: "a"}, {Name: "b"}}))(t)
		state := func() (versions [4]symbols.Version) {
			is.Helper()
			var errs [4]error
			versions[0], errs[0] = store.FolderListVersion(ctx)
			folder, err := store.GetFolder(ctx, folder.ID)
			versions[1], errs[1] = folder.Version, err
			versions[2], errs[2] = store.ContentsVersion(ctx, folder.ID)
			info, err := store.GetSymbolInfo(ctx, 1)
			versions[3], errs[3] = info.Version, err
			is.Equal(errs, [4]error{})
			return versions
		}
		for _, test := range []struct {
			statement string
			changed   [4]bool // folder list, folder, contents, symbol
		}{
			{`UPDATE canvasback_folders SET name = name`, [4]bool{}},
			{`UPDATE canvasback_folders SET name = upper(name)`, [4]bool{0: true, 1: true}},
			{`INSERT INTO canvasback_folders (name) VALUES ('another')`, [4]bool{0: true}},
			{`UPDATE canvasback_symbols SET name = 'renamed' WHERE id = 1`, [4]bool{2: true, 3: true}},
			{`UPDATE canvasback_symbols SET folder_id = 2 WHERE id = 1`, [4]bool{2: true, 3: true}},
			{`UPDATE canvasback_symbols SET folder_id = 1 WHERE id = 1`, [4]bool{2: true, 3: true}},
			{`DELETE FROM canvasback_symbols WHERE id = 2`, [4]bool{2: true}},
			{`DELETE FROM canvasback_folders WHERE id = 2`, [4]bool{0: true}},
		} {
			before := state()
			db.execute(test.statement)
			after := state()
			for i := range before {
				if (after[i] != before[i]) != test.changed[i] {
					t.Errorf("%s: version %d changed: %v", test.statement, i, !test.changed[i])
				}
			}
		}
	})
}
