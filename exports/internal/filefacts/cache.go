// Package filefacts remembers what reads of exported files have shown: the CRC-32 of
// each, and the CRCs of its blocks of 16 KiB or more, which may be read in any order, by
// several readers, in several processes.
//
// From the blocks follow the CRC of a file of which each byte was read once, and what
// is left to read. They also show that content has changed although its validator has
// not, in any part that was read before. The CRC of the complete file shows that only to
// a reader of the complete file.
//
// A [Cache] owns all facts, and its lock guards them. Other packages see neither blocks
// nor fields. These hold:
//
//   - There is one [Fact] for each URL, that of the highest revision. What was read
//     of another version of the file is forgotten.
//   - The CRC of a block or a file, once known, does not change. A read that differs
//     invalidates the fact: one of the next revision takes its place, in the store
//     too, before the read returns its error.
//   - A [Reader] returns no byte of a block before its CRC is recorded or, if it was
//     known, equal. It returns none of an invalid fact.
package filefacts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

const (
	storeTimeout = 5 * time.Second
	maxStored    = 100_000         // facts in the store
	maxCost      = 6 << 20         // of the facts in memory, in blocks of 5 bytes
	factCost     = 200             // of a fact without blocks
	perWrite     = 500             // facts
	saveInterval = 5 * time.Second // of a fact that is being read
)

// Key identifies the URL of a file: it is its SHA-256.
type Key = [sha256.Size]byte

// Store stores facts. Its methods are those of exports.LinkStore.
type Store interface {
	FindFacts(ctx context.Context, urls ...Key) ([]Record, error)
	PutFacts(ctx context.Context, records []Record, limit int) error
}

// Record is a fact in a [Store]. Its fields are those of exports.Fact.
type Record struct {
	URL       Key
	Validator string
	Size      int64
	Revision  int64
	CRC32     *uint32 // not modified
	Blocks    []byte
}

// Cache is a write-behind cache of the facts in a [Store]. It is safe for concurrent
// use.
type Cache struct {
	store      Store
	errChanged error

	mu      sync.Mutex
	facts   map[Key]*Fact
	cost    int64 // of all facts
	unsaved map[Key]*Fact
	saving  chan struct{} // closed when all facts are saved; nil if they are
}

// New returns a Cache. Reads fail with errChanged if two of one version return different
// bytes, or not those of a planned CRC.
func New(store Store, errChanged error) *Cache {
	return &Cache{store: store, errChanged: errChanged, facts: make(map[Key]*Fact), unsaved: make(map[Key]*Fact)}
}

