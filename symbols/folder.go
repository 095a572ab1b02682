package symbols

// Folder is a named collection of symbols.
type Folder struct {
	ID   int64 // positive, ascending, never reused
	Name string

	// Version changes with the name, but not with the folder's contents.
	Version Version
}

// FolderList is a consistent snapshot of folders, ids ascending.
type FolderList struct {
	Folders []Folder
	Version Version // of the list of all folders

	// More reports whether folders with higher ids follow.
	More bool
}

// FolderFields are the fields that UpdateFolder sets. Nil means unchanged.
type FolderFields struct {
	Name *string
}

// check returns an error for the first invalid field.
func (f FolderFields) check() error {
	if f.Name != nil {
		return checkName(*f.Name)
	}
	return nil
}

// apply sets the given fields of folder and reports whether one has changed.
func (f FolderFields) apply(folder *Folder) bool {
	before := *folder
	if f.Name != nil {
		folder.Name = *f.Name
	}
	return *folder != before
}
