// Package filefacts remembers what reads of exported files have shown: their
// descriptions, the CRC-32 of each, and the CRCs of its blocks of 64 KiB, which may be
// read in any order, by several readers, in several processes.
//
// From the blocks follow the CRC of a file of which each byte was read once, and what
// is left to read. They also show that content has changed although its validator has
// not, in any part that was read before. The CRC of the complete file shows that only
// to who reads it all.
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

	"example.com/canvasback/exports/internal/writebehind"
)

const (
	storeTimeout    = 5 * time.Second
	maxStored       = 100_000         // facts in the store
	maxCost         = 6 << 20         // of the facts in memory, in blocks of 5 bytes
	factCost        = 200             // of a fact without blocks
	perWrite        = 500             // facts
	saveInterval    = 5 * time.Second // of a fact that is being read
	confirmInterval = 30 * time.Second
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
	Type      string
	Name      string
	Modified  time.Time
	SeenAt    time.Time
	Blocks    []byte
}

// Cache is a write-behind cache of the facts in a [Store]. It is safe for concurrent
// use.
type Cache struct {
	store      Store
	now        func() time.Time
	errChanged error
	loop       *writebehind.Loop

	mu      sync.Mutex
	facts   map[Key]*Fact
	cost    int64 // of all facts
	unsaved map[Key]*Fact
}

// New returns a Cache. The clock has milliseconds. Reads fail with errChanged if two of
// one version return different bytes, or not those of a planned CRC.
func New(store Store, now func() time.Time, errChanged error) *Cache {
	c := &Cache{store: store, now: now, errChanged: errChanged, facts: make(map[Key]*Fact), unsaved: make(map[Key]*Fact)}
	c.loop = writebehind.New(c.nextWrite)
	return c
}

// Flush waits until what was known before is in the store.
func (c *Cache) Flush(ctx context.Context) error { return c.loop.Flush(ctx) }

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

// Confirm records a file as its upstream has just described it. It returns nil if the
// file has no validator or no suitable size. The upstream's CRC counts as known, unless
// the content has once contradicted what was known.
func (c *Cache) Confirm(r Record) *Fact {
	if r.Validator == "" || r.Size < 0 || r.Size > MaxSize {
		return nil
	}
	r.Modified = r.Modified.UTC().Truncate(time.Millisecond)
	if year := r.Modified.Year(); year < 1970 || year > 9999 {
		r.Modified = time.Time{}
	}
	r.SeenAt, r.Revision = c.now(), 0
	c.mu.Lock()
	f := c.facts[r.URL]
	if f != nil {
		r.Revision = f.known.Revision
	}
	if f == nil || !f.isOf(r) {
		f = c.add(newFact(c, r))
	}
	f.describe(r)
	if r.CRC32 != nil && r.Revision == 0 && !f.setCRC(*r.CRC32) {
		c.mu.Unlock()
		return f.Invalidate()
	}
	if f.changed || r.SeenAt.Sub(f.storedAt) > confirmInterval {
		c.save(f)
	}
	c.mu.Unlock()
	return f
}

// Unconfirm makes facts stand for no request to an upstream until that confirms them
// again, in all processes.
func (c *Cache) Unconfirm(list []*Fact) {
	var records []Record
	c.mu.Lock()
	for _, f := range list {
		f.known.SeenAt, f.storedAt = unconfirmed, unconfirmed
		records = append(records, f.encode())
	}
	c.mu.Unlock()
	c.put(records)
}

