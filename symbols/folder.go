package symbols

// Folder is a named place for symbols.
type Folder struct {
	ID   int64 // positive, counted from 1, never used again
	Name string

	// Version is that of the folder itself: it changes with the name, not
	// with what lies in the folder.
	Version Version
}

// FolderList is all folders, ids ascending, as they were at one instant.
type FolderList struct {
	Folders []Folder
	Version Version
}

// FolderFields are the parts of a folder that can be changed; a nil one stays.
type FolderFields struct {
	Name *string
}

// apply sets the given fields of folder and reports whether any is new.
func (f FolderFields) apply(folder *Folder) bool {
	before := *folder
	if f.Name != nil {
		folder.Name = *f.Name
	}
	return *folder != before
}
