package filefacts

import "context"

// save stores a fact, later, and returns it to the cache if it was evicted. The caller
// holds the lock.
func (c *Cache) save(f *Fact) {
	if c.facts[f.known.URL] == nil && !f.invalid {
		c.add(f)
	}
	if c.facts[f.known.URL] == f {
		c.unsaved[f.known.URL] = f
		f.nextSave = c.now().Add(saveInterval)
		c.loop.Start()
	}
}

// saveChanged stores what is new about the content. The caller holds the lock.
func (f *Fact) saveChanged() {
	if f.changed {
		f.cache.save(f)
	}
}

// nextWrite returns the next write to the store.
func (c *Cache) nextWrite() (write func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*Fact
	for url, f := range c.unsaved {
		if len(batch) == perWrite {
			break
		}
		batch = append(batch, f)
		delete(c.unsaved, url)
	}
	if len(batch) == 0 {
		return nil
	}
	return func() { c.write(batch) }
}

// write stores facts together with what other processes know of incomplete ones. What
// it cannot store is stored with the next change.
func (c *Cache) write(batch []*Fact) {
	var incomplete []Key
	c.mu.Lock()
	for _, f := range batch {
		if !f.blocks.isComplete() {
			incomplete = append(incomplete, f.known.URL)
		}
	}
	c.mu.Unlock()
	if len(incomplete) > 0 {
		if _, err := c.Load(context.Background(), incomplete); err != nil {
			return
		}
	}
	var records []Record
	c.mu.Lock()
	for _, f := range batch {
		records = append(records, f.encode())
		f.changed, f.storedAt = false, f.known.SeenAt
	}
	c.mu.Unlock()
	if c.put(records) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range batch {
		f.changed = true
	}
}

func (c *Cache) put(records []Record) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return c.store.PutFacts(ctx, records, maxStored)
}