// Flush waits until what was known before is in the store.
func (c *Cache) Flush(ctx context.Context) error {
	c.mu.Lock()
	saving := c.saving
	c.mu.Unlock()
	if saving == nil {
		return nil
	}
	select {
	case <-saving:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add puts a fact in place of a previous one. If there are too many then, the others are
// evicted. The caller holds the lock.
func (c *Cache) add(f *Fact) *Fact {
	if previous := c.facts[f.known.URL]; previous != nil {
		c.cost -= previous.cost()
		delete(c.unsaved, f.known.URL)
	}
	if c.cost += f.cost(); c.cost > maxCost {
		clear(c.facts)
		c.cost = f.cost()
	}
	c.facts[f.known.URL] = f
	return f
}

func (f *Fact) cost() int64 { return factCost + f.blocks.n() }

// Find returns the fact about a version of a file that was planned with a Revision and,
// unless it is nil, a CRC. The error is errChanged if the content has changed since.
func (c *Cache) Find(planned Record) (*Fact, error) {
	c.mu.Lock()
	f := c.facts[planned.URL]
	if f != nil && f.known.Revision > planned.Revision {
		c.mu.Unlock()
		return nil, c.errChanged
	}
	if f == nil || f.known.Revision < planned.Revision || !f.isOf(planned) {
		f = c.add(newFact(c, planned))
	}
	ok := planned.CRC32 == nil || f.setCRC(*planned.CRC32)
	c.mu.Unlock()
	if !ok {
		f.Invalidate()
		return nil, c.errChanged
	}
	return f, nil
}

// Confirm returns the fact about the version of a file that its upstream has just
// described. It is nil if the file has no validator or no suitable size.
func (c *Cache) Confirm(url Key, validator string, size int64) *Fact {
	if validator == "" || size < 0 || size > MaxSize {
		return nil
	}
	current := Record{URL: url, Validator: validator, Size: size}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.facts[url]
	if f != nil {
		current.Revision = f.known.Revision
	}
	if f == nil || !f.isOf(current) {
		f = c.add(newFact(c, current))
	}
	return f
}

// Load reads what is known about the files at URLs from the store. No URL is given twice.
func (c *Cache) Load(ctx context.Context, urls []Key) error {
	if len(urls) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	records, err := c.store.FindFacts(ctx, urls...)
	if err != nil {
		return fmt.Errorf("find facts: %w", err)
	}
	for _, r := range records {
		c.merge(r)
	}
	return nil
}

// merge adds a stored fact, unless one of a higher revision or of another version is in
// memory.
func (c *Cache) merge(r Record) {
	c.mu.Lock()
	f := c.facts[r.URL]
	if f == nil || f.known.Revision < r.Revision {
		f = c.add(newFact(c, r))
	}
	ok := f.known.Revision != r.Revision || !f.isOf(r) || f.merge(r)
	c.mu.Unlock()
	if !ok {
		f.Invalidate()
	}
}

// save stores what is new about a fact, later, and returns it to the cache if it was
// evicted. The caller holds the lock.
func (c *Cache) save(f *Fact) {
	if !f.changed {
		return
	}
	if c.facts[f.known.URL] == nil && !f.invalid {
		c.add(f)
	}
	if c.facts[f.known.URL] == f {
		c.unsaved[f.known.URL] = f
		f.nextSave = time.Now().Add(saveInterval)
		if c.saving == nil {
			c.saving = make(chan struct{})
			go c.saveAll()
		}
	}
}

// saveAll stores facts, some at a time, while there are any.
func (c *Cache) saveAll() {
	for {
		c.mu.Lock()
		var batch []*Fact
		for url, f := range c.unsaved {
			if len(batch) == perWrite {
				break
			}
			batch = append(batch, f)
			delete(c.unsaved, url)
		}
		if len(batch) == 0 {
			close(c.saving)
			c.saving = nil
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.write(batch)
	}
}

// write stores facts together with what other processes know of incomplete ones. What
// it cannot store is stored with the next change, unless the store panics.
func (c *Cache) write(batch []*Fact) {
	defer func() { recover() }()
	var incomplete []Key
	c.mu.Lock()
	for _, f := range batch {
		if !f.blocks.isComplete() {
			incomplete = append(incomplete, f.known.URL)
		}
	}
	c.mu.Unlock()
	if err := c.Load(context.Background(), incomplete); err != nil {
		return
	}
	var records []Record
	c.mu.Lock()
	for _, f := range batch {
		records = append(records, f.encode())
		f.changed = false
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

// Fact is what this process knows about one version of a file. All responses that
// read the version share it. The lock of its Cache guards it.
type Fact struct {
	cache   *Cache
	known   Record // without Blocks; URL, Validator, Size and Revision do not change
	blocks  blocks // their lengths do not change
	invalid bool   // a fact of a higher revision has replaced it

	changed  bool      // since it was stored
	nextSave time.Time // while it is being read
	lastRead time.Time // when a reader was opened, or has added an unknown block

	reading chan struct{} // holds an element while ReadMissing runs; not guarded
}

// newFact returns a fact about a version of a file, of whose content nothing is known.
func newFact(c *Cache, r Record) *Fact {
	r.CRC32, r.Blocks = nil, nil
	if r.Size == 0 {
		r.CRC32 = new(uint32)
	}
	return &Fact{cache: c, known: r, blocks: newBlocks(r.Size), nextSave: time.Now().Add(saveInterval), reading: make(chan struct{}, 1)}
}

func (f *Fact) isOf(r Record) bool { return f.known.Validator == r.Validator && f.known.Size == r.Size }

// Revision is how many facts about the URL were invalidated before.
func (f *Fact) Revision() int64 { return f.known.Revision }

// CRC returns the CRC-32 of the content, if it is known.
func (f *Fact) CRC() (crc uint32, ok bool) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	if f.known.CRC32 == nil {
		return 0, false
	}
	return *f.known.CRC32, true
}

func (f *Fact) isKnown(offset int64) bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.blocks.isKnown(offset / f.blocks.length)
}

func (f *Fact) add(offset int64, crc uint32) error {
	c := f.cache
	c.mu.Lock()
	ok := !f.invalid && f.setBlock(offset/f.blocks.length, crc)
	if ok && time.Now().After(f.nextSave) {
		c.save(f)
	}
	c.mu.Unlock()
	if !ok {
		f.Invalidate()
		return c.errChanged
	}
	return nil
}

// setBlock records the CRC of a block, and with the last one that of the content. It
// reports false if another one is known. The caller holds the lock.
func (f *Fact) setBlock(i int64, crc uint32) bool {
	if f.blocks.isKnown(i) {
		return f.blocks.set(i, crc)
	}
	f.changed, f.lastRead = true, time.Now()
	f.blocks.set(i, crc)
	return !f.blocks.isComplete() || f.setCRC(f.blocks.combined())
}

// setCRC records the CRC of the content. It reports false if another one is known. The
// caller holds the lock.
func (f *Fact) setCRC(crc uint32) bool {
	if f.known.CRC32 == nil {
		f.known.CRC32, f.changed = &crc, true
	}
	return *f.known.CRC32 == crc
}

// SetCRC records the CRC of the content, which was read to its end.
func (f *Fact) SetCRC(crc uint32) {
	f.cache.mu.Lock()
	ok := f.setCRC(crc)
	f.cache.save(f)
	f.cache.mu.Unlock()
	if !ok {
		f.Invalidate()
	}
}

// Invalidate records that the content of a version was not always the same. A fact of
// the same version and a higher revision takes the place of f, with nothing known about
// the content. It is stored when Invalidate returns, so plans that depend on f are
// outdated in each process that reads the file. If the store fails, other processes find
// the same difference.
func (f *Fact) Invalidate() {
	c := f.cache
	c.mu.Lock()
	f.invalid = true
	r := f.known
	r.Revision++
	if next := c.facts[r.URL]; next != nil && next.known.Revision >= r.Revision {
		c.mu.Unlock()
		return
	}
	next := c.add(newFact(c, r))
	r = next.encode()
	c.mu.Unlock()
	c.put([]Record{r})
}

// encode returns the stored form. The caller holds the lock.
func (f *Fact) encode() Record {
	r := f.known
	r.Blocks = f.blocks.encode()
	return r
}

// merge adds what the store knows. It reports false if that contradicts f. The caller
// holds the lock.
func (f *Fact) merge(r Record) bool {
	defer func(changed bool) { f.changed = changed }(f.changed)
	if r.CRC32 != nil && !f.setCRC(*r.CRC32) || !f.blocks.merge(r.Blocks) {
		return false
	}
	return !f.blocks.isComplete() || f.setCRC(f.blocks.combined())
}