// Load returns what is known about the latest versions of the files at URLs, in this
// process or in the store. No URL is given twice.
func (c *Cache) Load(ctx context.Context, urls []Key) (map[Key]*Fact, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	records, err := c.store.FindFacts(ctx, urls...)
	if err != nil {
		return nil, fmt.Errorf("find facts: %w", err)
	}
	for _, r := range records {
		c.merge(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := make(map[Key]*Fact)
	for _, url := range urls {
		if f := c.facts[url]; f != nil {
			known[url] = f
		}
	}
	return known, nil
}

// merge adds a stored fact, unless there is one of a higher revision, or of a version
// seen later.
func (c *Cache) merge(r Record) {
	c.mu.Lock()
	f := c.facts[r.URL]
	if f == nil || f.known.Revision < r.Revision ||
		f.known.Revision == r.Revision && !f.isOf(r) && f.known.SeenAt.Before(r.SeenAt) {
		f = c.add(newFact(c, r))
	}
	ok := f.known.Revision != r.Revision || !f.isOf(r) || f.merge(r)
	c.mu.Unlock()
	if !ok {
		f.Invalidate()
	}
}

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

// unconfirmed is the SeenAt of a file that must be seen again.
var unconfirmed = time.UnixMilli(0).UTC()

// Fact is what this process knows about one version of a file. All responses that
// read the version share it. The lock of its Cache guards it.
type Fact struct {
	cache   *Cache
	known   Record // without Blocks; URL, Validator, Size and Revision do not change
	blocks  blocks // their lengths do not change
	invalid bool   // a fact of a higher revision has replaced it

	changed  bool      // since it was stored, except for SeenAt
	storedAt time.Time // SeenAt in the store
	nextSave time.Time // while it is being read

	reading chan struct{} // holds an element while ReadMissing runs; not guarded
}

// newFact returns a fact with the description of a file, of whose content nothing is
// known.
func newFact(c *Cache, r Record) *Fact {
	r.CRC32, r.Blocks = nil, nil
	if r.Size == 0 {
		r.CRC32 = new(uint32)
	}
	if r.SeenAt.IsZero() {
		r.SeenAt = unconfirmed
	}
	return &Fact{cache: c, known: r, blocks: newBlocks(r.Size), nextSave: c.now().Add(saveInterval), reading: make(chan struct{}, 1)}
}

func (f *Fact) isOf(r Record) bool { return f.known.Validator == r.Validator && f.known.Size == r.Size }

// Record returns what is known, without blocks.
func (f *Fact) Record() Record {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.known
}

// CRC returns the CRC-32 of the content, if it is known.
func (f *Fact) CRC() (crc uint32, ok bool) {
	if known := f.Record().CRC32; known != nil {
		return *known, true
	}
	return 0, false
}

// Includes reports whether all blocks of a part of the content are known.
func (f *Fact) Includes(offset, length int64) bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.blocks.includes(offset, length)
}

func (f *Fact) add(offset int64, crc uint32) error {
	c := f.cache
	c.mu.Lock()
	ok := !f.invalid && f.setBlock(offset/f.blocks.length, crc)
	if ok && f.changed && c.now().After(f.nextSave) {
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
	f.changed = true
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
	f.saveChanged()
	f.cache.mu.Unlock()
	if !ok {
		f.Invalidate()
	}
}

// Invalidate records that the content of a version was not always the same. It returns
// the fact that takes the place of f: of the same version and a higher revision, with
// nothing known about the content. That is stored when Invalidate returns, so plans
// that depend on f are outdated in each process that reads the file. If the store
// fails, other processes find the same difference.
func (f *Fact) Invalidate() *Fact {
	c := f.cache
	c.mu.Lock()
	f.invalid = true
	r := f.known
	r.Revision++
	if next := c.facts[r.URL]; next != nil && next.known.Revision >= r.Revision {
		c.mu.Unlock()
		return next
	}
	next := c.add(newFact(c, r))
	r = next.encode()
	c.mu.Unlock()
	c.put([]Record{r})
	return next
}

// encode returns the stored form. The caller holds the lock.
func (f *Fact) encode() Record {
	r := f.known
	r.Blocks = f.blocks.encode()
	return r
}

// describe replaces what the upstream says, except for the CRC. The caller holds the
// lock.
func (f *Fact) describe(r Record) {
	f.known.Type, f.known.Name, f.known.Modified, f.known.SeenAt = r.Type, r.Name, r.Modified, r.SeenAt
}

// merge adds what the store knows. It reports false if that contradicts f. The caller
// holds the lock.
func (f *Fact) merge(r Record) bool {
	defer func(changed bool) { f.changed = changed }(f.changed)
	if f.known.SeenAt.Before(r.SeenAt) {
		f.describe(r)
	}
	f.storedAt = r.SeenAt
	if r.CRC32 != nil && !f.setCRC(*r.CRC32) || !f.blocks.merge(r.Blocks) {
		return false
	}
	return !f.blocks.isComplete() || f.setCRC(f.blocks.combined())
}
