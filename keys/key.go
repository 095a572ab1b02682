package keys

import "time"

// Key is what is known of a client key. All times are UTC and cut to the
// millisecond; a zero time stands for "none".
type Key struct {
	ID   int64 // positive, counted from 1, never used again
	Name string

	// Prefix and Mask are for display only.
	Prefix string
	Mask   string

	// Digest is how the raw key is recognised.
	Digest Digest

	Active     bool
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // zero: not used yet
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Expired reports whether the key has expired at the given time. It has from
// the very instant of ExpiresAt.
func (k *Key) Expired(at time.Time) bool {
	return !k.ExpiresAt.IsZero() && !at.Before(k.ExpiresAt)
}

// Usable reports whether a check at the given time may succeed: the error is
// nil, [ErrInactive] or [ErrExpired].
func (k *Key) Usable(at time.Time) error {
	switch {
	case !k.Active:
		return ErrInactive
	case k.Expired(at):
		return ErrExpired
	}
	return nil
}

// Issued is a key together with its raw key, which is shown this once.
type Issued struct {
	Key Key
	Raw RawKey
}

// Fields are the parts of a key that its administrator chooses. A nil field is
// left as it is by an update and takes its default on creation.
type Fields struct {
	Name      *string    // default "API key"
	Active    *bool      // default true
	ExpiresAt *time.Time // default none; a pointer to the zero time clears it
}

// Use is the time of the latest known use of a key.
type Use struct {
	ID int64
	At time.Time
}
