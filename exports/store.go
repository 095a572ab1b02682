package exports

import "context"

// Store keeps registered exports. It enforces no rule but identity and the
// uniqueness of source URLs, which are compared exactly: its input is valid and
// complete.
//
// Every method may be called concurrently, with each other and with those of
// other processes if the storage is shared. A change is visible to every call
// that starts after it has returned, and is not lost once it has returned.
// Records are values; a store keeps no reference to its input and returns no
// reference to its data. Times are UTC with millisecond precision. Source URLs
// have up to MaxURLLength characters.
//
// An error other than [ErrNotFound] means that the store is unavailable. Nothing
// was changed then, unless the response to a commit was lost. When ctx ends,
// methods return an error soon.
type Store interface {
	// Put stores an export under a new id, whatever its ID field says. If its
	// source URL has an export already, it replaces that one and keeps its id
	// and CreatedAt. Put returns the export as stored and whether it is new.
	// Ids are positive, ascending, and never reused, not even after a
	// deletion or a restart.
	Put(ctx context.Context, export Export) (stored Export, created bool, err error)

	// Find returns the exports of the source URLs that have one, in any
	// order, each once even if its source URL is given several times.
	Find(ctx context.Context, sources ...string) ([]Export, error)

	// Delete removes the export of a source URL, or returns [ErrNotFound].
	Delete(ctx context.Context, source string) error
}
