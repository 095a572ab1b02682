package bodies

import (
	"container/list"
	"sync"

	"example.com/canvasback/symbols"
)

// cache keeps parts, one version of each, and evicts the least recently used. It is
// safe for concurrent use.
type cache struct {
	limit int64 // bytes

	mu      sync.Mutex
	entries map[partKey]*list.Element // the values are cacheEntry
	recent  *list.List                // the least recently used last
	size    int64
}

type cacheEntry struct {
	key partKey
	*part
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, entries: make(map[partKey]*list.Element), recent: list.New()}
}

// has reports whether there is a part with the key, of any version.
func (c *cache) has(key partKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[key] != nil
}

// get returns the part with a key at version, or nil.
func (c *cache) get(key partKey, version symbols.Version) *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil || element.Value.(cacheEntry).version != version {
		return nil
	}
	c.recent.MoveToFront(element)
	return element.Value.(cacheEntry).part
}

// put replaces the entry with a key and evicts others. Of a part that is longer than a
// quarter of the cache, and than 4 MiB, it keeps only that it is an image.
func (c *cache) put(key partKey, p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if previous := c.entries[key]; previous != nil {
		c.evict(previous)
	}
	if p.cost() > max(c.limit/4, 4<<20) {
		p = &part{version: p.version, image: p.image, dropped: true}
	}
	if p.cost() > c.limit || p.dropped && p.image == (ImageInfo{}) {
		return
	}
	c.entries[key] = c.recent.PushFront(cacheEntry{key, p})
	c.size += p.cost()
	for c.size > c.limit {
		c.evict(c.recent.Back())
	}
}

func (c *cache) evict(element *list.Element) {
	entry := c.recent.Remove(element).(cacheEntry)
	delete(c.entries, entry.key)
	c.size -= entry.cost()
}
