package keys

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// cache holds entries by digest. A check may use it only under a valid [lease].
//
// The floor orders fills and evictions. Evicting raises it; a fill is dropped if
// the floor was raised since its read began, because the read may have missed
// the change. Both hold mu, so either the fill sees the new floor or the eviction
// sees the entry.
type cache struct {
	known   table
	unknown table // a flood of unknown digests evicts no known ones

	mu    sync.Mutex // held by all writers of the tables
	floor atomic.Uint64
}

func newCache(size int) *cache {
	return &cache{known: newTable(size), unknown: newTable(min(size, maxUnknown))}
}

// get returns the entry of a digest, known or unknown, or nil.
func (c *cache) get(digest *Digest, now time.Time) *entry {
	if e := c.known.get(digest, now); e != nil {
		return e
	}
	return c.unknown.get(digest, now)
}

// put adds an entry whose read began under the floor.
func (c *cache) put(e *entry, floor uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.floor.Load() != floor:
	case e.known:
		c.known.put(e)
	default:
		c.unknown.put(e)
	}
}

// evict removes the entries of digests.
func (c *cache) evict(digests ...Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor.Add(1)
	for i := range digests {
		c.known.evict(&digests[i])
		c.unknown.evict(&digests[i])
	}
}

// clear removes all entries.
func (c *cache) clear() { c.evictReadSince(time.Time{}) }

// evictReadSince removes the entries whose reads began at t or later.
func (c *cache) evictReadSince(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor.Add(1)
	c.known.evictReadSince(t)
	c.unknown.evictReadSince(t)
}

// table is a hash table of fixed size. It consists of sets of slots: an entry can
// be in any slot of the set that its digest selects. Digests are uniformly
// distributed, so their bytes serve as hashes. Readers take no lock, and putting
// an entry costs the same in a full table as in an empty one.
type table []set

// set takes one cache line.
type set [8]atomic.Pointer[entry]

func newTable(size int) table { return make(table, max(1, size/len(set{}))) }

// find returns the set of a digest, and the index of the slot that lookups probe
// first.
func (t table) find(digest *Digest) (s *set, first int) {
	i, _ := bits.Mul64(binary.NativeEndian.Uint64(digest[:]), uint64(len(t)))
	return &t[i], int(digest[8])
}

// get returns the entry of a digest, or nil.
func (t table) get(digest *Digest, now time.Time) *entry {
	s, first := t.find(digest)
	for i := range len(s) {
		e := s[(first+i)%len(s)].Load()
		if e != nil && e.digest == *digest && !e.expired(now) {
			return e
		}
	}
	return nil
}

// put adds an entry in place of that of the same digest, or else in the first
// slot that is free, or else in place of any one.
func (t table) put(e *entry) {
	s, first := t.find(&e.digest)
	slot := &s[first%len(s)]
	for i := len(s) - 1; i >= 0; i-- {
		candidate := &s[(first+i)%len(s)]
		other := candidate.Load()
		if other != nil && other.digest == e.digest {
			slot = candidate
			break
		}
		if other == nil || other.expired(e.read) {
			slot = candidate
		}
	}
	slot.Store(e)
}

func (t table) evict(digest *Digest) {
	s, _ := t.find(digest)
	for i := range s {
		if e := s[i].Load(); e != nil && e.digest == *digest {
			s[i].Store(nil)
		}
	}
}

func (t table) evictReadSince(since time.Time) {
	for i := range t {
		for j := range t[i] {
			if e := t[i][j].Load(); e != nil && !e.read.Before(since) {
				t[i][j].Store(nil)
			}
		}
	}
}

// maxUnknown is the maximum number of cached digests of no key.
const maxUnknown = 1 << 13
