package storagetest

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/symbols"
)

var tenantChecks = []check{
	{"records of a tenant do not exist for another", tenantRecords},
	{"a symbol does not move to the folder of another tenant", tenantMoves},
	{"folder names are unique for each tenant", tenantFolderNames},
	{"a change of a tenant changes no version of another", tenantVersions},
	{"folder lists of tenants have different versions", emptyTenantVersions},
	{"segments have the tenants of all symbols", tenantSegments},
	{"the trash of each tenant is pruned by itself", tenantPrune},
	{"AssignTenant moves folders and trash, or nothing", tenantAssign},
	{"AssignTenant moves a folder that is being restored", tenantMovesDuringRestore},
	{"sources are unique for each tenant", tenantSources},
	{"AssignTenant moves exports and links, or nothing", tenantAssignExports},
}

// tenants are those of the checks. Their order is that of no index.
var tenants = []string{"b", "", "a", "A", "ä\n"}

// tenantFolder inserts a folder of a tenant with a symbol.
func tenantFolder(t testing.TB, store symbols.Store, name string) (symbols.Folder, symbols.Symbol) {
	t.Helper()
	folder, err := store.InsertFolder(t.Context(), symbols.Folder{Name: name})
	must(t, err)
	list, err := store.InsertSymbols(t.Context(), folder.ID, newSymbols(name))
	must(t, err)
	return folder, list[0]
}

// symbolCalls are the calls of methods of a store with the id of a folder, symbol or entry of
// the trash.
func symbolCalls(store symbols.Store) map[string]func(ctx context.Context, id int64) (any, error) {
	none := func(err error) (any, error) { return nil, err }
	return map[string]func(ctx context.Context, id int64) (any, error){
		"GetFolder": func(ctx context.Context, id int64) (any, error) { return store.GetFolder(ctx, id) },
		"UpdateFolder": func(ctx context.Context, id int64) (any, error) {
			return store.UpdateFolder(ctx, id, func(f *symbols.Folder) error { f.Name = "changed"; return nil })
		},
		"DeleteFolder": func(ctx context.Context, id int64) (any, error) { return none(store.DeleteFolder(ctx, id, deletion)) },
		"ListSymbols": func(ctx context.Context, id int64) (any, error) {
			return store.ListSymbols(ctx, id, symbols.Range{}, unlimited, true)
		},
		"ListSymbolInfos": func(ctx context.Context, id int64) (any, error) {
			return store.ListSymbolInfos(ctx, id, symbols.Range{})
		},
		"FindSymbolInfos": func(ctx context.Context, id int64) (any, error) { return store.FindSymbolInfos(ctx, []int64{id}) },
		"GetSymbol":       func(ctx context.Context, id int64) (any, error) { return store.GetSymbol(ctx, id) },
		"GetSymbolInfo":   func(ctx context.Context, id int64) (any, error) { return store.GetSymbolInfo(ctx, id) },
		"InsertSymbols": func(ctx context.Context, id int64) (any, error) {
			_, one := store.InsertSymbols(ctx, id, newSymbols("x"))
			_, many := store.InsertSymbols(ctx, id, newSymbols("x", "y"))
			return sentinel(many), one
		},
		"UpdateSymbol": func(ctx context.Context, id int64) (any, error) {
			return store.UpdateSymbol(ctx, id, func(s *symbols.Symbol) error { s.Name = "changed"; return nil })
		},
		"UpdateSymbols": func(ctx context.Context, id int64) (any, error) {
			_, err := store.UpdateSymbols(ctx, []int64{id}, restorer, func(s *symbols.SymbolInfo) error { s.Tags = symbols.Tags{}; return nil })
			return nil, err
		},
		"DeleteSymbols": func(ctx context.Context, id int64) (any, error) {
			return none(store.DeleteSymbols(ctx, []int64{id}, deletion))
		},
		"RestoreTrash": func(ctx context.Context, id int64) (any, error) {
			return store.RestoreTrash(ctx, id, longAgo, restorer, toOwn)
		},
		"DeleteTrash":     func(ctx context.Context, id int64) (any, error) { return none(store.DeleteTrash(ctx, id, longAgo)) },
		"ContentsVersion": func(ctx context.Context, id int64) (any, error) { return store.ContentsVersion(ctx, id) },
		"ListFolders":     func(ctx context.Context, _ int64) (any, error) { return store.ListFolders(ctx, symbols.Range{}) },
		"ListTrash":       func(ctx context.Context, _ int64) (any, error) { return store.ListTrash(ctx, longAgo, symbols.Range{}) },
	}
}

