package symbols

import (
	"context"
	"time"
)

// PageOverhead is the number of bytes that a store may add to the size of each
// symbol's data in a page. It bounds the number of symbols with little data.
const PageOverhead = 1 << 10

// LargeSize is the number of bytes of data from which a symbol is large. Pages do not have
// the data of larger symbols.
const LargeSize = 256 << 10

// SegmentSize is the number of ids in a segment.
const SegmentSize = 1 << 10

// Segment is a version of the symbols of all folders with ids from ID*SegmentSize
// to (ID+1)*SegmentSize-1. It changes with each of these symbols.
type Segment struct {
	ID      int64
	Version Version
}

// SegmentSymbol is a symbol of any tenant.
type SegmentSymbol struct {
	SymbolInfo
	Tenant string // of its folder
}

// Store stores folders and symbols. It enforces no rules: its input is valid
// and complete. It is responsible for identity, unique folder names, the
// reference from symbol to folder, and versions.
//
// All methods are safe for concurrent use, by several processes if the store is shared. A
// method does all of its work or nothing. When it returns, its change is durable and
// visible to every call that starts later. Records are values: a store keeps no reference
// to its input and returns no reference to its data. It ignores the ids and versions of
// records to insert.
//
// Methods return the errors that their comments name; those that write do so only if what
// they have read is durable. Any other error means that the store is unavailable, and that
// nothing was changed unless only the response to a commit was lost. When ctx ends,
// methods promptly return an error.
//
// A store has the records of one tenant: folders, their symbols, and what was deleted.
// Those of other tenants do not exist for it, and change nothing that it returns. Folder
// names are unique for each tenant, ids over all. Methods that are about all tenants say
// so.
//
// Versions are replaced as the package comment describes. A version must not
// recur after a restart or a deletion, nor when another database takes the place
// of this one, such as an older backup. Random versions have this property.
type Store interface {
	// Tenant returns the store of a tenant, which shares everything else with this one.
	// A driver returns that of the tenant "", and what wraps a Store wraps this one too.
	Tenant(tenant string) Store

	// AssignTenant gives all records to another tenant. It returns
	// [ErrFolderNameTaken], and changes nothing, if that has a folder of the same name.
	AssignTenant(ctx context.Context, to string) error

	// ListFolders returns a page of the folders.
	ListFolders(ctx context.Context, r Range) (FolderPage, error)

	// GetFolder returns the folder with the id, or [ErrFolderNotFound].
	GetFolder(ctx context.Context, id int64) (Folder, error)

	// InsertFolder stores a folder under a new id, or returns
	// [ErrFolderNameTaken]. Ids are positive, ascending and never reused,
	// not even after a deletion or a restart.
	InsertFolder(ctx context.Context, folder Folder) (Folder, error)

	// UpdateFolder reads the folder with the id, calls change to set its
	// name, and stores the result in the same transaction: concurrent updates
	// of one folder are serialized. It returns the folder as stored,
	// [ErrFolderNotFound] or [ErrFolderNameTaken].
	//
	// If change changes nothing, nothing is stored. If it returns an error,
	// UpdateFolder returns that error. UpdateFolder may call change more than once; change must
	// not call the store. Changes of ID and Version are ignored.
	UpdateFolder(ctx context.Context, id int64, change func(*Folder) error) (Folder, error)

	// DeleteFolder moves the folder with the id and its symbols to the trash,
	// unless the deletion is final, or returns [ErrFolderNotFound], or
	// [ErrChanged] if its version does not match.
	DeleteFolder(ctx context.Context, id int64, d Deletion) error

	// ListSymbols returns a page of the symbols of a folder, or
	// [ErrFolderNotFound]. The page ends with the symbol whose data makes
	// the total reach size bytes; a size below 1 means 1. It may end earlier,
	// because of [PageOverhead] for example, but is empty only if no symbol
	// follows. Data of more than [LargeSize] bytes is not read and empty in the
	// page. Without details, tags, meta, times and author are not read. No
	// connection or lock outlives the call.
	ListSymbols(ctx context.Context, folderID int64, r Range, size int, details bool) (Page, error)

	// ListSymbolInfos returns a page of the symbols of a folder without their
	// data, or [ErrFolderNotFound]. The page has all symbols in the range.
	// ListSymbolInfos does not read data.
	ListSymbolInfos(ctx context.Context, folderID int64, r Range) (InfoPage, error)

	// FindSymbolInfos returns the symbols with the given ids that exist, without
	// their data, ids ascending. It does not read data.
	FindSymbolInfos(ctx context.Context, ids []int64) ([]SymbolInfo, error)

	// GetSymbol returns the symbol with the id, or [ErrSymbolNotFound].
	GetSymbol(ctx context.Context, id int64) (Symbol, error)

	// InsertSymbols stores symbols in a folder, all or none, and returns them
	// in the same order with ascending new ids, or [ErrFolderNotFound]. Ids
	// have the properties of folder ids but their own sequence. FolderID of
	// the input is ignored. An empty list changes nothing.
	InsertSymbols(ctx context.Context, folderID int64, list []Symbol) ([]Symbol, error)

	// UpdateSymbol reads the symbol with the id, calls change to set its
	// fields, and stores the result in the same transaction: concurrent
	// updates of one symbol are serialized. A change of FolderID moves the
	// symbol. It returns the symbol as stored, [ErrSymbolNotFound], or
	// [ErrFolderNotFound] for the new folder. CreatedAt does not change.
	//
	// The function change is as in UpdateFolder.
	UpdateSymbol(ctx context.Context, id int64, change func(*Symbol) error) (Symbol, error)

	// UpdateSymbols calls change for the symbols with the given ids, which are
	// different, and stores the folders and tags that it has changed, with the
	// stamp. It returns how many these are, a [MissingError] for a symbol, or
	// [ErrFolderNotFound]. The function change is as in UpdateFolder.
	UpdateSymbols(ctx context.Context, ids []int64, stamp Stamp, change func(*SymbolInfo) error) (int, error)

	// DeleteSymbols moves the symbols with the given ids, which are different, to
	// the trash, each as an entry, ids ascending, unless the deletion is final. It does
	// this for all or none, and returns a [MissingError], or [ErrChanged] if a version does
	// not match.
	DeleteSymbols(ctx context.Context, ids []int64, d Deletion) error

	// ListTrash returns a page of the entries that were deleted after oldest.
	ListTrash(ctx context.Context, oldest time.Time, r Range) (TrashPage, error)

	// RestoreTrash restores an entry that was deleted after oldest: a folder and its symbols,
	// or a symbol into the folder that target returns. It calls target for both.
	// Symbols get the stamp, and all get new versions. It returns
	// [ErrTrashNotFound], [ErrFolderNameTaken], [ErrFolderNotFound], or the error
	// of target.
	RestoreTrash(
		ctx context.Context, id int64, oldest time.Time, stamp Stamp, target func(TrashEntry) (folderID int64, err error),
	) (Restored, error)

	// DeleteTrash removes an entry that was deleted after oldest, or returns
	// [ErrTrashNotFound].
	DeleteTrash(ctx context.Context, id int64, oldest time.Time) error

	// PruneTrash removes some of the entries that were not deleted after oldest,
	// or with which the trash, from the newest entry on, has more than size bytes
	// as in [Options.TrashSize]. It returns whether there are more to remove.
	PruneTrash(ctx context.Context, oldest time.Time, size int64) (more bool, err error)

	// FolderListVersion returns the current version of the folder list.
	FolderListVersion(ctx context.Context) (Version, error)

	// ContentsVersion returns the current version of the contents of the
	// folder with the id, or [ErrFolderNotFound]. It does not read symbols.
	ContentsVersion(ctx context.Context, folderID int64) (Version, error)

	// GetSymbolInfo returns the symbol with the id without its data, which it does
	// not read, or [ErrSymbolNotFound].
	GetSymbolInfo(ctx context.Context, id int64) (SymbolInfo, error)

	// Changes returns what may have changed after a position, for all tenants, and the
	// current position. That something is deleted is a change of the list or folder
	// that had it. If the position is not one of this history of the database, only
	// the current one is returned. Something may be returned again.
	Changes(ctx context.Context, since Position) (ChangeSet, error)

	// ListSegments returns the current versions of the segments that have
	// symbols of any tenant, ids ascending. It may include segments that had some.
	ListSegments(ctx context.Context) ([]Segment, error)

	// ListSegment returns the symbols of all tenants in a segment, ids ascending. It
	// does not read data.
	ListSegment(ctx context.Context, id int64) ([]SegmentSymbol, error)
}
