package keys

import (
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"
)

// entry is the result of a store read for a digest.
type entry struct {
	key    Key
	known  bool // false: no key has the digest
	use    *use // nil unless known
	digest Digest
	epoch  int64 // of the lease under which the read began
}

// cache holds entries by digest. An entry is valid only under a lease with the
// epoch that was current before the entry was read, because every change also
// changes the epoch.
//
// Each shard is a map that is copied on write, so that get takes no lock.
// Digests are uniformly distributed: their first bytes select shard and slot.
type cache struct {
	shards [256]shard
	limit  int // of entries in a shard
}

type shard struct {
	mu      sync.Mutex // serializes writers
	entries atomic.Pointer[map[uint64]*entry]
}

func newCache(size int) *cache {
	c := new(cache)
	c.limit = max(1, size/len(c.shards))
	return c
}

// slot returns the shard of a digest and its key there.
func (c *cache) slot(digest *Digest) (*shard, uint64) {
	return &c.shards[digest[0]], binary.NativeEndian.Uint64(digest[1:])
}

// get returns the entry of a digest if it is valid under the lease, or nil. A
// nil lease validates no entry.
func (c *cache) get(digest *Digest, l *lease) *entry {
	s, slot := c.slot(digest)
	entries := s.entries.Load()
	if entries == nil || l == nil {
		return nil
	}
	if e := (*entries)[slot]; e != nil && e.epoch == l.epoch && e.digest == *digest {
		return e
	}
	return nil
}

// put adds an entry. A full shard evicts the entries of other epochs, and
// arbitrary ones if that is not enough.
func (c *cache) put(e *entry) {
	s, slot := c.slot(&e.digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[uint64]*entry)
	if entries := s.entries.Load(); entries != nil {
		if len(*entries) < c.limit {
			next = maps.Clone(*entries)
		} else {
			for other, cached := range *entries {
				if cached.epoch == e.epoch && len(next) < c.limit-1 {
					next[other] = cached
				}
			}
		}
	}
	next[slot] = e
	s.entries.Store(&next)
}
