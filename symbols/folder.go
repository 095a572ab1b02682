package symbols

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
