package auth

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// recentUse is how long after its last use a right admin key passes the limit of the
	// client IP that has used it.
	recentUse = time.Hour

	// minRecentKey is the length from which a key cannot be guessed in that time.
	minRecentKey = 16
)

// recentUses remembers which client IPs have used which admin keys rightly, so that
// wrong keys of others behind the same IP do not lock an administrator out.
type recentUses struct {
	seed maphash.Seed
	mu   sync.Mutex
	ends expiries // by IP and key number
}

// recentID is a client IP and the number of an admin key.
type recentID struct {
	ip     string
	number int
}

func newRecentUses() *recentUses {
	return &recentUses{seed: maphash.MakeSeed(), ends: make(expiries)}
}

func (r *recentUses) has(id recentID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.ends[maphash.Comparable(r.seed, id)])
}

func (r *recentUses) add(id recentID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.ends.makeRoom(now)
	r.ends[maphash.Comparable(r.seed, id)] = now.Add(recentUse)
}
