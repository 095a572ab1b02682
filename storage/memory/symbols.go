package memory

import (
	"cmp"
	"context"
	"hash/crc32"
	"maps"
	"slices"

	"example.com/canvasback/symbols"
)

type folder struct {
	symbols.Folder
	tenant    string
	symbolIDs []int64 // ascending
	contents  symbols.Version
	changed   int64 // see symbols.Changed
}

func (db *DB) add(f *folder, id int64) {
	f.symbolIDs = with(f.symbolIDs, id)
	db.changeContents(f)
}

func (db *DB) remove(f *folder, id int64) {
	f.symbolIDs = without(f.symbolIDs, id)
	db.changeContents(f)
}

func (db *DB) changeContents(f *folder) {
	db.position.Number++
	f.contents, f.changed = newVersion(), db.position.Number
}

func (db *DB) putSymbol(symbol symbols.Symbol) {
	db.symbols[symbol.ID] = symbol
	db.segments[symbol.ID/symbols.SegmentSize] = newVersion()
}

func (db *DB) deleteSymbol(id int64) {
	delete(db.symbols, id)
	db.segments[id/symbols.SegmentSize] = newVersion()
}

// folderName is what is unique for a folder.
type folderName struct{ tenant, name string }

// symbolStore is the store of a tenant.
type symbolStore struct {
	db     *DB
	tenant string
}

func (s symbolStore) Tenant(tenant string) symbols.Store {
	s.tenant = tenant
	return s
}

// folder returns a folder of the tenant. It is not nil if there is none.
func (s symbolStore) folder(id int64) (*folder, error) {
	if f, ok := s.db.folders[id]; ok && f.tenant == s.tenant {
		return f, nil
	}
	return new(folder), symbols.ErrFolderNotFound
}

// symbol returns a symbol of the tenant.
func (s symbolStore) symbol(id int64) (symbols.Symbol, error) {
	symbol, ok := s.db.symbols[id]
	if !ok || s.db.folders[symbol.FolderID].tenant != s.tenant {
		return symbols.Symbol{}, symbols.ErrSymbolNotFound
	}
	return symbol, nil
}

func (s symbolStore) changeList() {
	s.db.position.Number++
	s.db.listVersions[s.tenant], s.db.listChanges[s.tenant] = newVersion(), s.db.position.Number
}

func (s symbolStore) listVersion() symbols.Version {
	return cmp.Or(s.db.listVersions[s.tenant], s.db.emptyVersion^symbols.Version(crc32.ChecksumIEEE([]byte(s.tenant))))
}

func (s symbolStore) ListFolders(ctx context.Context, r symbols.Range) (symbols.FolderPage, error) {
	return read(ctx, s.db, func() (symbols.FolderPage, error) {
		list := symbols.FolderPage{Version: s.listVersion()}
		ids := slices.DeleteFunc(slices.Sorted(maps.Keys(s.db.folders)), func(id int64) bool { return s.db.folders[id].tenant != s.tenant })
		ids, list.More = inRange(ids, r.After, r.Limit)
		for _, id := range ids {
			list.Folders = append(list.Folders, s.db.folders[id].Folder)
		}
		return list, nil
	})
}

func (s symbolStore) GetFolder(ctx context.Context, id int64) (symbols.Folder, error) {
	return read(ctx, s.db, func() (symbols.Folder, error) {
		f, err := s.folder(id)
		return f.Folder, err
	})
}

func (s symbolStore) InsertFolder(ctx context.Context, given symbols.Folder) (symbols.Folder, error) {
	return write(ctx, s.db, func() (symbols.Folder, error) {
		if _, taken := s.db.folderNames[folderName{s.tenant, given.Name}]; taken {
			return symbols.Folder{}, symbols.ErrFolderNameTaken
		}
		s.db.lastFolderID++
		return s.putFolder(s.db.lastFolderID, given.Name), nil
	})
}

func (s symbolStore) putFolder(id int64, name string) symbols.Folder {
	f := &folder{Folder: symbols.Folder{ID: id, Name: name, Version: newVersion()}, tenant: s.tenant}
	s.db.folders[id] = f
	s.db.folderNames[folderName{s.tenant, name}] = id
	s.changeList()
	s.db.changeContents(f) // a restored one may have had others
	return f.Folder
}

