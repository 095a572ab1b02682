// Package memory is a storage that forgets: what it keeps lives and dies with
// the process. It serves tests, demonstrations and hosts that fill it anew at
// every start.
//
// It keeps every promise of the other drivers but that of lasting. One lock
// guards all of it; an update by function runs under that lock.
package memory

import (
	"math"
	"math/rand/v2"
	"sync"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

// DB is a storage in memory. It is safe for concurrent use.
type DB struct {
	mu sync.RWMutex

	keys      map[int64]keys.Key
	digests   map[keys.Digest]int64
	lastKeyID int64
	epoch     int64

	folders        map[int64]*folder
	folderNames    map[string]int64
	lastFolderID   int64
	foldersVersion symbols.Version
	symbols        map[int64]symbols.Symbol
	lastSymbolID   int64

	exports      map[string]exports.Export
	lastExportID int64
}

// New returns an empty storage.
func New() *DB {
	return &DB{
		keys:           make(map[int64]keys.Key),
		digests:        make(map[keys.Digest]int64),
		epoch:          rand.Int64N(math.MaxInt64 / 2), // and so not that of another storage
		folders:        make(map[int64]*folder),
		folderNames:    make(map[string]int64),
		foldersVersion: newVersion(),
		symbols:        make(map[int64]symbols.Symbol),
		exports:        make(map[string]exports.Export),
	}
}

// Keys returns the store of client keys.
func (db *DB) Keys() keys.Store { return keyStore{db} }

// Symbols returns the store of folders and symbols.
func (db *DB) Symbols() symbols.Store { return symbolStore{db} }

// Exports returns the store of registered exports.
func (db *DB) Exports() exports.Store { return exportStore{db} }

// newVersion draws a version. None is met twice, neither here nor in another
// process.
func newVersion() symbols.Version {
	return 1 + symbols.Version(rand.Int64N(math.MaxInt64))
}
