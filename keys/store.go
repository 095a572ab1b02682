package keys

import "context"

// Store stores keys. It enforces no rules: its input is valid and complete. It is
// responsible for identity and for the epoch.
//
// All methods are safe for concurrent use, by several processes if the store is
// shared. When a method returns, its change is durable and visible to every call
// that starts later. Records are values: a store keeps no reference to its input
// and returns no reference to its data. Times are UTC with millisecond
// precision; the zero time means none.
//
// Methods return [ErrNotFound] as documented. Any other error means that the
// store is unavailable, and that nothing was changed unless only the response to
// a commit was lost. When ctx ends, methods promptly return an error.
type Store interface {
	// Insert stores a key under a new id, ignoring the id it has, and returns
	// it with the new one. Ids are positive, ascending and never reused, not
	// even after a deletion or a restart.
	Insert(ctx context.Context, key Key) (Key, error)

	// Get returns the key with the id, or [ErrNotFound].
	Get(ctx context.Context, id int64) (Key, error)

	// List returns all keys, ids ascending.
	List(ctx context.Context) ([]Key, error)

	// Update reads the key with the id, calls change to modify it, and stores
	// the result in the same transaction: concurrent updates of one key are
	// serialized. It returns the key as stored, or [ErrNotFound].
	//
	// If change returns an error, nothing is stored and Update returns that
	// error. Update may call change more than once; change must not call the
	// store. Changes of ID, CreatedAt and LastUsedAt are ignored.
	Update(ctx context.Context, id int64, change func(*Key) error) (Key, error)

	// Delete removes the key with the id, or returns [ErrNotFound].
	Delete(ctx context.Context, id int64) error

	// Find returns the key with the digest, or [ErrNotFound]. Client requests
	// wait for it. It must see every change that has returned, so it must not
	// read from an asynchronous replica.
	Find(ctx context.Context, digest Digest) (Key, error)

	// Touch moves LastUsedAt of each key forward to the given time. It
	// ignores keys that do not exist or have a later LastUsedAt, and changes
	// neither UpdatedAt nor the epoch. No id appears twice in uses.
	Touch(ctx context.Context, uses []Use) error

	// Epoch returns a number that increases in the same transaction as every
	// insertion, every deletion, and every change of Digest, Active or
	// ExpiresAt, no matter who makes it. While it is unchanged, so are the
	// results of Find. An epoch must not recur when another database takes
	// the place of this one, such as an older backup.
	Epoch(ctx context.Context) (int64, error)

	// Shared reports whether other processes may change the keys.
	Shared() bool
}
