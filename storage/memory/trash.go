package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/symbols"
)

type trashEntry struct {
	symbols.TrashEntry
	tenant  string
	symbols []symbols.Symbol
}

// discard adds an entry to the trash, unless the deletion is final.
func (s symbolStore) discard(entry symbols.TrashEntry, list []symbols.Symbol, d symbols.Deletion) {
	if d.Final {
		return
	}
	if entry.SymbolID == 0 {
		entry.Size = symbols.PageOverhead // of the folder
	}
	for _, symbol := range list {
		entry.Size += int64(len(symbol.Data) + len(symbol.Meta) + len(symbol.Tags.String()) + symbols.PageOverhead)
	}
	s.db.lastTrashID++
	entry.ID, entry.DeletedAt, entry.DeletedBy = s.db.lastTrashID, d.At, d.By
	s.db.trash[entry.ID] = trashEntry{entry, s.tenant, list}
}

// symbolsOf returns the symbols with the ids, in this order, or a MissingError.
func (s symbolStore) symbolsOf(ids []int64) (list []symbols.Symbol, err error) {
	for _, id := range ids {
		symbol, err := s.symbol(id)
		if err != nil {
			return nil, &symbols.MissingError{Err: err, ID: id}
		}
		list = append(list, symbol)
	}
	return list, nil
}

func (s symbolStore) DeleteSymbols(ctx context.Context, ids []int64, d symbols.Deletion) error {
	return s.db.change(ctx, func() error {
		list, err := s.symbolsOf(ids)
		if err != nil {
			return err
		}
		for _, symbol := range list {
			if !d.Match.Matches(symbol.Version) {
				return symbols.ErrChanged
			}
		}
		slices.SortFunc(list, func(a, b symbols.Symbol) int { return cmp.Compare(a.ID, b.ID) })
		for _, symbol := range list {
			s.discard(symbols.TrashEntry{SymbolID: symbol.ID, FolderID: symbol.FolderID, Name: symbol.Name}, []symbols.Symbol{symbol}, d)
			s.db.deleteSymbol(symbol.ID)
			s.db.remove(s.db.folders[symbol.FolderID], symbol.ID)
		}
		return nil
	})
}

func (s symbolStore) UpdateSymbols(
	ctx context.Context, ids []int64, stamp symbols.Stamp, change func(*symbols.SymbolInfo) error,
) (int, error) {
	return write(ctx, s.db, func() (int, error) {
		list, err := s.symbolsOf(ids)
		if err != nil {
			return 0, err
		}
		var changed []symbols.SymbolInfo
		for _, symbol := range list {
			info := symbol.Info()
			if err := change(&info); err != nil {
				return 0, err
			}
			if info != symbol.Info() {
				changed = append(changed, info)
			}
		}
		for _, info := range changed {
			if _, err := s.folder(info.FolderID); err != nil {
				return 0, err
			}
		}
		for _, info := range changed {
			symbol := s.db.symbols[info.ID]
			s.db.remove(s.db.folders[symbol.FolderID], info.ID)
			s.db.add(s.db.folders[info.FolderID], info.ID)
			symbol.FolderID, symbol.Tags, symbol.Version = info.FolderID, info.Tags, newVersion()
			symbol.UpdatedAt, symbol.UpdatedBy = stamp.At, stamp.By
			s.db.putSymbol(symbol)
		}
		return len(changed), nil
	})
}

func (s symbolStore) ListTrash(ctx context.Context, oldest time.Time, r symbols.Range) (symbols.TrashPage, error) {
	return read(ctx, s.db, func() (symbols.TrashPage, error) {
		var page symbols.TrashPage
		for _, id := range slices.Sorted(maps.Keys(s.db.trash)) {
			if entry, err := s.findTrash(id, oldest); err == nil && id > r.After {
				page.Entries = append(page.Entries, entry.TrashEntry)
			}
		}
		page.Entries, page.More = paging.Cut(page.Entries, r.Limit)
		return page, nil
	})
}

// findTrash returns an entry that was deleted after oldest.
func (s symbolStore) findTrash(id int64, oldest time.Time) (trashEntry, error) {
	entry, ok := s.db.trash[id]
	if !ok || entry.tenant != s.tenant || !entry.DeletedAt.After(oldest) {
		return trashEntry{}, symbols.ErrTrashNotFound
	}
	return entry, nil
}

func (s symbolStore) RestoreTrash(
	ctx context.Context, id int64, oldest time.Time, stamp symbols.Stamp, target func(symbols.TrashEntry) (int64, error),
) (symbols.Restored, error) {
	return write(ctx, s.db, func() (symbols.Restored, error) {
		entry, err := s.findTrash(id, oldest)
		if err != nil {
			return symbols.Restored{}, err
		}
		folderID, err := target(entry.TrashEntry)
		if err != nil {
			return symbols.Restored{}, err
		}
		if entry.SymbolID == 0 {
			if _, taken := s.db.folderNames[folderName{s.tenant, entry.Name}]; taken {
				return symbols.Restored{}, symbols.ErrFolderNameTaken
			}
			s.putFolder(folderID, entry.Name)
		}
		into, err := s.folder(folderID)
		if err != nil {
			return symbols.Restored{}, err
		}
		restored := symbols.Restored{Folder: new(into.Folder)}
		for _, symbol := range entry.symbols {
			symbol.FolderID, symbol.Version, symbol.UpdatedAt, symbol.UpdatedBy = folderID, newVersion(), stamp.At, stamp.By
			s.db.putSymbol(symbol)
			s.db.add(into, symbol.ID)
			if entry.SymbolID != 0 {
				restored = symbols.Restored{Symbol: &symbol}
			}
		}
		delete(s.db.trash, id)
		return restored, nil
	})
}

func (s symbolStore) DeleteTrash(ctx context.Context, id int64, oldest time.Time) error {
	return s.db.change(ctx, func() error {
		_, err := s.findTrash(id, oldest)
		if err == nil {
			delete(s.db.trash, id)
		}
		return err
	})
}

func (s symbolStore) PruneTrash(ctx context.Context, oldest time.Time, size int64) (more bool, err error) {
	return write(ctx, s.db, func() (more bool, err error) {
		total := int64(0)
		for _, id := range slices.Backward(slices.Sorted(maps.Keys(s.db.trash))) {
			if s.db.trash[id].tenant != s.tenant {
				continue
			}
			total += s.db.trash[id].Size
			if total > size || !s.db.trash[id].DeletedAt.After(oldest) {
				delete(s.db.trash, id)
			}
		}
		return false, nil
	})
}
