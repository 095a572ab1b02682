package symbols

import (
	"cmp"
	"slices"
	"time"
)

// Folder is a named collection of symbols.
type Folder struct {
	ID   int64  // positive, ascending, never reused
	Name string // up to 255 code points, not only white space

	// Version changes with the name, but not with the folder's contents.
	Version Version
}

// FolderPage is a part of the list of folders, ids ascending. It is a consistent
// snapshot.
type FolderPage struct {
	Folders []Folder
	Version Version // of the list of all folders
	More    bool    // folders with higher ids follow
}

// Symbol is a drawing symbol.
type Symbol struct {
	ID       int64 // positive, ascending, never reused
	Name     string
	Type     string // MIME type, stored as given
	Data     string // not empty, not interpreted
	FolderID int64

	// Version changes with the fields above, and with Tags and Meta.
	Version Version

	Tags      Tags
	Meta      string    // the application's own: a JSON object, see [ParseMeta], or empty
	CreatedAt time.Time // times are in UTC, cut to the millisecond
	UpdatedAt time.Time // of the last change by this package
	UpdatedBy int64     // id of the key that has created or updated the symbol; 0 if unknown
}

// NewSymbol is a symbol to create.
type NewSymbol struct {
	Name string // up to 255 code points, not only white space
	Type string // a MIME type of up to 255 code points
	Data string // not empty
	Tags Tags   // of [NewTags]
	Meta string // of [ParseMeta], or empty
	By   int64  // see UpdatedBy of [Symbol]
}

// Check returns an error that matches [ErrInvalid] for the first invalid field.
func (n NewSymbol) Check() error {
	return SymbolFields{Name: &n.Name, Type: &n.Type, Data: &n.Data, Tags: &n.Tags, Meta: &n.Meta}.check()
}

// SymbolInfo is what lists show of a symbol without its data.
type SymbolInfo struct {
	ID       int64
	Name     string
	Type     string
	FolderID int64
	Version  Version
	Size     int64 // of the data in UTF-8, in bytes
	Tags     Tags
}

// Info returns the symbol without its data.
func (s Symbol) Info() SymbolInfo {
	return SymbolInfo{s.ID, s.Name, s.Type, s.FolderID, s.Version, int64(len(s.Data)), s.Tags}
}

// Version identifies a state of a folder list, folder, folder contents, symbol or
// [Segment]. It is positive. Versions can be compared for equality only: they have
// no order.
type Version int64

// Match is the condition of a change: the versions that the folder or symbol may
// have. The zero value matches no version, so that a condition that was forgotten
// changes nothing.
type Match struct {
	any      bool
	versions []Version
}

// Any matches every version: the change is unconditional.
var Any = Match{any: true}

// IfMatch returns the condition that the version is one of those given. It matches
// nothing if there are none.
func IfMatch(versions ...Version) Match { return Match{versions: slices.Clone(versions)} }

// Matches reports whether the condition holds for a version.
func (m Match) Matches(v Version) bool { return m.any || slices.Contains(m.versions, v) }

// Range selects the first records of a list with ids above After. The zero value
// selects all records.
type Range struct {
	After int64 // an id, which need not exist; 0: from the start
	Limit int   // the maximum number of records; 0 or less: no limit
}

// Page is a part of a folder's contents, ids ascending.
type Page struct {
	Symbols []Symbol

	// Version is the version of the folder's contents when the page was
	// read. Pages with equal versions belong to the same state.
	Version Version

	More bool // symbols with higher ids follow
}

// InfoPage is a [Page] without data.
type InfoPage struct {
	Symbols []SymbolInfo
	Version Version
	More    bool
}

// SymbolFields are the fields that UpdateSymbol sets. Nil means unchanged.
type SymbolFields struct {
	Name     *string
	Type     *string
	Data     *string
	FolderID *int64 // moves the symbol
	Tags     *Tags
	Meta     *string
	By       int64 // see UpdatedBy of [Symbol]
}

func (f SymbolFields) check() error {
	return cmp.Or(
		checkGiven(f.Name, checkName),
		checkGiven(f.Type, checkType),
		checkGiven(f.Data, checkData),
		checkGiven(f.Tags, Tags.check),
		checkGiven(f.Meta, checkMeta),
		checkGiven(f.FolderID, checkFolderID),
	)
}

func (f SymbolFields) apply(symbol *Symbol, at time.Time) {
	before := *symbol
	symbol.Name = *cmp.Or(f.Name, &symbol.Name)
	symbol.Type = *cmp.Or(f.Type, &symbol.Type)
	symbol.Data = *cmp.Or(f.Data, &symbol.Data)
	symbol.FolderID = *cmp.Or(f.FolderID, &symbol.FolderID)
	symbol.Tags = *cmp.Or(f.Tags, &symbol.Tags)
	symbol.Meta = *cmp.Or(f.Meta, &symbol.Meta)
	if *symbol != before {
		symbol.UpdatedAt, symbol.UpdatedBy = at, f.By
	}
}
