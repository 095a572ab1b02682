package keys

import "context"

// Store keeps keys. It holds no rule: what it is given is valid, complete and
// ready to be stored, and it decides nothing but identity and existence.
//
// Every method may be called concurrently, with each other and with those of
// other processes if the storage is shared. A change is visible to every call
// that starts after it has returned, and is not lost once it has returned.
// Records are values; a store keeps no reference to what it was given and
// gives no reference to what it keeps. Times come and go in UTC with
// millisecond precision, a zero time being "none".
//
// A method returns [ErrNotFound] where it says so. Any other error means that
// the store could not answer, and that nothing was changed unless the answer
// to a commit was lost. When ctx ends, methods return soon, with an error.
type Store interface {
	// Insert stores a new key under a new id and returns it with that id,
	// whatever id it came with. Ids are positive, ascending, and never used
	// again: not after a deletion, not after a restart.
	Insert(ctx context.Context, key Key) (Key, error)

	// Get returns the key with the id, or [ErrNotFound].
	Get(ctx context.Context, id int64) (Key, error)

	// List returns all keys, ids ascending.
	List(ctx context.Context) ([]Key, error)

	// Update reads the key with the id, lets change alter it, and stores the
	// outcome, all in one transaction: concurrent updates of one key happen
	// one after the other. It returns the key as stored, or [ErrNotFound].
	//
	// If change fails, nothing is stored and Update returns that error. The
	// function may be called more than once and must not call the store.
	// What it does to ID, CreatedAt and LastUsedAt is not stored.
	Update(ctx context.Context, id int64, change func(*Key) error) (Key, error)

	// Delete removes the key with the id, or returns [ErrNotFound].
	Delete(ctx context.Context, id int64) error

	// Find returns the key with the digest, or [ErrNotFound]. It is on the
	// path of client requests. It must see every change that has returned,
	// so it may not ask a replica that lags behind.
	Find(ctx context.Context, digest Digest) (Key, error)

	// Touch moves LastUsedAt of each key forward to the time given; where it
	// is as late already, or the key does not exist, nothing happens. It
	// changes neither UpdatedAt nor the epoch. No id appears twice.
	Touch(ctx context.Context, uses []Use) error

	// Epoch returns a number that is raised in the same transaction as every
	// insertion, every deletion, and every change of Digest, Active or
	// ExpiresAt, by whomever it is made. As long as it stays, the outcome of
	// Find does too. It is not met again in a storage that takes the place of
	// this one.
	Epoch(ctx context.Context) (int64, error)

	// Shared reports whether other processes may change the same keys.
	Shared() bool
}
