package exports

import (
	"sync"
	"time"
)

// sharedLink is a link that [Service.ShareLink] has made, until half of its lifetime is
// over.
type sharedLink struct {
	token string
	until time.Time
}

// cache remembers values by digest. It is safe for concurrent use.
type cache[V any] struct {
	limit int // of the costs of all values

	mu     sync.Mutex
	values map[Digest]V
	cost   int // of the values that were added
}

func newCache[V any](limit int) *cache[V] { return &cache[V]{limit: limit, values: make(map[Digest]V)} }

func (c *cache[V]) get(key Digest) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[key]
}

// put adds a value in place of another. It evicts all others if they cost too much.
func (c *cache[V]) put(key Digest, value V, cost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cost += cost; c.cost > c.limit {
		clear(c.values)
		c.cost = cost
	}
	c.values[key] = value
}