func (s symbolStore) UpdateFolder(ctx context.Context, id int64, change func(*symbols.Folder) error) (symbols.Folder, error) {
	return write(ctx, s.db, func() (symbols.Folder, error) {
		f, err := s.folder(id)
		if err != nil {
			return symbols.Folder{}, err
		}
		changed := f.Folder
		if err := change(&changed); err != nil {
			return symbols.Folder{}, err
		}
		if changed.Name == f.Name {
			return f.Folder, nil
		}
		if _, taken := s.db.folderNames[folderName{s.tenant, changed.Name}]; taken {
			return symbols.Folder{}, symbols.ErrFolderNameTaken
		}
		delete(s.db.folderNames, folderName{s.tenant, f.Name})
		s.db.folderNames[folderName{s.tenant, changed.Name}] = id
		f.Name = changed.Name
		f.Version = newVersion()
		s.changeList()
		return f.Folder, nil
	})
}

func (s symbolStore) DeleteFolder(ctx context.Context, id int64, d symbols.Deletion) error {
	return s.db.change(ctx, func() error {
		f, err := s.folder(id)
		if err != nil {
			return err
		}
		if !d.Match.Matches(f.Version) {
			return symbols.ErrChanged
		}
		var list []symbols.Symbol
		for _, symbolID := range f.symbolIDs {
			list = append(list, s.db.symbols[symbolID])
			s.db.deleteSymbol(symbolID)
		}
		s.discard(symbols.TrashEntry{FolderID: id, Name: f.Name, Symbols: int64(len(list))}, list, d)
		delete(s.db.folders, id)
		delete(s.db.folderNames, folderName{s.tenant, f.Name})
		s.changeList()
		return nil
	})
}

func (s symbolStore) ListSymbols(ctx context.Context, folderID int64, r symbols.Range, size int, details bool) (symbols.Page, error) {
	return read(ctx, s.db, func() (symbols.Page, error) {
		f, err := s.folder(folderID)
		if err != nil {
			return symbols.Page{}, err
		}
		size = max(size, 1) // a page has at least one symbol
		page := symbols.Page{Version: f.contents}
		ids, more := inRange(f.symbolIDs, r.After, r.Limit)
		for i, read := 0, 0; i < len(ids) && read < size; i++ {
			symbol := s.db.symbols[ids[i]]
			if !details {
				symbol = symbols.Symbol{
					ID: symbol.ID, Name: symbol.Name, Type: symbol.Type, Data: symbol.Data,
					FolderID: folderID, Version: symbol.Version,
				}
			}
			if len(symbol.Data) > symbols.LargeSize {
				symbol.Data = ""
			}
			page.Symbols = append(page.Symbols, symbol)
			read += len(symbol.Data) + len(symbol.Meta) + symbols.PageOverhead
		}
		page.More = more || len(page.Symbols) < len(ids)
		return page, nil
	})
}

func (s symbolStore) ListSymbolInfos(ctx context.Context, folderID int64, r symbols.Range) (symbols.InfoPage, error) {
	return read(ctx, s.db, func() (symbols.InfoPage, error) {
		f, err := s.folder(folderID)
		if err != nil {
			return symbols.InfoPage{}, err
		}
		ids, more := inRange(f.symbolIDs, r.After, r.Limit)
		page := symbols.InfoPage{Version: f.contents, More: more}
		for _, id := range ids {
			page.Symbols = append(page.Symbols, s.db.symbols[id].Info())
		}
		return page, nil
	})
}

func (s symbolStore) FindSymbolInfos(ctx context.Context, ids []int64) ([]symbols.SymbolInfo, error) {
	return read(ctx, s.db, func() ([]symbols.SymbolInfo, error) {
		var list []symbols.SymbolInfo
		for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
			if symbol, err := s.symbol(id); err == nil {
				list = append(list, symbol.Info())
			}
		}
		return list, nil
	})
}

func (s symbolStore) GetSymbol(ctx context.Context, id int64) (symbols.Symbol, error) {
	return read(ctx, s.db, func() (symbols.Symbol, error) { return s.symbol(id) })
}

func (s symbolStore) InsertSymbols(ctx context.Context, folderID int64, given []symbols.Symbol) ([]symbols.Symbol, error) {
	return write(ctx, s.db, func() ([]symbols.Symbol, error) {
		f, err := s.folder(folderID)
		if err != nil && len(given) > 0 {
			return nil, err
		}
		list := slices.Clone(given)
		for i := range list {
			s.db.lastSymbolID++
			list[i].ID, list[i].FolderID, list[i].Version = s.db.lastSymbolID, folderID, newVersion()
			s.db.putSymbol(list[i])
			s.db.add(f, list[i].ID)
		}
		return list, nil
	})
}

