package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fact is one thing that a storage holds: what it was told, and what it has
// drawn itself, be it an id, a version or the epoch.
type fact struct{ told, drawn string }

// state is all that a storage holds, by names.
type state map[string]fact

// add adds a fact. What should be there once may be there twice.
func (s state) add(name string, f fact) {
	for _, taken := s[name]; taken; _, taken = s[name] {
		name += " again"
	}
	s[name] = f
}

// stateOf reads a storage. It finds the exports of the sources given.
func stateOf(t testing.TB, s Storage, sources ...string) state {
	t.Helper()
	all := make(state)
	all.add("epoch", fact{drawn: fmt.Sprint(epoch(t, s))})
	keys, err := s.Keys().List(t.Context())
	must(t, err)
	for _, key := range keys {
		id := key.ID
		key.ID = 0
		all.add("key "+key.Name, fact{fmt.Sprint(key), fmt.Sprint(id)})
	}
	list, err := s.Symbols().ListFolders(t.Context())
	must(t, err)
	all.add("folders", fact{drawn: fmt.Sprint(list.Version)})
	for _, folder := range list.Folders {
		page, err := s.Symbols().ListSymbols(t.Context(), folder.ID, 0, wholeFolder)
		must(t, err)
		all.add("folder "+folder.Name, fact{drawn: fmt.Sprint(folder.ID, folder.Version)})
		all.add("contents of "+folder.Name, fact{drawn: fmt.Sprint(page.Version)})
		for _, symbol := range page.Symbols {
			all.add("symbol "+symbol.Name, fact{
				fmt.Sprint(symbol.Type, symbol.Data, folder.Name), fmt.Sprint(symbol.ID, symbol.Version),
			})
		}
	}
	found, err := s.Exports().Find(t.Context(), sources...)
	must(t, err)
	for _, export := range found {
		id := export.ID
		export.ID = 0
		all.add("export "+export.SourceURL, fact{fmt.Sprint(export), fmt.Sprint(id)})
	}
	return all
}

// effect is what has happened between two states, without what was drawn. It
// is empty if that is nothing.
func effect(before, after state) string {
	var lines []string
	for name, is := range after {
		was, ok := before[name]
		switch {
		case !ok:
			lines = append(lines, fmt.Sprintf("%s is new: %s", name, is.told))
		case was.told != is.told:
			lines = append(lines, fmt.Sprintf("%s is now: %s, drawn anew: %v", name, is.told, was.drawn != is.drawn))
		case was != is:
			lines = append(lines, name+" is drawn anew")
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			lines = append(lines, name+" is gone")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
