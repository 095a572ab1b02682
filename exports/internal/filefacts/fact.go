package filefacts

import "time"

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
