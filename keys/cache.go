package keys

import (
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"
)

// entry is what a read of the store has found for a digest.
type entry struct {
	key    Key
	known  bool // false: the digest belongs to no key
	use    *use // nil if not known
	digest Digest
	epoch  int64 // known before the read began
}

// cache keeps entries by digest. An entry counts only under a lease with the
// very epoch that was known before the entry was read: whatever has changed
// since has changed the epoch too.
//
// It is made of many small maps that are replaced whenever something is added,
// so that looking up takes no lock. Digests are as good as random, so parts of
// them do for the choice of the map and for the place in it.
type cache struct {
	shards [256]shard
	limit  int // of entries in a shard
}

type shard struct {
	mu      sync.Mutex // among those who replace entries
	entries atomic.Pointer[map[uint64]*entry]
}

func newCache(size int) *cache {
	c := new(cache)
	c.limit = max(1, size/len(c.shards))
	return c
}

// place is where a digest has its entry.
func (c *cache) place(digest *Digest) (*shard, uint64) {
	return &c.shards[digest[0]], binary.NativeEndian.Uint64(digest[1:])
}

// get returns the entry of a digest if it counts under the lease, which may be
// nil.
func (c *cache) get(digest *Digest, under *lease) *entry {
	s, place := c.place(digest)
	entries := s.entries.Load()
	if entries == nil || under == nil {
		return nil
	}
	if e := (*entries)[place]; e != nil && e.epoch == under.epoch && e.digest == *digest {
		return e
	}
	return nil
}

// put adds an entry. To make room it drops entries of other epochs, which will
// not count again, and if that is not enough, any.
func (c *cache) put(e *entry) {
	s, place := c.place(&e.digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[uint64]*entry)
	if former := s.entries.Load(); former != nil {
		if len(*former) < c.limit {
			next = maps.Clone(*former)
		} else {
			for other, kept := range *former {
				if kept.epoch == e.epoch && len(next) < c.limit-1 {
					next[other] = kept
				}
			}
		}
	}
	next[place] = e
	s.entries.Store(&next)
}
