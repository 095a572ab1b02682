package httpapi

import (
	"container/list"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"

	"example.com/canvasback/symbols"
)

// maxCachedList is the maximum size in bytes of a cached list. Longer ones are
// streamed.
const maxCachedList = 4 << 20

// symbolList is the encoded contents of a folder at a version. A nil body means
// that the list is longer than maxCachedList.
type symbolList struct {
	version symbols.Version
	body    [][]byte // parts, read only

	// after is 0 if the body is complete. Otherwise the body ends with the
	// symbol of this id, and may already include changes after version.
	after int64
}

// size returns how many bytes the list takes in the cache.
func (l symbolList) size() int64 {
	size := int64(1 << 10) // overhead of an entry
	for _, part := range l.body {
		size += int64(cap(part))
	}
	return size
}

// listCache caches the encoded lists of the most recently used folders, one for
// each. Concurrent misses share one fill.
type listCache struct {
	limit int64 // bytes
	fills singleflight.Group

	mu      sync.Mutex
	entries map[int64]*list.Element // by folder; the values are cacheEntry
	recent  *list.List              // the least recently used last
	size    int64
}

type cacheEntry struct {
	folder int64
	symbolList
}

func newListCache(limit int64) *listCache {
	return &listCache{limit: limit, entries: make(map[int64]*list.Element), recent: list.New()}
}

// get returns the list of a folder at version, or at a later one. The caller must
// have read version after its request arrived.
//
// Requests share a fill only if they have read the same version. A fill reads the
// list after one of them has read version, so its list is not older. Waiters have
// the deadline and the error of the request that fills.
func (c *listCache) get(folder int64, version symbols.Version, fill func() (symbolList, error)) (symbolList, error) {
	if found, ok := c.lookup(folder, version); ok {
		return found, nil
	}
	result, err, _ := c.fills.Do(fmt.Sprint(folder, " ", version), func() (any, error) {
		filled, err := fill()
		if err == nil {
			c.put(folder, filled)
		}
		return filled, err
	})
	if err != nil {
		return symbolList{}, err
	}
	return result.(symbolList), nil
}

func (c *listCache) lookup(folder int64, version symbols.Version) (symbolList, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[folder]
	if element == nil || element.Value.(cacheEntry).version != version {
		return symbolList{}, false
	}
	c.recent.MoveToFront(element)
	return element.Value.(cacheEntry).symbolList, true
}

// put replaces the entry of a folder and evicts others. For a list that is too
// long, it caches only this fact.
func (c *listCache) put(folder int64, filled symbolList) {
	if filled.after > 0 || filled.size() > maxCachedList {
		filled = symbolList{version: filled.version}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if previous := c.entries[folder]; previous != nil {
		c.evict(previous)
	}
	if filled.size() > c.limit {
		return
	}
	c.entries[folder] = c.recent.PushFront(cacheEntry{folder, filled})
	c.size += filled.size()
	for c.size > c.limit {
		c.evict(c.recent.Back())
	}
}

func (c *listCache) evict(element *list.Element) {
	entry := c.recent.Remove(element).(cacheEntry)
	delete(c.entries, entry.folder)
	c.size -= entry.size()
}
