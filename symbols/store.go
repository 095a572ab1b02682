package symbols

import "context"

// PageOverhead is what a symbol may count on a page, in bytes, beside its data:
// tiny ones take memory too.
const PageOverhead = 1 << 10

// Store keeps folders and symbols. It holds no rule: what it is given is valid
// and complete, and it decides nothing but identity, uniqueness of folder
// names, reference from symbol to folder, and versions.
//
// Every method may be called concurrently, with each other and with those of
// other processes if the storage is shared. A method does all of what it says
// or nothing. A change is visible to every call that starts after it has
// returned, and is not lost once it has returned. Records are values; a store
// keeps no reference to what it was given and gives no reference to what it
// keeps. Ids and versions that come with a record to insert are ignored.
//
// Methods return [ErrFolderNotFound], [ErrSymbolNotFound],
// [ErrFolderNameTaken] and [ErrChanged] where they say so. Any other error
// means that the store could not answer, and that nothing was changed unless
// the answer to a commit was lost. When ctx ends, methods return soon, with an
// error.
//
// Versions are replaced as the package comment says. They are not repeated
// after a restart or a deletion, nor in a storage that takes the place of
// another, be it a copy of an older day; drawing each at random does that.
type Store interface {
	// ListFolders returns all folders, ids ascending, and their version as
	// of the same instant.
	ListFolders(ctx context.Context) (FolderList, error)

	// GetFolder returns the folder with the id, or [ErrFolderNotFound].
	GetFolder(ctx context.Context, id int64) (Folder, error)

	// InsertFolder stores a new folder under a new id, or returns
	// [ErrFolderNameTaken]. Ids are positive, ascending, and never used
	// again: not after a deletion, not after a restart.
	InsertFolder(ctx context.Context, folder Folder) (Folder, error)

	// UpdateFolder reads the folder with the id, lets change alter its name,
	// and stores the outcome, all in one transaction: concurrent updates of
	// one folder happen one after the other. It returns the folder as
	// stored, [ErrFolderNotFound], or [ErrFolderNameTaken].
	//
	// If change fails, nothing is stored and UpdateFolder returns that
	// error. The function may be called more than once and must not call
	// the store. What it does to ID and Version is not stored.
	UpdateFolder(ctx context.Context, id int64, change func(*Folder) error) (Folder, error)

	// DeleteFolder removes the folder with the id and its symbols, or
	// returns [ErrFolderNotFound]. If versions are given and the folder has
	// none of them, it returns [ErrChanged] instead.
	DeleteFolder(ctx context.Context, id int64, ifMatch ...Version) error

	// ListSymbols returns the symbols of a folder that have ids above after,
	// ids ascending, or [ErrFolderNotFound]. It stops behind the symbol whose
	// data makes the sum of all data reach size bytes; it may stop earlier,
	// as for [PageOverhead], but not before the first. No connection or lock
	// outlives the call.
	ListSymbols(ctx context.Context, folderID, after int64, size int) (Page, error)

	// GetSymbol returns the symbol with the id, or [ErrSymbolNotFound].
	GetSymbol(ctx context.Context, id int64) (Symbol, error)

	// InsertSymbols stores new symbols in a folder, all or none, and returns
	// them in the same order with ascending new ids, or
	// [ErrFolderNotFound]. Ids are as those of folders, in a row of their
	// own. A FolderID that comes with a symbol is ignored. No symbols are no
	// change.
	InsertSymbols(ctx context.Context, folderID int64, list []Symbol) ([]Symbol, error)

	// UpdateSymbol reads the symbol with the id, lets change alter it, and
	// stores the outcome, all in one transaction: concurrent updates of one
	// symbol happen one after the other. Changing FolderID moves it. It
	// returns the symbol as stored, [ErrSymbolNotFound], or
	// [ErrFolderNotFound] for the folder that it should move to.
	//
	// The function is as that of UpdateFolder.
	UpdateSymbol(ctx context.Context, id int64, change func(*Symbol) error) (Symbol, error)

	// DeleteSymbol removes the symbol with the id, or returns
	// [ErrSymbolNotFound]. If versions are given and the symbol has none of
	// them, it returns [ErrChanged] instead.
	DeleteSymbol(ctx context.Context, id int64, ifMatch ...Version) error

	// FolderListVersion returns the current version of the folder list.
	FolderListVersion(ctx context.Context) (Version, error)

	// FolderVersion returns the current version of the folder with the id,
	// or [ErrFolderNotFound]. It covers the folder's name.
	FolderVersion(ctx context.Context, id int64) (Version, error)

	// ContentsVersion returns the current version of the symbol list of the
	// folder with the id, or [ErrFolderNotFound]. It reads no symbols.
	ContentsVersion(ctx context.Context, folderID int64) (Version, error)

	// SymbolVersion returns the current version of the symbol with the id,
	// or [ErrSymbolNotFound]. It does not read the symbol's data.
	SymbolVersion(ctx context.Context, id int64) (Version, error)

	// Shared reports whether other processes may change the same data.
	Shared() bool
}
