package symbols

import "slices"

// Version identifies one state of something readable. It is positive. Two
// versions of one thing are equal or not; no other comparison has a meaning.
type Version int64

// Matches reports whether v is one of wanted, or nothing in particular is
// wanted.
func (v Version) Matches(wanted []Version) bool {
	return len(wanted) == 0 || slices.Contains(wanted, v)
}

// Subject is one of the things that have a version.
type Subject struct {
	kind SubjectKind
	id   int64
}

// SubjectKind tells subjects apart, for the makers of stores.
type SubjectKind int

// The kinds of subjects.
const (
	KindFolders  SubjectKind = iota // the list of folders
	KindFolder                      // a folder: its name
	KindContents                    // the symbols of a folder
	KindSymbol                      // a symbol
)

// Folders is the list of all folders.
func Folders() Subject { return Subject{kind: KindFolders} }

// FolderItself is the folder with the id, without what lies in it.
func FolderItself(id int64) Subject { return Subject{KindFolder, id} }

// FolderContents is the list of symbols in the folder with the id.
func FolderContents(id int64) Subject { return Subject{KindContents, id} }

// SymbolItself is the symbol with the id.
func SymbolItself(id int64) Subject { return Subject{KindSymbol, id} }

// Kind returns what sort of thing it is.
func (s Subject) Kind() SubjectKind { return s.kind }

// ID returns the id of the folder or symbol, 0 for the list of folders.
func (s Subject) ID() int64 { return s.id }
