package keys

import "time"

// entry is the result of a store read for a digest. It is immutable.
type entry struct {
	key    Key
	known  bool // false: no key has the digest
	use    *use // nil unless known
	digest Digest
	read   time.Time // when the read began

	unsigned bool   // the store does not have the public key
	base     *entry // of the raw key, if this is the entry of a page token
}

func (e *entry) expired(now time.Time) bool { return now.Sub(e.read) >= maxEntryAge }

// usable is key.usable for a clock that may be set back: a key that has once been
// seen expired stays so until its expiry is changed, and so does a previous raw key.
func (e *entry) usable(now time.Time) error {
	if err := e.key.usable(now); err != nil {
		switch err {
		case ErrExpired:
			e.use.expiry.Store(e.key.ExpiresAt.UnixMilli())
		case ErrUnknown:
			e.use.previousExpiry.Store(e.key.PreviousExpiresAt.UnixMilli())
		}
		return err
	}
	switch {
	case e.key.isPrevious() && e.use.previousExpiry.Load() == e.key.PreviousExpiresAt.UnixMilli():
		return ErrUnknown
	case !e.key.ExpiresAt.IsZero() && e.use.expiry.Load() == e.key.ExpiresAt.UnixMilli():
		return ErrExpired
	}
	return nil
}
