package httpapi

import (
	"container/list"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"

	"example.com/canvasback/symbols"
)

// shortBody is the maximum size in bytes of bodies that are encoded at the same time
// for the cache. Of longer ones it fills one at a time.
const shortBody = 4 << 20

// bodyKey identifies a body.
type bodyKey struct {
	versionKey
	page   page
	fields fieldSet
	image  bool
	gzip   bool // if the client accepts it
}

// encodedBody is the body of a response at a version.
type encodedBody struct {
	version symbols.Version
	parts   [][]byte // read only; nil if the cache has only the fact that it is long
	gzip    bool     // the parts are compressed
	image   imageHeader
	next    int64 // the id after which the next page begins, or 0

	// after is 0 if the body is complete. Otherwise it is a list that ends with
	// the symbol of this id, and may already include changes after version.
	after int64
	long  bool // too long for the cache
}

// size returns how many bytes the body takes in the cache.
func (b encodedBody) size() int64 {
	size := int64(1 << 10) // overhead of an entry
	for _, part := range b.parts {
		size += int64(cap(part))
	}
	return size
}

// bodyCache caches bodies, one version of each, and evicts the least recently used.
// Concurrent misses share one fill.
type bodyCache struct {
	limit   int64 // bytes
	maxBody int64 // bytes; longer lists are streamed
	fills   singleflight.Group
	filling sync.Mutex // held by the fill that is longer than shortBody

	mu      sync.Mutex
	entries map[bodyKey]*list.Element // the values are cacheEntry
	recent  *list.List                // the least recently used last
	size    int64
}

type cacheEntry struct {
	key bodyKey
	encodedBody
}

// newBodyCache returns a cache that takes size bytes of memory. A third of them is for
// what the garbage collector has not freed yet.
func newBodyCache(size int64) *bodyCache {
	return &bodyCache{limit: size - size/3, maxBody: max(size/4, shortBody), entries: make(map[bodyKey]*list.Element), recent: list.New()}
}

// get returns the body with a key at version, or at a later one. The caller must
// have read version after its request arrived.
//
// Requests share a fill only if they have read the same version. A fill reads the
// body after one of them has read version, so its body is not older. Waiters have
// the deadline and the error of the request that fills.
func (c *bodyCache) get(key bodyKey, version symbols.Version, fill func() (encodedBody, error)) (encodedBody, error) {
	if c.has(key) {
		if found, ok := c.lookup(key, version); ok {
			return found, nil
		}
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
		return encodedBody{}, err
	}
	return result.(encodedBody), nil
}

// has reports whether there is a body with the key, of any version.
func (c *bodyCache) has(key bodyKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[key] != nil
}

func (c *bodyCache) lookup(key bodyKey, version symbols.Version) (encodedBody, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil || element.Value.(cacheEntry).version != version {
		return encodedBody{}, false
	}
	c.recent.MoveToFront(element)
	return element.Value.(cacheEntry).encodedBody, true
}

// put replaces the entry with a key and evicts others. For a body that is too long,
// it caches only this fact.
func (c *bodyCache) put(key bodyKey, filled encodedBody) {
	if filled.long = filled.long || filled.size() > c.maxBody; filled.long {
		filled = encodedBody{version: filled.version, image: filled.image, long: true}
	}
	if filled.after > 0 {
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

func (c *bodyCache) evict(element *list.Element) {
	entry := c.recent.Remove(element).(cacheEntry)
	delete(c.entries, entry.key)
	c.size -= entry.size()
}
