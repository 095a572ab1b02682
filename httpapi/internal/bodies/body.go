package bodies

import (
	"context"
	"errors"
	"hash/crc32"
	"io"

	"example.com/canvasback/httpapi/internal/budget"
	"example.com/canvasback/symbols"
)

// Body is the body of one response. It is not safe for concurrent use.
type Body struct {
	Version symbols.Version
	Current bool // the client has this version, and there is nothing to write
	Settled bool // of exactly this version; otherwise it may have later changes
	Gzip    bool
	Next    int64 // the id after which the next page of a list begins, or 0
	Image   ImageInfo

	library *Library
	key     Key
	reserve Reserve
	parts   []*part  // read in advance
	size    int64    // of the parts in memory
	pinned  int      // parts, the first ones
	rest    *partKey // the first part after them, or nil
}

// maxUncounted is the size in bytes up to which a body is not counted.
const maxUncounted = 64 << 10

// readFactor is how much memory takes the reading of data of a size: the data, and the part.
const readFactor = 2

// read returns a part at version, from the cache or the store. It reserves memory before it
// reads a large symbol, and if size is not zero, the expected size of the data. It waits
// for memory if the body has no part in memory.
func (b *Body) read(ctx context.Context, key partKey, version symbols.Version, size int64) (p *part, cached bool, memory Memory, err error) {
	if p := b.library.cached(key, version); p != nil {
		return p, true, nil, nil
	}
	for {
		if size > 0 {
			if memory, err = b.reserve(readFactor*size, b.pinned == 0); err != nil {
				return nil, false, nil, err
			}
		}
		if p, err = b.library.part(ctx, key, version, size); err == nil {
			if memory != nil {
				memory.Shrink(p.cost())
			}
			return p, false, memory, nil
		}
		release(memory)
		large, ok := errors.AsType[*largeError](err)
		if !ok {
			return nil, false, nil, err
		}
		size = large.size
	}
}

// start reads and adds the first part.
func (b *Body) start(ctx context.Context, key partKey, version symbols.Version, size int64) (p *part, cached bool, err error) {
	for {
		p, cached, memory, err := b.read(ctx, key, version, size)
		if err != nil {
			return nil, false, err
		}
		if err = b.add(p, memory); !errors.Is(err, budget.ErrExhausted) {
			return p, cached, err
		}
		// Wait for memory without the part, and read it again.
		if memory, err = b.reserve(p.cost(), true); err != nil {
			return nil, false, err
		}
		memory.Release()
	}
}

// release releases memory that may be nil.
func release(memory Memory) {
	if memory != nil {
		memory.Release()
	}
}

// add adds a part that was read in advance, and the memory that is reserved for it or nil.
// It does not wait for more, because the part is in memory already.
func (b *Body) add(p *part, memory Memory) error {
	b.parts, b.size = append(b.parts, p), b.size+p.cost()
	for b.size > maxUncounted && b.pinned < len(b.parts) {
		next := b.parts[b.pinned]
		reserve := func() (Memory, error) { return b.reserve(next.cost(), false) }
		if next == p && memory != nil {
			reserve = func() (reserved Memory, err error) {
				reserved, memory = memory, nil
				return reserved, nil
			}
		}
		if err := b.library.pins.pin(next, reserve); err != nil {
			release(memory)
			b.parts, b.size = b.parts[:len(b.parts)-1], b.size-p.cost()
			return err
		}
		b.pinned++
	}
	release(memory) // small, or another response has the same part
	if len(b.parts) == 1 {
		b.Version, b.Gzip, b.Image = p.version, p.gzip, p.image
	}
	return nil
}

// reset removes all parts.
func (b *Body) reset() {
	b.Release()
	b.parts, b.size, b.rest, b.Settled, b.Next = nil, 0, nil, true, 0
}

// Release ends the use of the memory of the body.
func (b *Body) Release() {
	for _, p := range b.parts[:b.pinned] {
		b.library.pins.unpin(p)
	}
	b.pinned = 0
}

// interrupt ends the parts that are read in advance. A page ends there, too; the rest of
// a list without limit is read while it is written.
func (b *Body) interrupt(rest partKey) {
	if b.key.Range.Limit > 0 {
		b.Next = rest.Range.After
		return
	}
	b.rest, b.Settled = &rest, false
}

// listEnd ends a list, whose parts begin with a bracket or a comma.
const listEnd = "]"

// deflatedEnd is listEnd as a stored block (RFC 1951, section 3.2.4).
const deflatedEnd = "\x00\x01\x00\xfe\xff" + listEnd

// Size returns the size of the body in bytes, or -1 if it is unknown.
func (b *Body) Size() int64 {
	size := int64(len(b.end().data))
	if b.Gzip {
		size += int64(len(gzipHeader) + gzipTrailerSize)
	}
	for _, p := range b.parts {
		if b.Gzip && !p.deflated {
			return -1
		}
		size += int64(len(p.data))
	}
	if b.rest != nil {
		return -1
	}
	return size
}

// end returns what follows the parts: a page that ends early ends between two.
func (b *Body) end() part {
	switch {
	case !b.key.isList() || b.rest != nil || b.parts[len(b.parts)-1].ended:
		return part{}
	case b.Gzip:
		return part{data: []byte(deflatedEnd), deflated: true, crc: crc32.ChecksumIEEE([]byte(listEnd)), size: int64(len(listEnd))}
	default:
		return part{data: []byte(listEnd)}
	}
}

// Write writes the body to w. Of the parts that are read from the store meanwhile, one
// is in memory at a time. An error leaves the body incomplete.
func (b *Body) Write(ctx context.Context, w io.Writer) error {
	out := partWriter{w: w}
	if b.Gzip {
		out.gzip = NewGzipWriter(w)
	}
	for _, p := range b.parts {
		if err := out.write(p); err != nil {
			return err
		}
	}
	if b.rest != nil {
		b.Release()
		if err := b.writeRest(ctx, &out); err != nil {
			return err
		}
	}
	if end := b.end(); len(end.data) > 0 {
		if err := out.write(&end); err != nil {
			return err
		}
	}
	return out.close()
}

// writeRest writes the parts that are not read in advance.
func (b *Body) writeRest(ctx context.Context, out *partWriter) error {
	for next, more := *b.rest, true; more; {
		p, _, memory, err := b.read(ctx, next, b.Version, symbols.LargeSize)
		if err != nil {
			return err
		}
		err = out.write(p)
		release(memory)
		if err != nil {
			return err
		}
		next, more = next.after(p)
	}
	return nil
}

// partWriter writes the parts of a body one after the other.
type partWriter struct {
	w    io.Writer
	gzip *GzipWriter // nil if the body is not compressed
}

func (o *partWriter) write(p *part) (err error) {
	switch {
	case o.gzip == nil:
		_, err = o.w.Write(p.data)
	case p.deflated:
		err = o.gzip.writeDeflated(p.data, p.crc, p.size)
	default:
		_, err = o.gzip.Write(p.data)
	}
	return err
}

func (o *partWriter) close() error {
	if o.gzip == nil {
		return nil
	}
	return o.gzip.Close()
}
