package exports

import "sync"

// planCache keeps links with their plans.
type planCache struct {
	mu    sync.Mutex
	links map[Digest]*Link
	size  int // of the encoded plans
}

// maxCachedPlans bounds the encoded plans in a cache. Decoded, they take a few times
// as much.
const maxCachedPlans = 4 * maxPlanSize

func newPlanCache() *planCache { return &planCache{links: make(map[Digest]*Link)} }

func (c *planCache) get(digest Digest) *Link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links[digest]
}

// put adds a link, unless there is one with a newer plan. It evicts arbitrary others
// while the cache is too large.
func (c *planCache) put(link *Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	digest := link.stored.Digest
	if previous := c.links[digest]; previous != nil && previous.stored.Version > link.stored.Version {
		return
	}
	c.remove(digest)
	c.links[digest] = link
	c.size += link.planSize
	for other := range c.links {
		if c.size <= maxCachedPlans {
			return
		}
		if other != digest {
			c.remove(other)
		}
	}
}

func (c *planCache) remove(digest Digest) {
	if link := c.links[digest]; link != nil {
		delete(c.links, digest)
		c.size -= link.planSize
	}
}