func (s symbolStore) UpdateSymbol(ctx context.Context, id int64, change func(*symbols.Symbol) error) (symbols.Symbol, error) {
	return write(ctx, s.db, func() (symbols.Symbol, error) {
		previous, err := s.symbol(id)
		if err != nil {
			return symbols.Symbol{}, err
		}
		symbol := previous
		if err := change(&symbol); err != nil {
			return symbols.Symbol{}, err
		}
		symbol.ID, symbol.Version, symbol.CreatedAt = previous.ID, previous.Version, previous.CreatedAt
		if symbol == previous {
			return symbol, nil
		}
		to, err := s.folder(symbol.FolderID)
		if err != nil {
			return symbols.Symbol{}, err
		}
		s.db.remove(s.db.folders[previous.FolderID], id)
		s.db.add(to, id)
		symbol.Version = newVersion()
		s.db.putSymbol(symbol)
		return symbol, nil
	})
}

func (s symbolStore) FolderListVersion(ctx context.Context) (symbols.Version, error) {
	return read(ctx, s.db, func() (symbols.Version, error) { return s.listVersion(), nil })
}

func (s symbolStore) ContentsVersion(ctx context.Context, folderID int64) (symbols.Version, error) {
	return read(ctx, s.db, func() (symbols.Version, error) {
		f, err := s.folder(folderID)
		return f.contents, err
	})
}

func (s symbolStore) GetSymbolInfo(ctx context.Context, id int64) (symbols.SymbolInfo, error) {
	symbol, err := s.GetSymbol(ctx, id)
	return symbol.Info(), err
}

func (s symbolStore) ListSegments(ctx context.Context) ([]symbols.Segment, error) {
	return read(ctx, s.db, func() ([]symbols.Segment, error) {
		var list []symbols.Segment
		for _, id := range slices.Sorted(maps.Keys(s.db.segments)) {
			list = append(list, symbols.Segment{ID: id, Version: s.db.segments[id]})
		}
		return list, nil
	})
}

func (s symbolStore) ListSegment(ctx context.Context, id int64) ([]symbols.SegmentSymbol, error) {
	return read(ctx, s.db, func() ([]symbols.SegmentSymbol, error) {
		var list []symbols.SegmentSymbol
		for i := range int64(symbols.SegmentSize) {
			if symbol, ok := s.db.symbols[id*symbols.SegmentSize+i]; ok {
				list = append(list, symbols.SegmentSymbol{SymbolInfo: symbol.Info(), Tenant: s.db.folders[symbol.FolderID].tenant})
			}
		}
		return list, nil
	})
}

func (s symbolStore) AssignTenant(ctx context.Context, to string) error {
	return s.db.change(ctx, func() error {
		for name := range s.db.folderNames {
			if _, taken := s.db.folderNames[folderName{to, name.name}]; name.tenant == s.tenant && taken {
				return symbols.ErrFolderNameTaken
			}
		}
		moved := false
		for id, f := range s.db.folders {
			if f.tenant == s.tenant {
				moved = true
				f.tenant, f.Version = to, newVersion()
				delete(s.db.folderNames, folderName{s.tenant, f.Name})
				s.db.folderNames[folderName{to, f.Name}] = id
			}
		}
		for id, entry := range s.db.trash {
			if entry.tenant == s.tenant {
				entry.tenant = to
				s.db.trash[id] = entry
			}
		}
		if moved {
			for id := range s.db.segments {
				s.db.segments[id] = newVersion()
			}
			s.changeList()
			symbolStore{s.db, to}.changeList()
		}
		return nil
	})
}

func (s symbolStore) Changes(ctx context.Context, since symbols.Position) (symbols.ChangeSet, error) {
	return read(ctx, s.db, func() (symbols.ChangeSet, error) {
		set := symbols.ChangeSet{Position: s.db.position}
		if since.History != set.History {
			return set, nil
		}
		for tenant, number := range s.db.listChanges {
			if number > since.Number {
				set.Changed = append(set.Changed, symbols.Changed{Tenant: tenant, Number: number})
			}
		}
		for _, f := range s.db.folders {
			if f.changed > since.Number {
				set.Changed = append(set.Changed, symbols.Changed{Tenant: f.tenant, FolderID: f.ID, Number: f.changed})
			}
		}
		return set, nil
	})
}
