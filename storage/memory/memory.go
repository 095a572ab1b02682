// Package memory is a storage driver without persistence: data is lost at exit.
// It is meant for tests, demonstrations, and applications that load their data at
// every start.
//
// Apart from durability it meets the same contracts as the other drivers. One
// lock protects all data; functions passed to updates run under that lock.
package memory

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/internal/paging"
	"example.com/canvasback/symbols"
)

// DB provides stores in memory. It is safe for concurrent use. Use [New] to
// create one.
type DB struct {
	mu sync.RWMutex

	keys      map[int64]keys.Key
	keyIDs    []int64               // ascending
	ownerIDs  map[string][]int64    // the same by owner, without keys that have none
	digests   map[keys.Digest]int64 // current and previous ones
	lastKeyID int64
	usage     map[usageKey]int64 // requests
	changes   changeLog

	folders      map[int64]*folder
	folderNames  map[folderName]int64
	lastFolderID int64
	listVersions map[string]symbols.Version // of the folder lists of tenants
	emptyVersion symbols.Version
	position     symbols.Position // of the last change
	listChanges  map[string]int64 // numbers of changes of folder lists
	symbols      map[int64]symbols.Symbol
	lastSymbolID int64
	segments     map[int64]symbols.Version
	trash        map[int64]trashEntry
	lastTrashID  int64

	exports      map[int64]exports.Export
	sources      map[tenantSource]int64 // ids of exports
	exportIDs    []int64                // ascending
	lastExportID int64
	links        map[exports.Digest]exports.StoredLink
	facts        map[[32]byte]storedFact
	lastFactID   int64
}

// New returns an empty storage.
func New() *DB {
	return &DB{
		keys:         make(map[int64]keys.Key),
		ownerIDs:     make(map[string][]int64),
		digests:      make(map[keys.Digest]int64),
		usage:        make(map[usageKey]int64),
		changes:      changeLog{{epoch: 1 + rand.Int64N(math.MaxInt64/2)}},
		folders:      make(map[int64]*folder),
		folderNames:  make(map[folderName]int64),
		listVersions: make(map[string]symbols.Version),
		emptyVersion: newVersion(),
		position:     symbols.Position{History: int64(newVersion())},
		listChanges:  make(map[string]int64),
		symbols:      make(map[int64]symbols.Symbol),
		segments:     make(map[int64]symbols.Version),
		trash:        make(map[int64]trashEntry),
		exports:      make(map[int64]exports.Export),
		sources:      make(map[tenantSource]int64),
		links:        make(map[exports.Digest]exports.StoredLink),
		facts:        make(map[[32]byte]storedFact),
	}
}

// Keys returns the store of client keys.
func (db *DB) Keys() keys.Store { return keyStore{db} }

// Symbols returns the store of folders and symbols.
func (db *DB) Symbols() symbols.Store { return symbolStore{db: db} }

// Exports returns the store of registered exports.
func (db *DB) Exports() exports.Store { return exportStore{db} }

// read calls f while nobody changes data, unless ctx has ended.
func read[T any](ctx context.Context, db *DB, f func() (T, error)) (T, error) {
	return call(ctx, db.mu.RLocker(), f)
}

// write is read for a function that changes data.
func write[T any](ctx context.Context, db *DB, f func() (T, error)) (T, error) {
	return call(ctx, &db.mu, f)
}

// call calls f while it holds the lock, unless ctx has ended.
func call[T any](ctx context.Context, lock sync.Locker, f func() (T, error)) (value T, err error) {
	lock.Lock()
	defer lock.Unlock()
	if err := ctx.Err(); err != nil {
		return value, err
	}
	return f()
}

// change is write for a function without a value.
func (db *DB) change(ctx context.Context, f func() error) error {
	_, err := write(ctx, db, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// inRange returns the first ids above after, and whether others follow. A limit of
// 0 or less is none. The ids must be sorted.
func inRange(ids []int64, after int64, limit int) (selected []int64, more bool) {
	from, found := slices.BinarySearch(ids, after)
	if found {
		from++
	}
	return paging.Cut(ids[from:], limit)
}

// find returns the value of a key, or the error missing.
func find[K comparable, V any](values map[K]V, key K, missing error) (V, error) {
	value, ok := values[key]
	if !ok {
		return value, missing
	}
	return value, nil
}

// with adds an id to ascending ids.
func with(ids []int64, id int64) []int64 {
	at, _ := slices.BinarySearch(ids, id)
	return slices.Insert(ids, at, id)
}

// without removes an id from ascending ids, in place.
func without(ids []int64, id int64) []int64 {
	if i, found := slices.BinarySearch(ids, id); found {
		return slices.Delete(ids, i, i+1)
	}
	return ids
}

// newVersion returns a random version, which is practically unique across
// processes.
func newVersion() symbols.Version { return 1 + symbols.Version(rand.Int64N(math.MaxInt64)) }
