package symbols

import (
	"context"
	"errors"
	"fmt"
)

// Options configure a [Service]. The zero value is valid.
type Options struct {
	// PageSize is the number of bytes of data after which a [Page] ends. Zero
	// or less means 256 KiB.
	PageSize int
}

// Service enforces the rules of the symbol library on top of a [Store]. It is
// safe for concurrent use.
//
// Methods return [ErrFolderNotFound] or [ErrSymbolNotFound] if the folder or
// symbol does not exist. For an invalid field the error matches [ErrInvalid], and
// if the store fails, [ErrUnavailable].
type Service struct {
	store    Store
	pageSize int
	index    searchIndex

	// Reads of versions are shared.
	folderLists                freshReads[struct{}, Version]
	folders, contents, symbols freshReads[int64, Version]
}

// NewService returns a Service over store; nil options are the defaults. It returns an
// error if there is no store.
func NewService(store Store, options *Options) (*Service, error) {
	if store == nil {
		return nil, errors.New("symbols: no store")
	}
	s := &Service{store: store, pageSize: 256 << 10, index: searchIndex{segments: make(map[int64]*indexedSegment)}}
	if options != nil && options.PageSize > 0 {
		s.pageSize = options.PageSize
	}
	return s, nil
}

// ListFolders returns a page of the folders.
func (s *Service) ListFolders(ctx context.Context, r Range) (FolderPage, error) {
	list, err := s.store.ListFolders(ctx, r)
	return list, storeError("list folders", err)
}

// CreateFolder creates a folder. The error is [ErrFolderNameTaken] if another
// folder has the name.
func (s *Service) CreateFolder(ctx context.Context, name string) (Folder, error) {
	if err := checkName(name); err != nil {
		return Folder{}, err
	}
	folder, err := s.store.InsertFolder(ctx, Folder{Name: name})
	return folder, storeError("insert folder", err)
}

// GetFolder returns one folder.
func (s *Service) GetFolder(ctx context.Context, id int64) (Folder, error) {
	folder, err := s.store.GetFolder(ctx, id)
	return folder, storeError("get folder", err)
}

// UpdateFolder sets the given fields and returns the folder. The error is
// [ErrFolderNameTaken] if another folder has the name, and [ErrChanged] if the
// folder's version does not match.
func (s *Service) UpdateFolder(ctx context.Context, id int64, fields FolderFields, match Match) (Folder, error) {
	if err := fields.check(); err != nil {
		return Folder{}, err
	}
	var current Folder
	folder, err := s.store.UpdateFolder(ctx, id, func(folder *Folder) error {
		current = *folder
		if !match.Matches(folder.Version) {
			return ErrChanged
		}
		if !fields.apply(folder) {
			return errUnchanged
		}
		return nil
	})
	if err == errUnchanged {
		return current, nil
	}
	return folder, storeError("update folder", err)
}

// DeleteFolder deletes a folder and its symbols. The error is [ErrChanged] if the
// folder's version does not match.
func (s *Service) DeleteFolder(ctx context.Context, id int64, match Match) error {
	return storeError("delete folder", s.store.DeleteFolder(ctx, id, match))
}

// ListSymbols returns a page of the symbols of a folder, which may have fewer than
// the limit. To read all pages, continue with the last id while [Page.More] is true.
func (s *Service) ListSymbols(ctx context.Context, folderID int64, r Range) (Page, error) {
	page, err := s.store.ListSymbols(ctx, folderID, r, s.pageSize)
	return page, storeError("list symbols", err)
}

// maxInfos is the maximum number of symbols in an [InfoPage].
const maxInfos = 1000

// ListSymbolInfos is [Service.ListSymbols] without data. A page has up to 1,000
// symbols.
func (s *Service) ListSymbolInfos(ctx context.Context, folderID int64, r Range) (InfoPage, error) {
	if r.Limit <= 0 || r.Limit > maxInfos {
		r.Limit = maxInfos
	}
	page, err := s.store.ListSymbolInfos(ctx, folderID, r)
	return page, storeError("list symbol infos", err)
}

