package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// record is a record of a storage: the fields that the test has set, and those
// that the storage has generated (id, version, epoch).
type record struct{ given, generated string }

// snapshot is the content of a storage by name.
type snapshot map[string]record

// add adds a record. It changes the name if that is taken, because a faulty
// storage may contain duplicates.
func (s snapshot) add(name string, r record) {
	for _, taken := s[name]; taken; _, taken = s[name] {
		name += " (duplicate)"
	}
	s[name] = r
}

// takeSnapshot reads a storage.
func takeSnapshot(t testing.TB, s Storage) snapshot {
	t.Helper()
	all := make(snapshot)
	all.add("epoch", record{generated: fmt.Sprint(epoch(t, s))})
	keyPage := listKeys(t, s)
	for _, key := range keyPage.Keys {
		id := key.ID
		key.ID = 0
		all.add("key "+key.Name, record{fmt.Sprint(key, printable([]keys.Digest{key.Digest, key.PreviousDigest})), fmt.Sprint(id)})
	}
	list := listFolders(t, s.Symbols())
	all.add("folders", record{generated: fmt.Sprint(list.Version)})
	for _, folder := range list.Folders {
		page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, symbols.Range{}, unlimited, true)
		must(t, err)
		all.add("folder "+folder.Name, record{generated: fmt.Sprint(folder.ID, folder.Version)})
		all.add("contents of "+folder.Name, record{generated: fmt.Sprint(page.Version)})
		for _, symbol := range listSymbols(t, s, folder.ID) {
			all.add("symbol "+symbol.Name, record{
				fmt.Sprint(symbol.Type, symbol.Data, folder.Name), fmt.Sprint(symbol.ID, symbol.Version),
			})
		}
	}
	trash := listTrash(t, s.Symbols())
	for _, entry := range trash.Entries {
		all.add("trash "+entry.Name, record{
			fmt.Sprint(entry.Symbols, entry.DeletedAt, entry.DeletedBy), fmt.Sprint(entry.ID, entry.SymbolID, entry.FolderID),
		})
	}
	found, err := s.Exports().List(t.Context(), exports.Filter{}, exports.Range{})
	must(t, err)
	for _, export := range found.Exports {
		id := export.ID
		export.ID = 0
		all.add("export "+export.SourceURL, record{fmt.Sprint(export), fmt.Sprint(id)})
	}
	if !hasLinks(s) {
		return all
	}
	for _, token := range []string{"link", "new"} {
		link, err := linkStore(t, s).FindLink(t.Context(), digestOf(token), true)
		if !errors.Is(err, exports.ErrLinkNotFound) {
			must(t, err)
			all.add("link "+token, record{given: fmt.Sprintf("%d %d %q", link.Version, link.Served, link.Plan)})
		}
	}
	for _, url := range []string{"fact", "new", "other"} {
		facts, err := linkStore(t, s).FindFacts(t.Context(), digestOf(url))
		must(t, err)
		for _, fact := range facts {
			all.add("fact "+url, record{given: fact.Validator})
		}
	}
	return all
}

// diff describes the changes between two snapshots without generated values. It
// is empty if nothing has changed.
func diff(before, after snapshot) string {
	var lines []string
	for name, got := range after {
		previous, ok := before[name]
		switch {
		case !ok:
			lines = append(lines, fmt.Sprintf("%s added: %s", name, got.given))
		case previous.given != got.given:
			lines = append(lines, fmt.Sprintf("%s changed: %s, regenerated: %v", name, got.given, previous.generated != got.generated))
		case previous != got:
			lines = append(lines, name+" regenerated")
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			lines = append(lines, name+" removed")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
