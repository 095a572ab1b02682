// Package symbols manages a library of drawing symbols in folders.
//
// A [Folder] has a unique name; names are case-sensitive. A [Symbol] belongs to
// one folder and has a name, a MIME type and data, a text that this package
// does not interpret, and tags, meta, times and an author.
//
// Deleting a folder deletes its symbols. Both are in the trash until they are too old,
// or the trash too large, see [Options]. A [TrashEntry] is restored with its ids.
//
// [Service] enforces the rules, a [Store] holds the data. The package bundle
// exports and imports a folder as a zip.
//
// # Versions
//
// The folder list, each folder, the contents of each folder, each symbol and each
// [Segment] have a [Version]. The transaction that changes one of them also replaces its
// version by a new one; nothing else does. No version is used twice, so equal
// versions mean equal data. Versions serve as entity tags, for caches and
// conditional requests (RFC 9110, sections 8.8.3 and 13).
package symbols