// sentinel returns the documented error that err matches, or else err.
func sentinel(err error) error {
	for _, sentinel := range []error{symbols.ErrFolderNotFound, symbols.ErrSymbolNotFound, symbols.ErrTrashNotFound} {
		if errors.Is(err, sentinel) {
			return sentinel
		}
	}
	return err
}

func tenantRecords(t *testing.T, s Harness) {
	calls := symbolCalls(s.Symbols())
	other := []string{ // checked below
		"Tenant", "AssignTenant", "InsertFolder", "FolderListVersion", "ListSegments", "ListSegment", "PruneTrash", "Changes",
	}
	for method := range reflect.TypeFor[symbols.Store]().Methods() {
		if calls[method.Name] == nil && !slices.Contains(other, method.Name) {
			t.Errorf("no check calls %s", method.Name)
		}
	}
	owner := s.Symbols().Tenant("a").Tenant("owner")
	folder, symbol := tenantFolder(t, owner, "kept")
	deleted, _ := tenantFolder(t, owner, "deleted")
	must(t, owner.DeleteFolder(t.Context(), deleted.ID, deletion))
	trash := listTrash(t, owner)
	const missing = 1 << 40
	for _, tenant := range tenants {
		for name, call := range symbolCalls(s.Symbols().Tenant(tenant)) {
			want, wantErr := call(t.Context(), missing)
			for _, id := range []int64{folder.ID, symbol.ID, trash.Entries[0].ID} {
				got, gotErr := call(t.Context(), id)
				if !reflect.DeepEqual(got, want) || sentinel(gotErr) != sentinel(wantErr) {
					t.Errorf("%s as %q: got %v, %v; want %v, %v", name, tenant, got, gotErr, want, wantErr)
				}
			}
		}
	}
	got, err := owner.GetSymbol(t.Context(), symbol.ID)
	must(t, err)
	wantEqual(t, "the symbol is", got, symbol)
	if after, err := owner.ListTrash(t.Context(), longAgo, symbols.Range{}); err != nil || !reflect.DeepEqual(after, trash) {
		t.Errorf("the trash has become %+v, %v", after, err)
	}
}

func tenantMoves(t *testing.T, s Harness) {
	_, symbol := tenantFolder(t, s.Symbols(), "own")
	other, _ := tenantFolder(t, s.Symbols().Tenant("b"), "other")
	_, err := s.Symbols().UpdateSymbol(t.Context(), symbol.ID, func(s *symbols.Symbol) error { s.FolderID = other.ID; return nil })
	wantError(t, err, symbols.ErrFolderNotFound)
	_, err = s.Symbols().UpdateSymbols(t.Context(), []int64{symbol.ID}, restorer, func(s *symbols.SymbolInfo) error { s.FolderID = other.ID; return nil })
	wantError(t, err, symbols.ErrFolderNotFound)
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, deletion))
	entry := wantTrash(t, s, symbols.TrashEntry{SymbolID: symbol.ID, FolderID: symbol.FolderID, Name: symbol.Name})[0]
	_, err = s.Symbols().RestoreTrash(t.Context(), entry.ID, longAgo, restorer, func(symbols.TrashEntry) (int64, error) { return other.ID, nil })
	wantError(t, err, symbols.ErrFolderNotFound)
}

