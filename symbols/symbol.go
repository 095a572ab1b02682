package symbols

// Symbol is a drawing symbol.
type Symbol struct {
	ID       int64 // positive, counted from 1, never used again
	Name     string
	Type     string // MIME type, kept as given
	Data     string // never empty, never parsed
	FolderID int64

	// Version changes with every other field.
	Version Version
}

// NewSymbol is what a symbol begins with.
type NewSymbol struct {
	Name string
	Type string
	Data string
}

// Page is a part of a folder's contents: symbols with ascending ids.
type Page struct {
	Symbols []Symbol

	// Version is that of the folder's contents at the instant of reading.
	// Pages that carry the same one are parts of the same state.
	Version Version

	// More tells whether symbols with higher ids follow.
	More bool
}

// SymbolFields are the parts of a symbol that can be changed; a nil one stays.
type SymbolFields struct {
	Name     *string
	Type     *string
	Data     *string
	FolderID *int64 // moves the symbol
}

// apply sets the given fields of symbol and reports whether any is new.
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
