package symbols

import (
	"context"
	"errors"
	"time"
)

// Stamp is when and by whom something is changed.
type Stamp struct {
	At time.Time
	By int64 // id of a key; 0 if unknown
}

// Deletion is how a [Store] deletes folders or symbols.
type Deletion struct {
	Stamp
	Match Match
	Final bool // not moved to the trash
}

// TrashEntry is a deleted folder with its symbols, or a deleted symbol.
type TrashEntry struct {
	ID        int64 // of the entry: positive, ascending, never reused
	SymbolID  int64 // 0 if it is a folder
	FolderID  int64 // the folder's own id, or that of the symbol's folder
	Name      string
	Symbols   int64 // of a folder
	Size      int64 // as in [Options.TrashSize]
	DeletedAt time.Time
	DeletedBy int64 // id of the key; 0 if unknown
}

// TrashPage is a part of the trash, ids ascending.
type TrashPage struct {
	Entries []TrashEntry
	More    bool // entries with higher ids follow
}

// Restored is what has been restored: a folder, or a symbol.
type Restored struct {
	Folder *Folder
	Symbol *Symbol
}

func (s *Service) deletion(match Match, by int64) Deletion {
	return Deletion{Stamp: Stamp{s.now(), by}, Match: match, Final: s.options.TrashLifetime < 0}
}

// oldest returns the time up to which deleted records are no longer in the trash.
func (s *Service) oldest() time.Time { return s.now().Add(-max(s.options.TrashLifetime, 0)) }

// prune removes what is too old or too much. Another call continues after an error.
func (s *Service) prune(ctx context.Context) {
	for more, err := true, error(nil); more && err == nil; {
		more, err = s.store.PruneTrash(ctx, s.oldest(), s.options.TrashSize)
	}
}

// ListTrash returns a page of the trash.
func (s *Service) ListTrash(ctx context.Context, r Range) (TrashPage, error) {
	page, err := s.store.ListTrash(ctx, s.oldest(), r)
	return page, storeError("list trash", err)
}

// Restore restores a folder with the symbols that it had, or a symbol, with their ids. A
// symbol comes back to its folder, or to the given one unless that is nil. The error is
// [ErrTrashNotFound], [ErrFolderNameTaken], [ErrFolderGone], or [ErrFolderNotFound] for the
// given folder.
func (s *Service) Restore(ctx context.Context, id int64, folderID *int64, by int64) (Restored, error) {
	if err := checkGiven(folderID, checkFolderID); err != nil {
		return Restored{}, err
	}
	restored, err := s.store.RestoreTrash(ctx, id, s.oldest(), Stamp{s.now(), by}, func(entry TrashEntry) (int64, error) {
		switch {
		case folderID == nil:
			return entry.FolderID, nil
		case entry.SymbolID == 0:
			return 0, invalid("folderId is for symbols only")
		}
		return *folderID, nil
	})
	if errors.Is(err, ErrFolderNotFound) && folderID == nil {
		err = ErrFolderGone
	}
	return restored, storeError("restore", err)
}

// DeleteTrash deletes an entry of the trash. The error is [ErrTrashNotFound].
func (s *Service) DeleteTrash(ctx context.Context, id int64) error {
	return storeError("delete trash", s.store.DeleteTrash(ctx, id, s.oldest()))
}