func tenantFolderNames(t *testing.T, s Harness) {
	for _, tenant := range tenants {
		store := s.Symbols().Tenant(tenant)
		folder, _ := tenantFolder(t, store, "Valves")
		_, err := store.InsertFolder(t.Context(), symbols.Folder{Name: "Valves"})
		wantError(t, err, symbols.ErrFolderNameTaken)
		second, err := store.InsertFolder(t.Context(), symbols.Folder{Name: "Pumps"})
		must(t, err)
		_, err = store.UpdateFolder(t.Context(), second.ID, func(f *symbols.Folder) error { f.Name = "Valves"; return nil })
		wantError(t, err, symbols.ErrFolderNameTaken)
		must(t, store.DeleteFolder(t.Context(), second.ID, deletion))
		must(t, restoreDeleted(t, store, 0, second.ID))
		got, err := store.GetFolder(t.Context(), folder.ID)
		must(t, err)
		page, err := store.ListFolders(t.Context(), symbols.Range{After: folder.ID - 1, Limit: 1})
		must(t, err)
		if got != folder || !page.More || len(page.Folders) != 1 || page.Folders[0] != folder {
			t.Errorf("tenant %q has %+v and the list %+v, want %+v", tenant, got, page, folder)
		}
	}
}

func tenantVersions(t *testing.T, s Harness) {
	versions := func() map[string]symbols.Version {
		list := make(map[string]symbols.Version)
		for _, tenant := range tenants {
			version, err := s.Symbols().Tenant(tenant).FolderListVersion(t.Context())
			must(t, err)
			page := listFolders(t, s.Symbols().Tenant(tenant))
			if list[tenant] = version; page.Version != version {
				t.Errorf("the list has version %d, want %d", page.Version, version)
			}
		}
		return list
	}
	before := versions()
	for _, tenant := range tenants {
		folder, _ := tenantFolder(t, s.Symbols().Tenant(tenant), "Valves")
		for i, change := range []func() error{
			func() error { return nil }, // the insertion
			func() error {
				_, err := s.Symbols().Tenant(tenant).UpdateFolder(t.Context(), folder.ID, func(f *symbols.Folder) error { f.Name = "Pumps"; return nil })
				return err
			},
			func() error { return s.Symbols().Tenant(tenant).DeleteFolder(t.Context(), folder.ID, deletion) },
		} {
			must(t, change())
			after := versions()
			for other := range after {
				if changed := after[other] != before[other]; changed != (other == tenant) {
					t.Errorf("change %d of the tenant %q: the version of %q has changed: %t", i, tenant, other, changed)
				}
			}
			before = after
		}
	}
	must(t, s.Symbols().Tenant("of nothing").AssignTenant(t.Context(), "b"))
	if after := versions(); !maps.Equal(after, before) {
		t.Errorf("AssignTenant of nothing changes the versions of lists from %v to %v", before, after)
	}
}

