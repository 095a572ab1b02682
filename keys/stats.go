package keys

import "time"

// Stats counts what [Service.Verify] and [Service.VerifyDigest] have done since the
// Service was created.
type Stats struct {
	Hits     uint64 // served from the cache
	Misses   uint64 // read from the store, and cached if the key exists
	Uncached uint64 // read from the store because no lease was valid

	Rejected    uint64 // checks that failed, except for an unavailable store
	Unavailable uint64 // checks that failed because of the store

	// LeaseAge is the time since the last successful [Store.Changes] call
	// began. It is negative before the first one and after Run. It grows after a
	// minute without checks.
	LeaseAge time.Duration
}

// Stats returns the counters. It does not read them as one snapshot, so sums
// may be off by concurrent checks.
func (s *Service) Stats() Stats {
	age := time.Duration(-1)
	if last := s.leases.last.Load(); last != nil {
		age = time.Since(last.requested)
	}
	return Stats{
		Hits:        s.stats.hits.Load(),
		Misses:      s.stats.misses.Load(),
		Uncached:    s.stats.uncached.Load(),
		Rejected:    s.stats.rejected.Load(),
		Unavailable: s.stats.unavailable.Load(),
		LeaseAge:    age,
	}
}
