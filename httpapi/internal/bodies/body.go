package bodies

import (
	"context"
	"errors"
	"io"

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
	for _, part := range b.content.parts {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	rest, compressor := b.content.rest, &GzipWriter{w, b.content.crc, b.content.plain}
	if b.Gzip {
		w = compressor
	}
	if rest != nil {
		b.Release()
		if err := b.writeRest(ctx, w, *rest); err != nil {
			return err
		}
	}
	if b.Gzip {
		return compressor.Close()
	}
	return nil
}

// writeRest writes what is not read in advance, of which one page is in memory at a time.
func (b *Body) writeRest(ctx context.Context, w io.Writer, rest symbols.Range) error {
	memory := b.memory.New()
	defer memory.Shrink(0)
	for {
		p, err := b.library.page(ctx, b.key, rest, false, symbols.LargeSize, func(size int64) error { return growUncounted(memory, size) })
		if needed, ok := errors.AsType[*memoryError](err); ok {
			if err := memory.Grow(needed.size, true); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(p.data); err != nil || !p.more {
			return err
		}
		rest = p.next(rest)
		memory.Shrink(0)
	}
}