// CreateSymbol creates a symbol in a folder.
func (s *Service) CreateSymbol(ctx context.Context, folderID int64, name, mimeType, data string) (Symbol, error) {
	given := NewSymbol{Name: name, Type: mimeType, Data: data}
	if err := given.Check(); err != nil {
		return Symbol{}, err
	}
	list, err := s.insertSymbols(ctx, folderID, []NewSymbol{given})
	if err != nil {
		return Symbol{}, err
	}
	return list[0], nil
}

// CreateSymbols creates symbols in a folder, all or none, and returns them in
// the same order with ascending ids. The text of the error for an invalid field
// begins with its position: symbols[3].name.
func (s *Service) CreateSymbols(ctx context.Context, folderID int64, given []NewSymbol) ([]Symbol, error) {
	for i, symbol := range given {
		if err := symbol.Check(); err != nil {
			return nil, invalid(fmt.Sprintf("symbols[%d].%v", i, err))
		}
	}
	return s.insertSymbols(ctx, folderID, given)
}

func (s *Service) insertSymbols(ctx context.Context, folderID int64, given []NewSymbol) ([]Symbol, error) {
	list := make([]Symbol, len(given))
	for i, symbol := range given {
		list[i] = Symbol{Name: symbol.Name, Type: symbol.Type, Data: symbol.Data}
	}
	list, err := s.store.InsertSymbols(ctx, folderID, list)
	return list, storeError("insert symbols", err)
}

// GetSymbol returns one symbol.
func (s *Service) GetSymbol(ctx context.Context, id int64) (Symbol, error) {
	symbol, err := s.store.GetSymbol(ctx, id)
	return symbol, storeError("get symbol", err)
}

// UpdateSymbol sets the given fields and returns the symbol. The error is
// [ErrChanged] if the symbol's version does not match.
func (s *Service) UpdateSymbol(ctx context.Context, id int64, fields SymbolFields, match Match) (Symbol, error) {
	if err := fields.check(); err != nil {
		return Symbol{}, err
	}
	var current Symbol
	symbol, err := s.store.UpdateSymbol(ctx, id, func(symbol *Symbol) error {
		current = *symbol
		if !match.Matches(symbol.Version) {
			return ErrChanged
		}
		if !fields.apply(symbol) {
			return errUnchanged
		}
		return nil
	})
	if err == errUnchanged {
		return current, nil
	}
	return symbol, storeError("update symbol", err)
}

// DeleteSymbol deletes a symbol. The error is [ErrChanged] if the symbol's version
// does not match.
func (s *Service) DeleteSymbol(ctx context.Context, id int64, match Match) error {
	return storeError("delete symbol", s.store.DeleteSymbol(ctx, id, match))
}

// FolderListVersion returns the current version of the folder list. Like all versions
// it is read after the call began, and concurrent calls share reads.
func (s *Service) FolderListVersion(ctx context.Context) (Version, error) {
	version, err := s.folderLists.get(ctx, struct{}{}, func(ctx context.Context, _ struct{}) (Version, error) {
		return s.store.FolderListVersion(ctx)
	})
	return version, storeError("read folder list version", err)
}

// FolderVersion returns the current version of one folder.
func (s *Service) FolderVersion(ctx context.Context, id int64) (Version, error) {
	version, err := s.folders.get(ctx, id, s.store.FolderVersion)
	return version, storeError("read folder version", err)
}

// ContentsVersion returns the current version of a folder's contents.
func (s *Service) ContentsVersion(ctx context.Context, folderID int64) (Version, error) {
	version, err := s.contents.get(ctx, folderID, s.store.ContentsVersion)
	return version, storeError("read contents version", err)
}

// SymbolVersion returns the current version of one symbol.
func (s *Service) SymbolVersion(ctx context.Context, id int64) (Version, error) {
	version, err := s.symbols.get(ctx, id, s.store.SymbolVersion)
	return version, storeError("read symbol version", err)
}

// errUnchanged ends an update of the store without writing.
var errUnchanged = errors.New("symbols: nothing to change")

// storeError returns the errors that [Store] documents and wraps all others in
// ErrUnavailable.
func storeError(operation string, err error) error {
	switch {
	case err == nil,
		errors.Is(err, ErrFolderNotFound),
		errors.Is(err, ErrSymbolNotFound),
		errors.Is(err, ErrFolderNameTaken),
		errors.Is(err, ErrChanged):
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, operation, err)
}
