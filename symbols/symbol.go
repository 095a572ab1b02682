package symbols

// Symbol is a drawing symbol.
type Symbol struct {
	ID       int64 // positive, ascending, never reused
	Name     string
	Type     string // MIME type, stored as given
	Data     string // not empty, not interpreted
	FolderID int64

	// Version changes with every other field.
	Version Version
}

// NewSymbol is a symbol to create.
type NewSymbol struct {
	Name string
	Type string
	Data string
}

// Page is a part of a folder's contents, ids ascending.
type Page struct {
	Symbols []Symbol

	// Version is the version of the folder's contents when the page was
	// read. Pages with equal versions belong to the same state.
	Version Version

	// More reports whether symbols with higher ids follow.
	More bool
}

// SymbolFields are the fields that UpdateSymbol sets. Nil means unchanged.
type SymbolFields struct {
	Name     *string
	Type     *string
	Data     *string
	FolderID *int64 // moves the symbol
}

// apply sets the given fields of symbol and reports whether one has changed.
func (f SymbolFields) apply(symbol *Symbol) bool {
	before := *symbol
	if f.Name != nil {
		symbol.Name = *f.Name
	}
	if f.Type != nil {
		symbol.Type = *f.Type
	}
	if f.Data != nil {
		symbol.Data = *f.Data
	}
	if f.FolderID != nil {
		symbol.FolderID = *f.FolderID
	}
	return *symbol != before
}
