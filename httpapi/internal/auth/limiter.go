package auth

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// maxClientIPs limits the entries of a limiter, and of recentUses.
const maxClientIPs = 1 << 14

// limiter counts wrong keys by client IP with the generic cell rate algorithm (GCRA).
type limiter struct {
	burst    int // negative: unlimited
	interval time.Duration

	seed maphash.Seed
	mu   sync.Mutex
	tats expiries[uint64] // theoretical arrival times, by hash of the IP, which may be long
}

func newLimiter(burst int, interval time.Duration) *limiter {
	return &limiter{burst: burst, interval: interval, seed: maphash.MakeSeed(), tats: make(expiries[uint64])}
}

// Network returns the network of an IPv6 address, to which a limit applies, and any
// other text unchanged.
func Network(clientIP string) string {
	ip, err := netip.ParseAddr(clientIP)
	if err != nil || ip.Unmap().Is4() {
		return clientIP
	}
	prefix, _ := ip.WithZone("").Prefix(64) // one customer has a /64 or more; no error for IPv6
	return prefix.String()
}

// take counts a wrong key, unless count is false. It returns a [LimitError] if the
// client IP is over its limit.
func (l *limiter) take(ip string, count bool) error {
	if l.burst < 0 {
		return nil
	}
	now := time.Now()
	hash := maphash.String(l.seed, ip)
	l.mu.Lock()
	defer l.mu.Unlock()
	tat := l.tats[hash]
	if tat.Before(now) {
		tat = now
	}
	tolerance := time.Duration(min(float64(l.burst)*float64(l.interval), 1<<62)) // the product may overflow
	if wait := tat.Add(l.interval).Sub(now) - tolerance; wait > 0 {
		return &LimitError{wait}
	}
	if count {
		l.tats.makeRoom(now)
		l.tats[hash] = tat.Add(l.interval)
	}
	return nil
}

// refund undoes the count of a key that turned out to be right, or was not compared.
func (l *limiter) refund(ip string) {
	hash := maphash.String(l.seed, ip)
	l.mu.Lock()
	defer l.mu.Unlock()
	if tat, ok := l.tats[hash]; ok {
		l.tats[hash] = tat.Add(-l.interval)
	}
}

// expiries are times of something. Those in the past mean nothing.
type expiries[K comparable] map[K]time.Time

// makeRoom removes, if there are maxClientIPs entries, those that mean nothing and then
// others down to half, so that this is rare.
func (e expiries[K]) makeRoom(now time.Time) {
	if len(e) < maxClientIPs {
		return
	}
	for key, end := range e {
		if end.Before(now) {
			delete(e, key)
		}
	}
	for key := range e {
		if len(e) <= maxClientIPs/2 {
			return
		}
		delete(e, key)
	}
}

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
