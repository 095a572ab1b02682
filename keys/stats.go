package keys

import (
	"sync/atomic"
	"time"
)

// Stats counts what [Service.Verify] and [Service.VerifyDigest] have done since the
// Service was created.
type Stats struct {
	Hits     uint64 // served from the cache
	Misses   uint64 // read from the store and cached
	Uncached uint64 // read from the store because no lease was valid

	// Checks that failed, by error.
	Malformed   uint64
	Unknown     uint64
	Inactive    uint64
	Expired     uint64
	Unavailable uint64
	Denied      uint64 // by the function of VerifyFunc

	// LeaseAge is the time since the last successful [Store.Changes] call
	// began. It is negative before the first one and after Run. It grows after a
	// minute without checks.
	LeaseAge time.Duration
}

// counters are the counters of [Stats].
type counters struct {
	hits, misses, uncached                             atomic.Uint64
	malformed, unknown, inactive, expired, unavailable atomic.Uint64
	denied                                             atomic.Uint64
}

// countError counts a failed check.
func (c *counters) countError(err error) {
	switch err {
	case ErrMalformed:
		c.malformed.Add(1)
	case ErrUnknown:
		c.unknown.Add(1)
	case ErrInactive:
		c.inactive.Add(1)
	case ErrExpired, ErrTokenExpired:
		c.expired.Add(1)
	default:
		c.unavailable.Add(1)
	}
}
