package exports

import "context"

// Store stores exports. It enforces no rules: its input is valid and complete.
// It is responsible for identity and unique source URLs, which are compared
// exactly and have up to [MaxURLLength] code points.
//
// All methods are safe for concurrent use, by several processes if the store is
// shared. When a method returns, its change is durable and visible to every call
// that starts later. Records are values: a store keeps no reference to its input
// and returns no reference to its data. Times are UTC with millisecond
// precision.
//
// Methods return [ErrNotFound] as documented. Any other error means that the
// store is unavailable, and that nothing was changed unless only the response to
// a commit was lost. When ctx ends, methods promptly return an error.
type Store interface {
	// Put stores an export under a new id, ignoring the id it has. If the
	// source URL already has an export, Put replaces it and keeps its id and
	// CreatedAt. It returns the export as stored and whether it is new. Ids
	// are positive, ascending and never reused, not even after a deletion or
	// a restart.
	Put(ctx context.Context, export Export) (stored Export, created bool, err error)

	// Find returns the exports of the source URLs that have one, in any
	// order, each once even if its source URL is given more than once.
	Find(ctx context.Context, sources ...string) ([]Export, error)

	// Delete removes the export of a source URL, or returns [ErrNotFound].
	Delete(ctx context.Context, source string) error
}
