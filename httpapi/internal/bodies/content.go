package bodies

import (
	"hash/crc32"
	"slices"

	"example.com/canvasback/symbols"
)

// maxUncounted is the size in bytes up to which a body is not counted.
const maxUncounted = 64 << 10

// content is what is in memory of a body: all, or the start of a long list. It is read
// only, except for its pins.
type content struct {
	version symbols.Version
	parts   [][]byte // one after the other
	size    int64    // of parts
	read    int64    // bytes that count for Library.maxRead
	gzip    bool     // parts are the start of a gzip member
	crc     uint32   // of the parts before they were compressed
	plain   int64    // their size
	image   ImageInfo
	next    int64          // the id after which the next page of a list begins, or 0
	short   bool           // another read of the same version may end elsewhere
	rest    *symbols.Range // what is not in parts; nil for a complete body

	pins   int    // responses that write it; guarded by Library.pins, like memory
	memory Memory // nil if it is small
}

func (c *content) settled() bool { return c.rest == nil && !c.short }

// cost returns how many bytes the content takes in memory.
func (c *content) cost() int64 {
	const overhead = 1 << 10
	return c.size + overhead
}

func (c *content) add(text []byte) {
	size := int64(len(text))
	if c.gzip {
		if c.plain == 0 {
			c.append([]byte(gzipHeader))
		}
		c.crc, c.plain = crc32.Update(c.crc, crc32.IEEETable, text), c.plain+size
		for piece := range slices.Chunk(text, 1<<20) {
			c.append(deflate(piece))
		}
	} else {
		c.append(text)
	}
	const maxRatio = 4 // the time until the first byte of a list that compresses well
	c.read = max(c.cost(), c.read+size/maxRatio)
}

func (c *content) append(part []byte) {
	c.parts, c.size = append(c.parts, part), c.size+int64(cap(part))
}

// drop forgets the parts, which are written, and goes on.
func (c *content) drop() { c.parts, c.size = nil, 0 }

// interrupt ends a list before the records of rest. A page ends there; the rest of a list
// without limit is read while it is written.
func (c *content) interrupt(key Key, rest symbols.Range) {
	if key.Range.Limit == 0 {
		c.rest = &rest
		return
	}
	c.next = rest.After
	c.add([]byte(listEnd))
}

// pin counts a response that has the content in memory, and its memory with the first one,
// whether the cache has it or not. It does not wait for memory.
func (l *Library) pin(c *content, memory Memory) error {
	l.pins.Lock()
	defer l.pins.Unlock()
	if c.pins == 0 {
		if err := growUncounted(memory, c.cost()); err != nil {
			return err
		}
		c.memory = memory
	}
	if c.pins++; c.memory != memory {
		memory.Shrink(0)
	}
	return nil
}

func (l *Library) unpin(c *content) {
	l.pins.Lock()
	defer l.pins.Unlock()
	if c.pins--; c.pins == 0 {
		c.memory.Shrink(0)
		c.memory = nil
	}
}
