package filefacts

import "time"

// unconfirmed is the time at which a file was seen that must be seen again.
var unconfirmed = time.UnixMilli(0).UTC()

// Fact is what this process knows about one version of a file. All responses that
// read the version share it. Its fields are guarded by the lock of its Cache, except
// those that do not change.
type Fact struct {
	cache    *Cache
	url      Key
	revision int64
	reading  chan struct{} // holds an element while ReadMissing runs

	description Description // without CRC32; Validator and Size do not change
	seenAt      time.Time   // when the upstream last confirmed the description
	crc         *uint32     // of the content; nil if unknown
	blocks      blocks
	invalid     bool // a fact of a higher revision has replaced it

	changed  bool      // since it was stored, except for seenAt
	storedAt time.Time // seenAt in the store
	nextSave time.Time // while it is being read
}

func newFact(c *Cache, url Key, d Description, revision int64) *Fact {
	f := &Fact{
		cache: c, url: url, revision: revision, reading: make(chan struct{}, 1),
		description: d, seenAt: unconfirmed, blocks: newBlocks(d.Size), nextSave: c.now().Add(saveInterval),
	}
	f.description.CRC32 = nil
	if d.Size == 0 {
		f.crc = new(uint32)
	}
	return f
}

// isOf reports whether a fact is about the version with a validator and a size.
func (f *Fact) isOf(validator string, size int64) bool {
	return f.description.Validator == validator && f.description.Size == size
}

// Revision returns how often the content was found to have changed although the
// validator had not.
func (f *Fact) Revision() int64 { return f.revision }

// Block returns the length of the blocks that a [Reader] reads.
func (f *Fact) Block() int64 { return f.blocks.length }

// Description returns the description of the file, and when its upstream last
// confirmed it.
func (f *Fact) Description() (d Description, seenAt time.Time) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.description, f.seenAt
}

// CRC returns the CRC-32 of the content, if it is known.
func (f *Fact) CRC() (crc uint32, ok bool) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	if f.crc == nil {
		return 0, false
	}
	return *f.crc, true
}

// Includes reports whether all blocks of a part of the content are known.
func (f *Fact) Includes(offset, length int64) bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.blocks.includes(offset, length)
}

// add records the CRC of the block at offset.
func (f *Fact) add(offset int64, crc uint32) error {
	c := f.cache
	c.mu.Lock()
	ok := !f.invalid && f.setBlock(offset/f.blocks.length, crc)
	if ok && c.now().After(f.nextSave) {
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

// SetCRC records the CRC of the content, which was read to its end.
func (f *Fact) SetCRC(crc uint32) {
	f.cache.mu.Lock()
	ok := f.invalid || f.setCRC(crc)
	if f.changed {
		f.cache.save(f)
	}
	f.cache.mu.Unlock()
	if !ok {
		f.Invalidate()
	}
}

// setCRC records the CRC of the content. It reports false if another one is known. The
// caller holds the lock.
func (f *Fact) setCRC(crc uint32) bool {
	if f.crc == nil {
		f.crc, f.changed = &crc, true
	}
	return *f.crc == crc
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
	next := c.facts[f.url]
	if next != nil && next.revision > f.revision {
		c.mu.Unlock()
		return next
	}
	next = newFact(c, f.url, f.description, f.revision+1)
	next.seenAt = f.seenAt
	c.add(next)
	record := next.encode()
	c.mu.Unlock()
	c.put([]Record{record})
	return next
}

// encode returns the stored form. The caller holds the lock.
func (f *Fact) encode() Record {
	d := f.description
	r := Record{
		URL: f.url, Validator: d.Validator, Size: d.Size, Revision: f.revision, Type: d.Type, Name: d.Name,
		Modified: d.Modified, SeenAt: f.seenAt, Blocks: f.blocks.encode(),
	}
	if f.crc != nil {
		crc := *f.crc
		r.CRC32 = &crc
	}
	return r
}

// merge adds what the store knows. It reports false if that contradicts f. The caller
// holds the lock.
func (f *Fact) merge(r Record) bool {
	defer func(changed bool) { f.changed = changed }(f.changed)
	if f.seenAt.Before(r.SeenAt) {
		f.description.Type, f.description.Name, f.description.Modified, f.seenAt = r.Type, r.Name, r.Modified, r.SeenAt
	}
	f.storedAt = r.SeenAt
	if r.CRC32 != nil && !f.setCRC(*r.CRC32) || !f.blocks.merge(r.Blocks) {
		return false
	}
	return !f.blocks.isComplete() || f.setCRC(f.blocks.combined())
}
