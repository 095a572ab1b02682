package exports

import "context"

// Store keeps registered exports. It holds no rule: what it is given is valid
// and complete, and it decides nothing but identity and the uniqueness of
// source addresses, which are compared exactly.
//
// Every method may be called concurrently, with each other and with those of
// other processes if the storage is shared. A change is visible to every call
// that starts after it has returned, and is not lost once it has returned.
// Records are values; a store keeps no reference to what it was given and
// gives no reference to what it keeps. Times come and go in UTC with
// millisecond precision. Source addresses have up to MaxAddress characters.
//
// Any error but [ErrNotFound] means that the store could not answer, and that
// nothing was changed unless the answer to a commit was lost. When ctx ends,
// methods return soon, with an error.
type Store interface {
	// Put stores an export. If its source address has none yet, it gets a
	// new id, whatever id it came with; else it takes the place, the id and
	// the CreatedAt of the former one. Put returns the export as stored and
	// whether it is new. Ids are positive, ascending, and never used again:
	// not after a deletion, not after a restart.
	Put(ctx context.Context, export Export) (stored Export, created bool, err error)

	// Find returns the exports of those source addresses that have one, in
	// any order, each once however often its address is given.
	Find(ctx context.Context, sources ...string) ([]Export, error)

	// Delete removes the export of a source address, or returns
	// [ErrNotFound].
	Delete(ctx context.Context, source string) error
}
