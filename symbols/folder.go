package symbols

// Folder is a named collection of symbols.
type Folder struct {
	ID   int64 // positive, ascending, never reused
	Name string

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

// FolderFields are the fields that UpdateFolder sets. Nil means unchanged.
type FolderFields struct {
	Name *string
}

// check returns an error for the first invalid field.
func (f FolderFields) check() error { return checkGiven(f.Name, checkName) }

// apply sets the given fields of folder and reports whether one has changed.
func (f FolderFields) apply(folder *Folder) bool {
	before := *folder
	setGiven(&folder.Name, f.Name)
	return *folder != before
}
