package auth

import (
	"sync"
	"time"
)

const (
	// recentTime is how long after its last use a right admin key passes the limit of the
	// client IP that has used it.
	recentTime = time.Hour

	// minRecentKey is the length from which a key cannot be guessed in that time.
	minRecentKey = 16
)

// recentUses remembers which client IPs have used which admin keys rightly, so that
// wrong keys of others behind the same IP do not lock an administrator out.
type recentUses struct {
	mu   sync.Mutex
	ends expiries[recentUse]
}

type recentUse struct {
	ip  string
	key *adminKey
}

func (r *recentUses) has(use recentUse) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.ends[use])
}

func (r *recentUses) add(use recentUse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.ends.makeRoom(now)
	r.ends[use] = now.Add(recentTime)
}
