package storagetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/symbols"
)

var symbolChangeChecks = []check{
	{"Changes returns what has changed, with its tenant", changesOfTenants},
	{"Changes returns the lists of an assigned tenant", changesOfAssigned},
	{"Changes of another history returns only a position", changesOfHistory},
	{"Changes returns the contents of a restored folder", changesOfRestored},
	{"Changes misses none of concurrent writers", changesOfWriters},
}

// symbolsSince returns what has changed after a position, and the current position.
func symbolsSince(t testing.TB, s Storage, since symbols.Position) (list []symbols.Changed, now symbols.Position) {
	t.Helper()
	set, err := s.Symbols().Tenant("of nothing").Changes(t.Context(), since)
	must(t, err)
	if since.History != 0 && (set.History != since.History || set.Number < since.Number) {
		t.Fatalf("position %+v follows %+v", set.Position, since)
	}
	return set.Changed, set.Position
}

func changesOfTenants(t *testing.T, s Harness) {
	known := make(map[symbols.Changed]int64) // numbers of what was returned before
	for _, tenant := range []string{"", "b"} {
		store := s.Symbols().Tenant(tenant)
		folder, symbol := tenantFolder(t, store, "Valves")
		other, _ := tenantFolder(t, store, "Pumps")
		list := symbols.Changed{Tenant: tenant}
		contents, contents2 := symbols.Changed{Tenant: tenant, FolderID: folder.ID}, symbols.Changed{Tenant: tenant, FolderID: other.ID}
		update := func(change func(*symbols.Symbol)) error {
			_, err := store.UpdateSymbol(t.Context(), symbol.ID, func(s *symbols.Symbol) error { change(s); return nil })
			return err
		}
		updateMany := func(change func(*symbols.SymbolInfo)) error {
			_, err := store.UpdateSymbols(t.Context(), []int64{symbol.ID}, restorer, func(s *symbols.SymbolInfo) error { change(s); return nil })
			return err
		}
		for i, step := range []struct {
			change func() error
			want   []symbols.Changed
		}{
			{func() error { return nil }, nil},
			{func() error { _, err := store.InsertFolder(t.Context(), symbols.Folder{Name: "new"}); return err }, []symbols.Changed{list}},
			{func() error { _, err := store.InsertSymbols(t.Context(), folder.ID, newSymbols("a")); return err }, []symbols.Changed{contents}},
			{func() error { _, err := store.InsertSymbols(t.Context(), folder.ID, newSymbols("a", "b")); return err }, []symbols.Changed{contents}},
			{func() error { return update(func(s *symbols.Symbol) { s.Name = "changed" }) }, []symbols.Changed{contents}},
			{func() error { return update(func(s *symbols.Symbol) { s.Meta = `{"a":1}` }) }, []symbols.Changed{contents}},
			{func() error { return update(func(s *symbols.Symbol) { s.FolderID = other.ID }) }, []symbols.Changed{contents, contents2}},
			{func() error { return updateMany(func(s *symbols.SymbolInfo) { s.Tags = newTags("new") }) }, []symbols.Changed{contents2}},
			{func() error { return updateMany(func(s *symbols.SymbolInfo) { s.FolderID = folder.ID }) }, []symbols.Changed{contents, contents2}},
			{func() error { return store.DeleteSymbols(t.Context(), []int64{symbol.ID}, deletion) }, []symbols.Changed{contents}},
			{func() error { return restoreDeleted(t, store, symbol.ID, folder.ID) }, []symbols.Changed{contents}},
			{func() error {
				_, err := store.UpdateFolder(t.Context(), folder.ID, func(f *symbols.Folder) error { f.Name = "renamed"; return nil })
				return err
			}, []symbols.Changed{list}},
			{func() error { return store.DeleteFolder(t.Context(), other.ID, deletion) }, []symbols.Changed{list}},
			{func() error { return restoreDeleted(t, store, 0, other.ID) }, []symbols.Changed{list, contents2}},
		} {
			_, before := symbolsSince(t, s, symbols.Position{})
			must(t, step.change())
			got, _ := symbolsSince(t, s, before)
			var changed []symbols.Changed // what is not returned again
			for _, c := range got {
				number := c.Number
				if c.Number = 0; known[c] != number {
					changed = append(changed, c)
				}
				known[c] = number
			}
			for _, want := range step.want {
				if !slices.Contains(changed, want) {
					t.Errorf("change %d: got %+v, want %+v", i, changed, want)
				}
			}
			for _, c := range changed {
				isNew := c.FolderID > other.ID // of a folder that is new
				if !slices.Contains(step.want, c) && !isNew && i > 0 {
					t.Errorf("change %d: got %+v, want %+v", i, changed, step.want)
				}
			}
		}
	}
}

