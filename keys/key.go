package keys

import "time"

// Key is the record of a client key. All times are UTC, truncated to the
// millisecond; the zero time means none.
type Key struct {
	ID   int64 // positive, ascending, never reused
	Name string

	// Prefix and Mask are for display only.
	Prefix string
	Mask   string

	Digest Digest // of the raw key

	Active     bool
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // zero: never
	UseCount   int64     // successful checks
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Expired reports whether the given time is ExpiresAt or later.
func (k *Key) Expired(at time.Time) bool {
	return !k.ExpiresAt.IsZero() && !at.Before(k.ExpiresAt)
}

// Usable returns nil, or the error [ErrInactive] or [ErrExpired] of a check at the
// given time.
func (k *Key) Usable(at time.Time) error {
	switch {
	case !k.Active:
		return ErrInactive
	case k.Expired(at):
		return ErrExpired
	}
	return nil
}

// Issued is a key and its raw key, which cannot be retrieved later.
type Issued struct {
	Key Key
	Raw RawKey
}

// Fields are the parts of a key that an administrator sets. An update leaves a
// nil field unchanged; Create gives it its default.
type Fields struct {
	Name      *string    // up to 255 code points, not only white space; default "API key"
	Active    *bool      // default true
	ExpiresAt *time.Time // default none; a pointer to the zero time removes it
}

// Use is what [Store.Touch] records of a key: when it was last used, and how
// often since the previous call.
type Use struct {
	ID        int64
	CreatedAt time.Time // of the key, which identifies it together with ID
	At        time.Time
	Count     int64
}
