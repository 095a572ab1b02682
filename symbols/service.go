package symbols

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/canvasback/symbols/fresh"
)

// Options configure a [Service]. The zero value is valid.
type Options struct {
	// PageSize is the number of bytes of data after which a [Page] ends. Zero
	// or less means 256 KiB.
	PageSize int

	// SearchIndex is the memory in bytes for the index of searches; 64 MiB if zero or less.
	// A symbol takes about 24 bytes, its name and tags, and while there is room 96 bytes, name
	// and tags again. Searches read what does not fit from the store.
	SearchIndex int64

	// TrashLifetime is how long deleted folders and symbols can be restored; zero means
	// 30 days. If it is negative, they are deleted at once. What is older is removed from
	// the store with the next deletion of the tenant.
	TrashLifetime time.Duration

	// TrashSize is the number of bytes of data, meta and tags in the trash, and of
	// [PageOverhead] for each folder and symbol, from which its oldest entries are removed.
	// Zero or less means 1 GiB.
	TrashSize int64

	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Service enforces the rules of the symbol library on top of a [Store]. It is
// safe for concurrent use.
//
// Methods return [ErrFolderNotFound] or [ErrSymbolNotFound] if the folder or symbol does
// not exist. For an invalid field the error matches [ErrInvalid], and if the store fails,
// [ErrUnavailable]. The argument by is the id of the key that makes a change, or 0.
type Service struct {
	tenant  string
	store   Store   // of the tenant
	options Options // with the defaults
	index   *searchIndex
	reads   *reads
	changes *changeFeed
}

// reads are shared reads of versions, and of changes.
type reads struct {
	changes           fresh.Reads[Position, ChangeSet]
	folderLists       fresh.Reads[string, Version] // by tenant
	folders, contents fresh.Reads[recordKey, Version]
	symbols           fresh.Reads[recordKey, SymbolInfo]
}

// recordKey is a record as a tenant sees it.
type recordKey struct {
	tenant string
	id     int64
}

// NewService returns a Service over store; nil options are the defaults. It returns an
// error if there is no store.
func NewService(store Store, options *Options) (*Service, error) {
	if store == nil {
		return nil, errors.New("symbols: no store")
	}
	o := *cmp.Or(options, new(Options))
	if o.Now == nil {
		o.Now = time.Now
	}
	o.TrashLifetime = cmp.Or(o.TrashLifetime, 30*24*time.Hour)
	o.TrashSize = cmp.Or(max(o.TrashSize, 0), 1<<30)
	o.PageSize = cmp.Or(max(o.PageSize, 0), 256<<10)
	index := &searchIndex{
		limit:    cmp.Or(max(o.SearchIndex, 0), 64<<20),
		reading:  make(chan struct{}, 2),
		segments: make(map[int64]*packedSegment),
	}
	changes := &changeFeed{store: store, followers: make(map[*Follower]struct{})}
	return &Service{store: store, options: o, index: index, reads: new(reads), changes: changes}, nil
}

// Tenant returns the library of a tenant: its folders, symbols and trash do not exist for
// another. The Service of [NewService] is that of the tenant "". A tenant is UTF-8 without
// NUL. It costs nothing to call this for each request.
func (s *Service) Tenant(tenant string) *Service {
	if tenant == s.tenant {
		return s
	}
	other := *s
	other.tenant, other.store = tenant, s.store.Tenant(tenant)
	return &other
}

// AssignTenant gives the whole library, with its trash, to another tenant. The error is
// [ErrFolderNameTaken], and nothing is changed, if both have a folder of the same name.
func (s *Service) AssignTenant(ctx context.Context, to string) error {
	if err := checkText("tenant", to); err != nil || to == s.tenant {
		return err
	}
	return storeError("assign tenant", s.store.AssignTenant(ctx, to))
}

func (s *Service) now() time.Time { return s.options.Now().UTC().Truncate(time.Millisecond) }

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

// UpdateFolder sets the name, unless that is nil, and returns the folder. The error is
// [ErrFolderNameTaken] if another folder has the name, and [ErrChanged] if the
// folder's version does not match.
func (s *Service) UpdateFolder(ctx context.Context, id int64, name *string, match Match) (Folder, error) {
	if err := checkGiven(name, checkName); err != nil {
		return Folder{}, err
	}
	folder, err := s.store.UpdateFolder(ctx, id, func(folder *Folder) error {
		if !match.Matches(folder.Version) {
			return ErrChanged
		}
		folder.Name = *cmp.Or(name, &folder.Name)
		return nil
	})
	return folder, storeError("update folder", err)
}

// DeleteFolder deletes a folder and its symbols. The error is [ErrChanged] if the
// folder's version does not match.
func (s *Service) DeleteFolder(ctx context.Context, id int64, match Match, by int64) error {
	err := s.store.DeleteFolder(ctx, id, s.deletion(match, by))
	if err == nil {
		s.prune(ctx)
	}
	return storeError("delete folder", err)
}

// ListSymbols returns a page of the symbols of a folder, which may have fewer than
// the limit. To read all pages, continue with the last id while [Page.More] is true.
//
// A symbol with more than [LargeSize] bytes of data is a page of its own.
func (s *Service) ListSymbols(ctx context.Context, folderID int64, r Range) (Page, error) {
	return s.ListSymbolsFunc(ctx, folderID, r, nil, true)
}

// ListSymbolsFunc is [Service.ListSymbols] with a limit to memory: before the data of a large
// symbol is read, it calls reserve with the size, unless that is nil, and returns its error.
// Without details, tags, meta, times and author may be absent.
func (s *Service) ListSymbolsFunc(
	ctx context.Context, folderID int64, r Range, reserve func(size int64) error, details bool,
) (Page, error) {
	for {
		page, err := s.store.ListSymbols(ctx, folderID, r, s.options.PageSize, details)
		if err != nil {
			return Page{}, storeError("list symbols", err)
		}
		large := slices.IndexFunc(page.Symbols, func(symbol Symbol) bool { return symbol.Data == "" })
		switch {
		case large < 0:
			return page, nil
		case large > 0:
			page.Symbols, page.More = page.Symbols[:large], true
			return page, nil
		}
		symbol, err := s.getLarge(ctx, page.Symbols[0].ID, reserve)
		if err == nil && symbol.Version == page.Symbols[0].Version {
			page.More = page.More || len(page.Symbols) > 1
			page.Symbols = []Symbol{symbol}
			return page, nil
		}
		if err != nil && !errors.Is(err, ErrSymbolNotFound) { // else the folder has changed
			return Page{}, err
		}
	}
}

func (s *Service) getLarge(ctx context.Context, id int64, reserve func(size int64) error) (Symbol, error) {
	if reserve != nil {
		info, err := s.GetSymbolInfo(ctx, id)
		if err != nil {
			return Symbol{}, err
		}
		if err := reserve(info.Size); err != nil {
			return Symbol{}, err
		}
	}
	return s.GetSymbol(ctx, id)
}

// infoLimit returns the maximum number of symbols in an [InfoPage].
func infoLimit(limit int) int {
	const most = 1000
	if limit <= 0 {
		return most
	}
	return min(limit, most)
}

// ListSymbolInfos is [Service.ListSymbols] without data. A page has up to 1,000
// symbols.
func (s *Service) ListSymbolInfos(ctx context.Context, folderID int64, r Range) (InfoPage, error) {
	r.Limit = infoLimit(r.Limit)
	page, err := s.store.ListSymbolInfos(ctx, folderID, r)
	return page, storeError("list symbol infos", err)
}

// CreateSymbol creates a symbol in a folder.
func (s *Service) CreateSymbol(ctx context.Context, folderID int64, given NewSymbol) (Symbol, error) {
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
	now := s.now()
	list := make([]Symbol, len(given))
	for i, n := range given {
		list[i] = Symbol{
			Name: n.Name, Type: n.Type, Data: n.Data, Tags: n.Tags, Meta: n.Meta,
			CreatedAt: now, UpdatedAt: now, UpdatedBy: n.By,
		}
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
	symbol, err := s.store.UpdateSymbol(ctx, id, func(symbol *Symbol) error {
		if !match.Matches(symbol.Version) {
			return ErrChanged
		}
		fields.apply(symbol, s.now())
		return nil
	})
	return symbol, storeError("update symbol", err)
}

// DeleteSymbol deletes a symbol. The error is [ErrChanged] if the symbol's version
// does not match.
func (s *Service) DeleteSymbol(ctx context.Context, id int64, match Match, by int64) error {
	err := s.deleteSymbols(ctx, []int64{id}, s.deletion(match, by))
	if errors.Is(err, ErrSymbolNotFound) {
		return ErrSymbolNotFound
	}
	return err
}

// FolderListVersion returns the current version of the folder list. Like all versions
// it is read after the call began, and concurrent calls share reads.
func (s *Service) FolderListVersion(ctx context.Context) (Version, error) {
	version, err := s.reads.folderLists.Get(ctx, s.tenant, func(ctx context.Context, _ string) (Version, error) {
		return s.store.FolderListVersion(ctx)
	})
	return version, storeError("read folder list version", err)
}

// FolderVersion returns the current version of one folder.
func (s *Service) FolderVersion(ctx context.Context, id int64) (Version, error) {
	version, err := s.reads.folders.Get(ctx, recordKey{s.tenant, id}, func(ctx context.Context, key recordKey) (Version, error) {
		folder, err := s.store.GetFolder(ctx, key.id)
		return folder.Version, err
	})
	return version, storeError("read folder version", err)
}

// ContentsVersion returns the current version of a folder's contents.
func (s *Service) ContentsVersion(ctx context.Context, folderID int64) (Version, error) {
	version, err := s.reads.contents.Get(ctx, recordKey{s.tenant, folderID}, func(ctx context.Context, key recordKey) (Version, error) {
		return s.store.ContentsVersion(ctx, key.id)
	})
	return version, storeError("read contents version", err)
}

// GetSymbolInfo returns one symbol without its data, with its current version.
func (s *Service) GetSymbolInfo(ctx context.Context, id int64) (SymbolInfo, error) {
	info, err := s.reads.symbols.Get(ctx, recordKey{s.tenant, id}, func(ctx context.Context, key recordKey) (SymbolInfo, error) {
		return s.store.GetSymbolInfo(ctx, key.id)
	})
	return info, storeError("get symbol info", err)
}
