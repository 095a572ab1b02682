package keys

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// maxEntryAge bounds how long an entry is served. Every change of a key except of its name
// evicts its entries; the bound is for names, and for changes that bypass the store's
// change log.
const maxEntryAge = time.Minute

// maxOfKey is how many slots of a set the entries of one key take at most. Those of its
// raw keys are two; its page tokens take a sixteenth, so that they cannot evict others.
const maxOfKey = 4

// cache holds entries by digest. A check may use it only under a valid [lease],
// except for tokens.
//
// The floor orders fills and evictions. Evicting raises it; a fill is dropped if
// the floor was raised since its read began, because the read may have missed
// the change. Both hold mu, so either the fill sees the new floor or the eviction
// sees the entry.
type cache struct {
	keys   table
	tokens table // with a valid signature, which no change of a key makes invalid

	mu    sync.Mutex // held by all writers of the tables
	floor atomic.Uint64
}

// put adds an entry whose read began under the floor.
func (c *cache) put(e *entry, floor uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.floor.Load() == floor {
		c.keys.put(e)
	}
}

func (c *cache) putToken(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens.put(e)
}

func (c *cache) evict(digests ...Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor.Add(1)
	for i := range digests {
		set, _ := c.keys.find(&digests[i])
		evictIf(set, func(e *entry) bool { return e.digest == digests[i] })
	}
}

// evictReadSince removes the entries whose reads began at t or later: with the zero
// time all.
func (c *cache) evictReadSince(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor.Add(1)
	evictIf(c.keys.slots, func(e *entry) bool { return !e.read.Before(t) })
}

// entry is what the store has for a digest. It is immutable.
type entry struct {
	key    Key
	use    *use
	digest Digest
	read   time.Time // when the read began

	wasGiven atomic.Bool // the raw key, whose form is accepted: others are found by tokens and links

	// The entry of a page token has no use. Its key consists of ID, Token, Scopes, which are
	// those of the token alone, and Digest, which is that of its raw key. See permitted.
	last atomic.Pointer[entry]
	base *entry // of the raw key, in the last one
}

func (e *entry) expired(now time.Time) bool { return now.Sub(e.read) >= maxEntryAge }

// usable is key.usable for a clock that may be set back: a key that has once been
// seen expired stays so until its expiry is changed, and so does a previous raw key.
func (e *entry) usable(now time.Time) error {
	err := e.key.usable(now)
	switch {
	case err == ErrExpired:
		e.use.expiry.Store(e.key.ExpiresAt.UnixMilli())
	case err == ErrUnknown:
		e.use.previousExpiry.Store(e.key.PreviousExpiresAt.UnixMilli())
	case err != nil:
	case e.key.isPrevious() && e.use.previousExpiry.Load() == e.key.PreviousExpiresAt.UnixMilli():
		err = ErrUnknown
	case !e.key.ExpiresAt.IsZero() && e.use.expiry.Load() == e.key.ExpiresAt.UnixMilli():
		err = ErrExpired
	}
	if e.key.Token != nil && err != ErrUnknown {
		return cmp.Or(e.key.Token.usable(now), err)
	}
	return err
}

// table is a hash table of fixed size. It consists of sets of slots: an entry can
// be in any slot of the set that its digest selects. Digests are uniformly
// distributed, so their bytes serve as hashes. Readers take no lock, and putting
// an entry costs the same in a full table as in an empty one.
type table struct {
	slots []atomic.Pointer[entry]
	sets  uint64
	ways  int // slots of a set: a power of two. Eight take one cache line.
}

func newTable(size, ways int) table {
	sets := max(1, size/ways)
	return table{make([]atomic.Pointer[entry], sets*ways), uint64(sets), ways}
}

// find returns the set of a digest, and the index of the slot that lookups probe
// first.
func (t *table) find(digest *Digest) (set []atomic.Pointer[entry], first int) {
	i, _ := bits.Mul64(binary.NativeEndian.Uint64(digest[:]), t.sets)
	return t.slots[int(i)*t.ways:][:t.ways], int(digest[8])
}

// get returns the entry of a digest, or nil.
func (t *table) get(digest *Digest, now time.Time) *entry {
	set, first := t.find(digest)
	for i := range set {
		e := set[(first+i)&(len(set)-1)].Load()
		if e != nil && e.digest == *digest && !e.expired(now) {
			return e
		}
	}
	return nil
}

// put adds an entry: in place of that of the same digest, or of another one of its key if
// these have all their slots, or else in the first slot that is free, or else in place of
// any one.
func (t *table) put(e *entry) {
	set, first := t.find(&e.digest)
	var free, own *atomic.Pointer[entry]
	owned := 0
	for i := range set {
		slot := &set[(first+i)&(len(set)-1)]
		switch other := slot.Load(); {
		case other != nil && other.digest == e.digest:
			slot.Store(e)
			return
		case other == nil || other.expired(e.read):
			free = cmp.Or(free, slot)
		case other.key.ID == e.key.ID:
			owned++
			own = slot
		}
	}
	if owned < maxOfKey {
		own = cmp.Or(free, &set[first&(len(set)-1)])
	}
	own.Store(e)
}

func evictIf(slots []atomic.Pointer[entry], condition func(*entry) bool) {
	for i := range slots {
		if e := slots[i].Load(); e != nil && condition(e) {
			slots[i].Store(nil)
		}
	}
}
