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

// Check returns an error that matches [ErrInvalid] for the first invalid field.
func (n NewSymbol) Check() error {
	return SymbolFields{Name: &n.Name, Type: &n.Type, Data: &n.Data}.check()
}

// SymbolInfo is a symbol without its data.
type SymbolInfo struct {
	ID       int64
	Name     string
	Type     string
	FolderID int64
	Version  Version
	Size     int64 // of the data in UTF-8, in bytes
}

// Info returns the symbol without its data.
func (s Symbol) Info() SymbolInfo {
	return SymbolInfo{s.ID, s.Name, s.Type, s.FolderID, s.Version, int64(len(s.Data))}
}

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
}

// check returns an error for the first invalid field.
func (f SymbolFields) check() error {
	if f.Name != nil {
		if err := checkName(*f.Name); err != nil {
			return err
		}
	}
	if f.Type != nil {
		if err := checkType(*f.Type); err != nil {
			return err
		}
	}
	if f.Data != nil {
		if err := checkData(*f.Data); err != nil {
			return err
		}
	}
	if f.FolderID != nil && *f.FolderID < 1 {
		return invalid("folderId must be a positive number")
	}
	return nil
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