// changesOfAssigned checks that the lists of both tenants have changed.
func changesOfAssigned(t *testing.T, s Harness) {
	tenantFolder(t, s.Symbols().Tenant("from"), "Valves")
	tenantFolder(t, s.Symbols().Tenant("to"), "Pumps")
	_, before := symbolsSince(t, s, symbols.Position{})
	must(t, s.Symbols().Tenant("from").AssignTenant(t.Context(), "to"))
	changed, _ := symbolsSince(t, s, before)
	for _, tenant := range []string{"from", "to"} {
		if !slices.ContainsFunc(changed, func(c symbols.Changed) bool { return c.Tenant == tenant && c.FolderID == 0 }) {
			t.Errorf("got %+v without the list of %q", changed, tenant)
		}
	}
}

func changesOfHistory(t *testing.T, s Harness) {
	insertFolder(t, s, "Valves")
	_, now := symbolsSince(t, s, symbols.Position{})
	for _, since := range []symbols.Position{{}, {History: now.History + 1, Number: 1}, {Number: 1}, {History: now.History, Number: now.Number + 1<<40}} {
		set, err := s.Symbols().Changes(t.Context(), since)
		must(t, err)
		if len(set.Changed) > 0 || set.History != now.History || set.History == 0 {
			t.Errorf("since %+v: %+v", since, set)
		}
	}
}

// changesOfRestored has a folder that was emptied, deleted and restored since a position.
func changesOfRestored(t *testing.T, s Harness) {
	folder, symbol := tenantFolder(t, s.Symbols(), "Valves")
	_, before := symbolsSince(t, s, symbols.Position{})
	must(t, s.Symbols().DeleteSymbols(t.Context(), []int64{symbol.ID}, deletion))
	must(t, s.Symbols().DeleteFolder(t.Context(), folder.ID, deletion))
	page, err := s.Symbols().ListTrash(t.Context(), time.Time{}, symbols.Range{})
	must(t, err)
	_, err = s.Symbols().RestoreTrash(t.Context(), page.Entries[len(page.Entries)-1].ID, time.Time{}, symbols.Stamp{},
		func(entry symbols.TrashEntry) (int64, error) { return entry.FolderID, nil })
	must(t, err)
	changed, _ := symbolsSince(t, s, before)
	if !slices.ContainsFunc(changed, func(c symbols.Changed) bool { return c.FolderID == folder.ID }) {
		t.Errorf("got %+v without the contents of folder %d", changed, folder.ID)
	}
}

// changesOfWriters reads the versions of what has changed while several connections write.
// In the end it has those of all folders.
func changesOfWriters(t *testing.T, s Harness) {
	const writers, count = 4, 25
	var folders []symbols.Folder
	for _, name := range []string{"a", "b", "c"} {
		folders = append(folders, insertFolder(t, s, name))
	}
	_, position := symbolsSince(t, s, symbols.Position{})
	versions := make(map[int64]symbols.Version)
	read := func() {
		changed, now := symbolsSince(t, s, position)
		position = now
		for _, c := range changed {
			if c.FolderID == 0 {
				continue
			}
			var err error
			versions[c.FolderID], err = s.Symbols().ContentsVersion(t.Context(), c.FolderID)
			must(t, err)
		}
	}
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for j := range count {
				folder := folders[(i+j)%len(folders)]
				if _, err := s.Symbols().InsertSymbols(t.Context(), folder.ID, newSymbols("x", "y")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for end := false; !end; {
		select {
		case <-done:
			end = true
		default:
		}
		read()
	}
	for _, folder := range folders {
		version, err := s.Symbols().ContentsVersion(t.Context(), folder.ID)
		must(t, err)
		if versions[folder.ID] != version {
			t.Errorf("folder %d has version %d, the reader %d", folder.ID, version, versions[folder.ID])
		}
	}
}
