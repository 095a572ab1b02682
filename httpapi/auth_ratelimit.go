package httpapi

import (
	"cmp"
	"errors"
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"example.com/canvasback/keys"
)

// RateLimit limits how many wrong keys a client IP may send. Beyond the limit a
// wrong key gets 429 with Retry-After and not 401. Accepted client keys always
// pass; on admin routes the limit holds for right keys too, which may be much
// shorter than client keys. A client key sent as x-admin-key counts as wrong, and
// so does an admin key sent as x-api-key; a missing key does not.
//
// The limit slows brute-force attacks and makes them visible. Only the length of
// the keys makes them infeasible.
type RateLimit struct {
	// Burst is how many wrong keys a client IP may send at once; 1000 if zero,
	// unlimited if negative.
	Burst int

	// Interval is the time after which one more is allowed; 100 ms if zero.
	Interval time.Duration

	// ClientIP returns the client IP of a request. If nil it is the remote
	// address of the connection. Limits of an IPv6 address hold for its /64
	// network. An application behind a proxy must set it, because only the
	// application knows which header to trust.
	ClientIP func(*http.Request) string
}

// maxClientIPs limits the entries of an authLimiter.
const maxClientIPs = 1 << 14

// authLimiter counts wrong keys by client IP with the generic cell rate
// algorithm (GCRA).
type authLimiter struct {
	burst    int
	interval time.Duration
	clientIP func(*http.Request) string

	seed maphash.Seed
	mu   sync.Mutex
	tats map[uint64]time.Time // theoretical arrival times, by hash of the IP, which may be long
}

func newAuthLimiter(limit RateLimit) *authLimiter {
	if limit.Interval <= 0 {
		limit.Interval = 100 * time.Millisecond
	}
	clientIP := limit.ClientIP
	if clientIP == nil {
		clientIP = remoteHost
	}
	return &authLimiter{
		burst:    cmp.Or(limit.Burst, 1000),
		interval: limit.Interval,
		clientIP: func(r *http.Request) string { return network(clientIP(r)) },
		seed:     maphash.MakeSeed(),
		tats:     make(map[uint64]time.Time),
	}
}

// remoteHost returns the remote address of the connection without the port.
func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// network returns the network of an IPv6 address, to which a limit applies, and any
// other text unchanged.
func network(clientIP string) string {
	ip, err := netip.ParseAddr(clientIP)
	if err != nil || ip.Unmap().Is4() {
		return clientIP
	}
	prefix, err := ip.WithZone("").Prefix(64) // one customer has a /64 or more
	if err != nil {
		return clientIP
	}
	return prefix.String()
}

// limit counts the error of a check of a client key if the key was wrong. It returns
// err, or a permitError if the client IP is over its limit.
func (l *authLimiter) limit(r *http.Request, err error) error {
	wrong := errors.Is(err, keys.ErrMalformed) || errors.Is(err, keys.ErrUnknown)
	if !wrong {
		return err
	}
	return cmp.Or(l.take(l.clientIP(r), true), err)
}

// take counts a wrong key, unless count is false. It returns a permitError if
// the client IP is over its limit.
func (l *authLimiter) take(ip string, count bool) error {
	if l.burst < 0 {
		return nil
	}
	if wait := l.allow(ip, time.Now(), count); wait > 0 {
		return &permitError{DeniedError{"too many wrong keys from this client IP", wait}, nil}
	}
	return nil
}

// refund undoes the count of a key that turned out to be right.
func (l *authLimiter) refund(ip string) {
	hash := maphash.String(l.seed, ip)
	l.mu.Lock()
	defer l.mu.Unlock()
	if tat, ok := l.tats[hash]; ok {
		l.tats[hash] = tat.Add(-l.interval)
	}
}

// allow returns how long the client IP has to wait, or zero. It then counts a wrong
// key, unless count is false.
func (l *authLimiter) allow(ip string, now time.Time, count bool) time.Duration {
	hash := maphash.String(l.seed, ip)
	l.mu.Lock()
	defer l.mu.Unlock()
	tat := l.tats[hash]
	if tat.Before(now) {
		tat = now
	}
	if wait := tat.Add(l.interval).Sub(now) - time.Duration(l.burst)*l.interval; wait > 0 {
		return wait
	}
	if !count {
		return 0
	}
	if len(l.tats) >= maxClientIPs {
		l.evict(now)
	}
	l.tats[hash] = tat.Add(l.interval)
	return 0
}

// evict removes the expired entries and then others down to half of the maximum,
// so that it is rarely called.
func (l *authLimiter) evict(now time.Time) {
	for hash, tat := range l.tats {
		if tat.Before(now) {
			delete(l.tats, hash)
		}
	}
	for hash := range l.tats {
		if len(l.tats) <= maxClientIPs/2 {
			return
		}
		delete(l.tats, hash)
	}
}
