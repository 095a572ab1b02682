package exports

import "sync"

// planCache keeps links with their plans. Whether one is the current plan is what the
// store says.
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

// put adds a link in place of one with another plan. It evicts all others if there are
// too many.
func (c *planCache) put(link *Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += link.planSize; c.size > maxCachedPlans {
		clear(c.links)
		c.size = link.planSize
	}
	c.links[link.stored.Digest] = link
}
