package keys

import (
	"sync/atomic"
	"time"
)

// Stats counts what [Service.Verify] has done since the Service was created.
type Stats struct {
	Hits     uint64 // answered from memory
	Misses   uint64 // looked for in memory, but not found
	Uncached uint64 // read from the store because no lease was valid

	// Refusals by reason, and checks that the store could not answer.
	Malformed   uint64
	Unknown     uint64
	Inactive    uint64
	Expired     uint64
	Unavailable uint64

	// EpochAge is how long ago the store was asked for the epoch that is
	// known. It is negative if none is.
	EpochAge time.Duration
}

// counts are the parts of [Stats] that are counted one by one.
type counts struct {
	hits                                               spread
	misses, uncached                                   atomic.Uint64
	malformed, unknown, inactive, expired, unavailable atomic.Uint64
}

// spread is a counter for what many processors count at the same time. Each
// part has a cache line of its own, and the time of day chooses one.
type spread [8]struct {
	n atomic.Uint64
	_ [56]byte
}

func (s *spread) add(now time.Time) { s[now.Nanosecond()>>5&7].n.Add(1) }

func (s *spread) sum() (sum uint64) {
	for i := range s {
		sum += s[i].n.Load()
	}
	return sum
}

// countError counts a failed check.
func (c *counts) countError(err error) {
	switch err {
	case ErrMalformed:
		c.malformed.Add(1)
	case ErrUnknown:
		c.unknown.Add(1)
	case ErrInactive:
		c.inactive.Add(1)
	case ErrExpired:
		c.expired.Add(1)
	default:
		c.unavailable.Add(1)
	}
}

// Stats returns the counts so far. They are read one after the other while
// checks go on, so sums may be off by a few.
func (s *Service) Stats() Stats {
	return Stats{
		Hits:        s.counts.hits.sum(),
		Misses:      s.counts.misses.Load(),
		Uncached:    s.counts.uncached.Load(),
		Malformed:   s.counts.malformed.Load(),
		Unknown:     s.counts.unknown.Load(),
		Inactive:    s.counts.inactive.Load(),
		Expired:     s.counts.expired.Load(),
		Unavailable: s.counts.unavailable.Load(),
		EpochAge:    s.leases.age(),
	}
}
