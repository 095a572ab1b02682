// Package symbols keeps a library of drawing symbols in folders.
//
// A [Folder] has a name that no other folder has; names are compared exactly,
// letter case included. A [Symbol] lies in one folder and carries a name, a
// MIME type and its data, a text that this package never looks into. Deleting
// a folder deletes its symbols.
//
// The package bundle carries the symbols of a folder in a zip.
//
// # Versions
//
// Everything that can be read has a [Version]: the list of folders, a folder,
// the contents of a folder, and a symbol. A version is replaced in the same
// transaction as whatever is read with it changes, only then, and by one that
// was never there before. Who holds a version and finds it unchanged holds
// the present state. It is what makes entity tags and conditional writes.
package symbols
