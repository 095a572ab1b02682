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

	Owner  string // the application's reference; empty: none
	Scopes Scopes // the zero value permits everything

	// Digest is that of the raw key. In a key that Verify returned, it is that of
	// the given raw key, which may be the previous one.
	Digest Digest

	// The previous raw key is valid until PreviousExpiresAt, if Rotate was called
	// with an overlap. Both are zero otherwise.
	PreviousDigest    Digest
	PreviousExpiresAt time.Time

	// PublicKey checks the page tokens of the raw key, and PreviousPublicKey those of
	// the previous one. A zero one is not known yet.
	PublicKey         PublicKey
	PreviousPublicKey PublicKey

	// Token is the page token with which Verify has found the key, or nil. Scopes are
	// then what both permit.
	Token *Token

	Active     bool
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // zero: never
	UseCount   int64     // successful checks; those that are being written may count twice, or not at all, meanwhile
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Allows reports whether the key has the scope. It does not check whether the key
// is usable.
func (k *Key) Allows(scope string) bool { return k.Scopes.allow(scope) }

// ValidUntil returns when the raw key or page token with which Verify has found the key
// ends, or zero if never.
func (k *Key) ValidUntil() time.Time {
	end := k.ExpiresAt
	if k.isPrevious() && (end.IsZero() || k.PreviousExpiresAt.Before(end)) {
		end = k.PreviousExpiresAt
	}
	if k.Token != nil && (end.IsZero() || k.Token.ExpiresAt.Before(end)) {
		end = k.Token.ExpiresAt
	}
	return end
}

// isPrevious reports whether k was found by its PreviousDigest.
func (k *Key) isPrevious() bool {
	return !k.PreviousExpiresAt.IsZero() && k.Digest == k.PreviousDigest
}

func (k *Key) endPrevious() {
	k.PreviousDigest, k.PreviousPublicKey, k.PreviousExpiresAt = Digest{}, PublicKey{}, time.Time{}
}

// usable returns nil, or the error [ErrInactive] or [ErrExpired] of a check at the
// given time. It returns [ErrUnknown] for a previous raw key that has ended.
func (k *Key) usable(at time.Time) error {
	switch {
	case k.isPrevious() && !at.Before(k.PreviousExpiresAt):
		return ErrUnknown
	case !k.Active:
		return ErrInactive
	case !k.ExpiresAt.IsZero() && !at.Before(k.ExpiresAt):
		return ErrExpired
	}
	return nil
}

// Issued is a key and its raw key, or a page token, which cannot be retrieved later.
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
	Owner     *string    // up to 255 code points, not only white space; default none; "" removes it
	Scopes    *Scopes    // of [NewScopes]; default all, a pointer to the zero value
}

// Filter selects the keys of a list. The zero value selects all.
type Filter struct {
	Owner *string // only keys of exactly this owner, which is not empty; nil: of all
}

// Range selects the first records of a list with ids above After. The zero value
// selects all records.
type Range struct {
	After int64 // an id, which need not exist; 0: from the start
	Limit int   // the maximum number of records; 0 or less: no limit
}

// Page is a part of a list of keys, ids ascending.
type Page struct {
	Keys []Key
	More bool // keys with higher ids follow
}

// Use is what [Store.Touch] records of a key: when it was last used, and how
// often since the previous call.
type Use struct {
	ID        int64
	CreatedAt time.Time // of the key, which identifies it together with ID
	At        time.Time
	Count     int64
	Today     int64 // those of Count on the UTC day of At; the others were on the day before

	// PublicKey, unless zero, belongs to the raw key with the Digest.
	Digest    Digest
	PublicKey PublicKey
}

// Token is what a page token adds to its key.
type Token struct {
	ID        string // the first 8 hex digits of the token's SHA-256, for logs
	ExpiresAt time.Time
	Sources   []string // the only sources whose exports it is for; nil: all. It must not be changed.
}
