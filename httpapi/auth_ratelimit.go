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

// Guessing bounds how often an address may send keys that are wrong. Beyond
// the bound such a key is answered 429 instead of 401, with the time to wait.
// A good key in its place is never held up, whoever else is at the same
// address: so this makes guessing show and takes its pace, but it is the length
// of an admin key that makes it hopeless. In the place of an admin key a client
// key is a wrong one, good or not, and the other way round.
//
// Each handler counts for itself.
type Guessing struct {
	// Burst is how many wrong keys an address may send at first; 1000 if
	// zero, and without bound if negative.
	Burst int

	// Interval is how long it takes until it may send one more; 100 ms if
	// zero.
	Interval time.Duration

	// Address says who has sent a request. If nil it is the address of the
	// connection, of which the first 64 bits count if it is an IPv6 one. A
	// host behind a proxy supplies its own: only it knows which header to
	// trust.
	Address func(*http.Request) string
}

// maxGuessers bounds the addresses that are remembered.
const maxGuessers = 1 << 14

// guesses counts wrong keys by address, as a generic cell rate algorithm: for
// each address it keeps the time at which its burst will be whole again.
type guesses struct {
	burst    int
	interval time.Duration
	address  func(*http.Request) string

	seed  maphash.Seed
	mu    sync.Mutex
	whole map[uint64]time.Time // by the hash of the address, which may be long
}

func newGuesses(g Guessing) *guesses {
	if g.Interval <= 0 {
		g.Interval = 100 * time.Millisecond
	}
	if g.Address == nil {
		g.Address = remoteAddress
	}
	return &guesses{
		burst:    cmp.Or(g.Burst, 1000),
		interval: g.Interval,
		address:  g.Address,
		seed:     maphash.MakeSeed(),
		whole:    make(map[uint64]time.Time),
	}
}

// remoteAddress is where a connection comes from.
func remoteAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	network, err := ip.WithZone("").Prefix(64) // what one customer has, at the least
	if err != nil {
		return host
	}
	return network.String()
}

// tooManyGuesses is the error for one wrong key too many.
type tooManyGuesses struct{ wait time.Duration }

func (*tooManyGuesses) Error() string { return "too many wrong keys from this address" }

// judge returns the error of a key check, or a tooManyGuesses if that check
// was one wrong key too many.
func (g *guesses) judge(r *http.Request, err error) error {
	wrong := errors.Is(err, errAdminKeyWrong) || errors.Is(err, keys.ErrMalformed) || errors.Is(err, keys.ErrUnknown)
	if !wrong || g.burst < 0 {
		return err
	}
	if wait := g.note(g.address(r), time.Now()); wait > 0 {
		return &tooManyGuesses{wait}
	}
	return err
}

// note counts a guess and returns how long the next one has to wait, zero if
// it need not.
func (g *guesses) note(address string, now time.Time) time.Duration {
	place := maphash.String(g.seed, address)
	g.mu.Lock()
	defer g.mu.Unlock()
	whole := g.whole[place]
	if whole.Before(now) {
		whole = now
	}
	if wait := whole.Add(g.interval).Sub(now) - time.Duration(g.burst)*g.interval; wait > 0 {
		return wait
	}
	if len(g.whole) >= maxGuessers {
		g.makeRoom(now)
	}
	g.whole[place] = whole.Add(g.interval)
	return 0
}

// makeRoom forgets the addresses that are whole again and, if that is not
// enough, others down to half: so much that it is seldom called.
func (g *guesses) makeRoom(now time.Time) {
	for place, whole := range g.whole {
		if whole.Before(now) {
			delete(g.whole, place)
		}
	}
	for place := range g.whole {
		if len(g.whole) <= maxGuessers/2 {
			return
		}
		delete(g.whole, place)
	}
}
