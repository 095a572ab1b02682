package keys

import (
	"context"
	"time"
)

// Store stores keys. It enforces no rules: its input is valid and complete. It is
// responsible for identity, for digests that no two keys share, and for the log of changes.
//
// All methods are safe for concurrent use, by several processes if the store is shared. When a
// method returns, its change is durable and visible to every call that starts later. Records
// are values: a store keeps no reference to its input and returns no reference to its data.
// Times are UTC with millisecond precision; the zero time means none.
//
// Methods return the errors that their comments name; those that write do so only if what
// they have read is durable. Any other error means that the store is unavailable, and that
// nothing was changed unless only the response to a commit was lost. When ctx ends,
// methods promptly return an error.
//
// # Epoch and log
//
// A store has an epoch and a log. Both cover what determines the results of Find:
// insertions, deletions, and changes of Digest, PreviousDigest, PreviousExpiresAt,
// Active, ExpiresAt, Owner and Scopes, no matter who makes them. Each such change
// raises the epoch and appends to the log, in the same transaction, the values of
// Digest before and after it, and then those of PreviousDigest, each once and
// unless zero.
//
// Other changes do neither. The order of the log is the order in which changes
// become visible.
//
// The epoch increases by random steps from a random start. It does not recur when
// another database takes the place of this one, such as an older backup. The log
// is bounded: a store discards its oldest entries, and may discard all of them,
// for example when one statement changes many keys.
type Store interface {
	// Insert stores a key under a new id, ignoring the id and the UseCount it
	// has, and returns it with the new id and a UseCount of 0. Ids are positive,
	// ascending and never reused, not even after a deletion or a restart.
	Insert(ctx context.Context, key Key) (Key, error)

	// Import stores keys under new ids, in this order, all or none, and returns the ids.
	// There is at least one. Their digests are different, and they have the same CreatedAt.
	// A PreviousDigest that equals one of them and ends by then is removed from its key, in
	// any case. If another key has one as its Digest or PreviousDigest, the error is a
	// [TakenError] for the first one.
	Import(ctx context.Context, list []Key) (ids []int64, err error)

	// Get returns the key with the id, or [ErrNotFound].
	Get(ctx context.Context, id int64) (Key, error)

	// List returns a page of the keys that the filter selects. Its cost does not
	// depend on the number of other keys.
	List(ctx context.Context, filter Filter, r Range) (Page, error)

	// Update reads the keys with the ids, calls change to modify them, and stores
	// those that differ in the same transaction: concurrent updates of one key are
	// serialized. It returns the keys as stored. The ids are different; keys have
	// ascending ids, and ids without a key are left out, even if none remains.
	//
	// If change returns an error, nothing is stored and Update returns that
	// error. Update may call change more than once; change must not call the
	// store. Changes of ID, CreatedAt, LastUsedAt and UseCount are ignored.
	Update(ctx context.Context, ids []int64, change func([]Key) error) ([]Key, error)

	// Delete removes the keys with the ids and returns them, or none and the error of
	// check. It reads, calls and returns as Update does.
	Delete(ctx context.Context, ids []int64, check func([]Key) error) ([]Key, error)

	// Find returns the key whose Digest or PreviousDigest is the given one, no
	// matter when it ends, or [ErrNotFound]. Client requests wait for it. It must
	// see every change that has returned, so it must not read from an asynchronous
	// replica.
	Find(ctx context.Context, digest Digest) (Key, error)

	// FindID is Find for the key with the id.
	FindID(ctx context.Context, id int64) (Key, error)

	// Touch adds Count to the UseCount of each key, and moves its LastUsedAt
	// forward to At. A stored LastUsedAt more than [MaxClockSkew] after now is
	// replaced by At.
	//
	// It adds the uses of each day to the usage of the key, under the owner that the key
	// has now.
	//
	// If a use has a PublicKey, Touch stores it with the Digest or PreviousDigest that
	// equals that of the use.
	//
	// Touch ignores a use if no key has both the ID and the CreatedAt, because
	// ids can repeat after a failover that lost commits, and if At is before
	// CreatedAt. It changes neither UpdatedAt nor the epoch, and logs nothing.
	// No pair of ID and CreatedAt appears twice in uses.
	Touch(ctx context.Context, uses []Use, now time.Time) error

	// Usage returns the usage of keys since a day, in any order: of those with the ids, or
	// the sum of all if ids is nil; of one owner unless that is nil. Usage outlives its key.
	Usage(ctx context.Context, ids []int64, owner *string, since int64) ([]UsageRow, error)

	// PruneUsage removes the usage of days before a day, at most the given number of
	// rows, and returns how many it has removed.
	PruneUsage(ctx context.Context, before int64, most int) (removed int, err error)

	// Changes returns the epoch and the digests that the log has after the epoch
	// since, all read at one instant. Like Find, it must see every change that
	// has returned, except for the Age of the result. That should be less than the
	// time until the deadline of ctx.
	//
	// Since may be any number, such as 0 or the epoch of another database. If the
	// log does not contain it, or it is higher than the epoch, the result is not
	// Complete and has no digests.
	Changes(ctx context.Context, since int64) (Changes, error)

	// Shared reports whether other processes may change the keys.
	Shared() bool
}

// MaxClockSkew is how far in the future a LastUsedAt may be. A later one was
// recorded under a wrong clock.
const MaxClockSkew = time.Minute

// Changes is the result of [Store.Changes].
type Changes struct {
	Epoch int64

	// Digests are in the order of the log. One may appear several times.
	Digests []Digest

	// Age is how old the result may be: it reflects every change that had returned
	// when the call began, less Age. It is 0 unless processes share what they ask.
	Age time.Duration

	// Complete means that Find has had the same results since the given epoch
	// for all digests but these; names may differ. If it is false, any result may differ.
	Complete bool
}

// UsageRow is what a [Store] has of the usage of a key, or of all with KeyID 0. Day is a
// number of days since 1970-01-01 UTC.
type UsageRow struct {
	KeyID    int64
	Day      int64
	Requests int64
}
