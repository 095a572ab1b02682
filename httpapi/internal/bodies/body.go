package bodies

import (
	"context"
	"errors"
	"io"
	"slices"

	"example.com/canvasback/symbols"
)

// Body is the body of one response. It is not safe for concurrent use.
type Body struct {
	Version symbols.Version
	Current bool // the client has this version, and there is nothing to write
	Settled bool // all of exactly this version; otherwise it may have later changes, or end early
	Gzip    bool
	Next    int64 // the id after which the next page of a list begins, or 0
	Image   ImageInfo

	library *Library
	key     Key
	memory  Memory
	content *content // nil if there is none, or it is released
}

// Size returns the size of the body in bytes, or -1 if it is unknown.
func (b *Body) Size() (size int64) {
	if b.content.rest != nil {
		return -1
	}
	for _, part := range b.content.parts {
		size += int64(len(part))
	}
	if b.Gzip {
		size += gzipTrailerSize
	}
	return size
}

// Release ends the use of the memory of the body.
func (b *Body) Release() {
	if b.content != nil {
		b.library.unpin(b.content)
		b.content = nil
	}
}

// Write writes the body to w, once. An error leaves the body incomplete.
func (b *Body) Write(ctx context.Context, w io.Writer) error {
	c := b.content
	for _, part := range c.parts {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	if c.rest != nil {
		next := &content{version: c.version, parts: slices.Clip(c.parts), size: c.size, gzip: c.gzip, crc: c.crc, plain: c.plain}
		rest := *c.rest
		b.Release()
		if err := b.writeRest(ctx, w, next, rest); err != nil {
			return err
		}
		c = next
	}
	if b.Gzip {
		_, err := w.Write(appendGzipTrailer(nil, c.crc, c.plain))
		return err
	}
	return nil
}

// writeRest writes what is not read in advance, and adds it to c. If all pages are of one
// version and there is memory for them, c is put into the cache. Otherwise, one page is in
// memory at a time.
func (b *Body) writeRest(ctx context.Context, w io.Writer, c *content, rest symbols.Range) error {
	memory, keep := b.memory.New(), true
	defer memory.Shrink(0)
	for {
		var needed int64
		grow := func(size int64) error {
			needed = size
			return growUncounted(memory, c.size+size)
		}
		p, err := b.library.page(ctx, b.key, rest, symbols.LargeSize, grow)
		if errors.As(err, new(*memoryError)) {
			c.drop()
			keep = false
			memory.Shrink(0) // nobody waits for others with memory that others wait for
			if err := memory.Grow(needed); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		written := len(c.parts)
		c.add(p.data)
		for _, part := range c.parts[written:] {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		keep = keep && p.version == c.version && c.cost() <= b.library.cache.longest
		if !keep {
			c.drop()
		}
		if !p.more {
			break
		}
		memory.Shrink(c.size)
		rest = p.next(rest)
	}
	if keep {
		b.library.cache.put(b.key, c)
	}
	return nil
}