func tenantSegments(t *testing.T, s Harness) {
	want := make(map[int64]string)
	for _, tenant := range tenants {
		_, symbol := tenantFolder(t, s.Symbols().Tenant(tenant), "Valves")
		want[symbol.ID] = tenant
	}
	got := make(map[int64]string)
	for id := range want {
		list, err := s.Symbols().ListSegment(t.Context(), id/symbols.SegmentSize)
		must(t, err)
		for _, symbol := range list {
			got[symbol.ID] = symbol.Tenant
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the segments have %v, want %v", got, want)
	}
}

func tenantPrune(t *testing.T, s Harness) {
	for _, tenant := range tenants {
		folder, _ := tenantFolder(t, s.Symbols().Tenant(tenant), "Valves")
		must(t, s.Symbols().Tenant(tenant).DeleteFolder(t.Context(), folder.ID, deletion))
	}
	const size = 2*symbols.PageOverhead + 100 // more than one entry, less than two
	for _, tenant := range tenants {
		_, err := s.Symbols().Tenant(tenant).PruneTrash(t.Context(), longAgo, size)
		must(t, err)
	}
	for i, tenant := range tenants {
		_, err := s.Symbols().Tenant(tenant).PruneTrash(t.Context(), testTime, size)
		must(t, err)
		for j, other := range tenants {
			page := listTrash(t, s.Symbols().Tenant(other))
			if pruned := len(page.Entries) == 0; pruned != (j <= i) {
				t.Errorf("after pruning %q the trash of %q is empty: %t", tenant, other, pruned)
			}
		}
	}
}

func tenantAssign(t *testing.T, s Harness) {
	for _, to := range []string{"to", ""} {
		from, target := s.Symbols().Tenant("from"), s.Symbols().Tenant(to)
		folder, symbol := tenantFolder(t, from, "Valves"+to)
		deleted, _ := tenantFolder(t, from, "deleted"+to)
		must(t, from.DeleteFolder(t.Context(), deleted.ID, deletion))
		taken, _ := tenantFolder(t, target, "Valves"+to)
		another := s.Symbols().Tenant("another")
		stays, _ := tenantFolder(t, another, "Valves"+to)
		gone, _ := tenantFolder(t, another, "deleted"+to)
		must(t, another.DeleteFolder(t.Context(), gone.ID, deletion))
		before, err := target.FolderListVersion(t.Context())
		must(t, err)
		segments, err := target.ListSegments(t.Context())
		must(t, err)

		wantError(t, from.AssignTenant(t.Context(), to), symbols.ErrFolderNameTaken)
		if _, err := from.GetSymbol(t.Context(), symbol.ID); err != nil {
			t.Errorf("a failed AssignTenant has moved a symbol: %v", err)
		}
		wantEqual(t, "the number of entries that are left in the trash is", len(listTrash(t, from).Entries), 1)
		left, err := from.FolderListVersion(t.Context())
		must(t, err)
		_, err = target.UpdateFolder(t.Context(), taken.ID, func(f *symbols.Folder) error { f.Name = "Pumps" + to; return nil })
		must(t, err)
		must(t, from.AssignTenant(t.Context(), to))

		got, err := target.GetFolder(t.Context(), folder.ID)
		must(t, err)
		wantEqual(t, "the name of the folder is", got.Name, folder.Name)
		_, err = target.GetSymbol(t.Context(), symbol.ID)
		must(t, err)
		_, err = from.GetSymbol(t.Context(), symbol.ID)
		wantError(t, err, symbols.ErrSymbolNotFound)
		trash := listTrash(t, target)
		wantEqual(t, "the number of entries in the trash is", len(trash.Entries), 1)
		after, err := target.FolderListVersion(t.Context())
		must(t, err)
		now, err := target.ListSegments(t.Context())
		must(t, err)
		empty, err := from.FolderListVersion(t.Context())
		must(t, err)
		if after == before || empty == left || slices.Equal(now, segments) {
			t.Error("AssignTenant has not changed the versions")
		}
		_, err = another.GetFolder(t.Context(), stays.ID)
		must(t, err)
		must(t, restoreDeleted(t, another, 0, gone.ID))
		_, err = target.InsertFolder(t.Context(), symbols.Folder{Name: folder.Name})
		wantError(t, err, symbols.ErrFolderNameTaken)
		again, err := from.InsertFolder(t.Context(), symbols.Folder{Name: folder.Name})
		must(t, err)
		must(t, from.DeleteFolder(t.Context(), again.ID, symbols.Deletion{Match: symbols.Any, Final: true}))
	}
}

func tenantSources(t *testing.T, s Harness) {
	var all []exports.Export
	for _, tenant := range tenants {
		export := newExport("https://cad.example/a")
		export.Tenant, export.FileName = tenant, "of "+tenant
		all = append(all, putExport(t, s, export))
	}
	replaced := all[0]
	replaced.FileName = "replaced"
	got, created, err := s.Exports().Put(t.Context(), replaced, exports.PutRule{})
	must(t, err)
	if created || got != replaced {
		t.Errorf("Put returns %+v, %t; want %+v", got, created, replaced)
	}
	all[0] = replaced
	for i, tenant := range tenants {
		found, err := s.Exports().Find(t.Context(), tenant, all[i].SourceURL, "https://cad.example/b")
		must(t, err)
		page, err := s.Exports().List(t.Context(), exports.Filter{Contains: "example/a", Tenant: &tenant}, exports.Range{Limit: 1})
		must(t, err)
		one, err := s.Exports().Get(t.Context(), all[i].ID)
		must(t, err)
		if want := all[i : i+1]; !slices.Equal(found, want) || !slices.Equal(page.Exports, want) || page.More || one != want[0] {
			t.Errorf("tenant %q has %+v, %+v and %+v; want %+v", tenant, found, page.Exports, one, want)
		}
	}
	page, err := s.Exports().List(t.Context(), exports.Filter{}, exports.Range{})
	must(t, err)
	wantList(t, "all tenants have", page.Exports, all)
	page, err = s.Exports().List(t.Context(), exports.Filter{Contains: "0"}, exports.Range{})
	must(t, err)
	if len(page.Exports) > 0 { // in what a driver stores with a source
		t.Errorf("a search finds %+v, want none", page.Exports)
	}
}

func tenantAssignExports(t *testing.T, s Harness) {
	for _, to := range []string{"to", ""} {
		export := newExport("a" + to)
		export.Tenant = "from"
		export = putExport(t, s, export)
		second := newExport("c" + to)
		second.Tenant = "from"
		second = putExport(t, s, second)
		other := newExport("b" + to) // stays
		other.Tenant = to
		other = putExport(t, s, other)
		taken := newExport("a" + to)
		taken.Tenant = to
		taken = putExport(t, s, taken)
		link := newLink("token"+to, "owner")
		link.Tenant = "from"
		kept := newExport("a" + to)
		kept.Tenant = "another"
		kept = putExport(t, s, kept)
		stays := newLink("token of another tenant"+to, "owner")
		stays.Tenant = "another"
		if hasLinks(s) {
			insertLink(t, s, link, manyLinks)
			insertLink(t, s, stays, manyLinks)
		}
		wantError(t, s.Exports().AssignTenant(t.Context(), "from", to), exports.ErrTaken)
		if hasLinks(s) {
			wantLink(t, s, link)
		}
		for _, want := range []exports.Export{export, second} {
			got, err := s.Exports().Get(t.Context(), want.ID)
			must(t, err)
			wantEqual(t, "after a failed AssignTenant Get returns", got, want)
		}
		must(t, s.Exports().Delete(t.Context(), taken.ID))
		must(t, s.Exports().AssignTenant(t.Context(), "from", to))
		found, err := s.Exports().Find(t.Context(), "another", kept.SourceURL)
		must(t, err)
		wantList(t, "of another tenant Find returns", found, []exports.Export{kept})
		export.Tenant, second.Tenant, link.Tenant = to, to, to
		page, err := s.Exports().List(t.Context(), exports.Filter{Tenant: &to}, exports.Range{After: export.ID - 1})
		must(t, err)
		wantList(t, "List returns", page.Exports, []exports.Export{export, second, other})
		found, err = s.Exports().Find(t.Context(), to, export.SourceURL)
		must(t, err)
		wantList(t, "Find returns", found, []exports.Export{export})
		if found, err = s.Exports().Find(t.Context(), "from", export.SourceURL); err != nil || len(found) > 0 {
			t.Errorf("Find returns %+v, %v; want nothing", found, err)
		}
		if hasLinks(s) {
			wantLink(t, s, link)
			wantLink(t, s, stays)
		}
	}
}

// emptyTenantVersions checks the folder lists of tenants that never had a folder.
func emptyTenantVersions(t *testing.T, s Harness) {
	versions := make(map[symbols.Version]string)
	for _, tenant := range tenants {
		store := s.Symbols().Tenant(tenant)
		page := listFolders(t, store)
		version, err := store.FolderListVersion(t.Context())
		must(t, err)
		if other, taken := versions[version]; taken || version != page.Version {
			t.Errorf("the folder lists of %q and %q have the versions %d and %d", tenant, other, page.Version, version)
		}
		versions[version] = tenant
	}
}

// tenantMovesDuringRestore assigns what a tenant has while a folder of it is restored.
func tenantMovesDuringRestore(t *testing.T, s Harness) {
	from := s.Symbols().Tenant("a")
	folder, _ := tenantFolder(t, from, "Valves")
	must(t, from.DeleteFolder(t.Context(), folder.ID, deletion))
	trash := listTrash(t, from)
	assigned := make(chan error, 1)
	assign := sync.OnceFunc(func() {
		go func() { assigned <- from.AssignTenant(t.Context(), "b") }()
		time.Sleep(200 * time.Millisecond)
	})
	_, err := from.RestoreTrash(t.Context(), trash.Entries[0].ID, longAgo, restorer, func(entry symbols.TrashEntry) (int64, error) {
		assign()
		return entry.FolderID, nil
	})
	must(t, err)
	must(t, <-assigned)
	list := listFolders(t, from)
	if len(list.Folders) != 0 {
		t.Errorf("the tenant still has %v", list.Folders)
	}
	_, err = s.Symbols().Tenant("b").GetFolder(t.Context(), folder.ID)
	must(t, err)
}
