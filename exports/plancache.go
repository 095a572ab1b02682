package exports

import "sync"

// planCache keeps links with their plans.
type planCache struct {
	mu    sync.Mutex
	links map[Digest]*Link
	size  int // of the encoded plans that were added
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

// put adds a link, unless there is one with a newer plan. It evicts all others if there
// are too many.
func (c *planCache) put(link *Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	digest := link.stored.Digest
	if previous := c.links[digest]; previous != nil && previous.stored.Version > link.stored.Version {
		return
	}
	if c.size += link.planSize; c.size > maxCachedPlans {
		clear(c.links)
		c.size = link.planSize
	}
	c.links[digest] = link
}
