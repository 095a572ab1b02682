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

// listKey identifies an encoded list, or another response with an ETag.
type listKey struct {
	kind   versionKind
	id     int64
	page   page
	fields fieldSet
	gzip   bool // if the client accepts it
}

// encodedList is an encoded list, or another body, at a version. A nil body means that the list is
// longer than maxCachedList.
type encodedList struct {
	version symbols.Version
	body    [][]byte // parts, read only
	gzip    bool     // the body is compressed
	image   encodedImage
	next    int64 // the id after which the next page begins, or 0

	// after is 0 if the body is complete. Otherwise the body ends with the
	// symbol of this id, and may already include changes after version.
	after int64
}

// size returns how many bytes the list takes in the cache.
func (l encodedList) size() int64 {
	size := int64(1 << 10) // overhead of an entry
	for _, part := range l.body {
		size += int64(cap(part))
	}
	return size
}

// listCache caches the most recently used lists, one version of each. Concurrent
// misses share one fill.
type listCache struct {
	limit int64 // bytes
	plain bool  // cache lists that are not compressed
	fills singleflight.Group

	mu      sync.Mutex
	entries map[listKey]*list.Element // the values are cacheEntry
	recent  *list.List                // the least recently used last
	size    int64
}

type cacheEntry struct {
	key listKey
	encodedList
}

func newListCache(limit int64, plain bool) *listCache {
	return &listCache{limit: limit, plain: plain, entries: make(map[listKey]*list.Element), recent: list.New()}
}

// get returns the list with a key at version, or at a later one. The caller must
// have read version after its request arrived.
//
// Requests share a fill only if they have read the same version. A fill reads the
// list after one of them has read version, so its list is not older. Waiters have
// the deadline and the error of the request that fills.
func (c *listCache) get(key listKey, version symbols.Version, fill func() (encodedList, error)) (encodedList, error) {
	if found, ok := c.lookup(key, version); ok {
		return found, nil
	}
	result, err, _ := c.fills.Do(fmt.Sprint(key, " ", version), func() (any, error) {
		if found, ok := c.lookup(key, version); ok { // filled since the first lookup
			return found, nil
		}
		filled, err := fill()
		if err == nil {
			c.put(key, filled)
		}
		return filled, err
	})
	if err != nil {
		return encodedList{}, err
	}
	return result.(encodedList), nil
}

func (c *listCache) lookup(key listKey, version symbols.Version) (encodedList, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil || element.Value.(cacheEntry).version != version {
		return encodedList{}, false
	}
	c.recent.MoveToFront(element)
	return element.Value.(cacheEntry).encodedList, true
}

// put replaces the entry with a key and evicts others. For a list that is too
// long, it caches only this fact.
func (c *listCache) put(key listKey, filled encodedList) {
	if filled.after > 0 || filled.size() > maxCachedList {
		filled = encodedList{version: filled.version, image: filled.image}
	}
	if !c.plain && !key.gzip && key.kind != imageKind {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if previous := c.entries[key]; previous != nil {
		c.evict(previous)
	}
	if filled.size() > c.limit {
		return
	}
	c.entries[key] = c.recent.PushFront(cacheEntry{key, filled})
	c.size += filled.size()
	for c.size > c.limit {
		c.evict(c.recent.Back())
	}
}

func (c *listCache) evict(element *list.Element) {
	entry := c.recent.Remove(element).(cacheEntry)
	delete(c.entries, entry.key)
	c.size -= entry.size()
}
