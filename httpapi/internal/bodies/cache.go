package bodies

import (
	"container/list"
	"sync"

	"example.com/canvasback/symbols"
)

// cache keeps contents, one version of each, and evicts the least recently used. It is
// safe for concurrent use.
type cache struct {
	limit   int64 // bytes
	longest int64 // bytes of a content, which may be above the limit if it is the only one

	mu      sync.Mutex
	entries map[Key]*list.Element // the values are cacheEntry
	recent  *list.List            // the least recently used last
	size    int64
}

type cacheEntry struct {
	key Key
	*content
}

func newCache(limit, longest int64) *cache {
	return &cache{limit: limit, longest: longest, entries: make(map[Key]*list.Element), recent: list.New()}
}

// get returns the content of a key at version, or nil.
func (c *cache) get(key Key, version symbols.Version) *content {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil || element.Value.(cacheEntry).version != version {
		return nil
	}
	c.recent.MoveToFront(element)
	return element.Value.(cacheEntry).content
}

// put replaces the entry with a key and evicts others. It keeps no longer content than
// longest.
func (c *cache) put(key Key, put *content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if previous := c.entries[key]; previous != nil {
		c.evict(previous)
	}
	if put.cost() > c.longest {
		return
	}
	c.entries[key] = c.recent.PushFront(cacheEntry{key, put})
	c.size += put.cost()
	for c.size > c.limit && c.recent.Len() > 1 {
		c.evict(c.recent.Back())
	}
}

func (c *cache) evict(element *list.Element) {
	entry := c.recent.Remove(element).(cacheEntry)
	delete(c.entries, entry.key)
	c.size -= entry.cost()
}
