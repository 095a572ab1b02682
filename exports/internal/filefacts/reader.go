package filefacts

import (
	"context"
	"hash/crc32"
	"io"
	"sync"
)

// Source opens a part of the version of a file that a fact is about. Its reader returns
// io.EOF after exactly length bytes.
type Source func(ctx context.Context, offset, length int64) (io.ReadCloser, error)

// Reader reads a part of a file. The caller must close it. It is not safe for concurrent
// use.
type Reader struct {
	fact        *Fact
	body        io.ReadCloser // from offset to end
	offset, end int64         // blocks that are left to read
	first, last int64         // what Read returns of the file
	buffer      *[]byte       // of a block; nil if verified is empty
	verified    []byte        // part of buffer that Read has not returned yet
	err         error
}

// Open opens length bytes of the file from offset. It reads complete blocks of the
// source, and a known block next to unknown ones.
func (f *Fact) Open(ctx context.Context, source Source, offset, length int64) (*Reader, error) {
	f.cache.mu.Lock()
	start, end := f.blocks.cover(offset, length)
	f.cache.mu.Unlock()
	body, err := source(ctx, start, end-start)
	if err != nil {
		return nil, err
	}
	return &Reader{fact: f, body: body, offset: start, end: end, first: offset, last: offset + length}, nil
}

// buffers are for blocks of the usual length.
var buffers = sync.Pool{New: func() any { return new(make([]byte, minBlock)) }}

// Read implements [io.Reader]. It holds a buffer only while it has bytes of a block
// that it has not returned.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.verified) == 0 && r.err == nil {
		r.err = r.readBlock()
	}
	if len(r.verified) == 0 {
		return 0, r.err
	}
	n := copy(p, r.verified)
	r.verified = r.verified[n:]
	r.freeBuffer()
	return n, nil
}

// WriteTo implements [io.WriterTo]. It saves a copy.
func (r *Reader) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if len(r.verified) > 0 {
			m, err := w.Write(r.verified)
			n += int64(m)
			r.verified = r.verified[m:]
			r.freeBuffer()
			if err != nil {
				return n, err
			}
		}
		if r.err == nil {
			r.err = r.readBlock()
		}
		switch r.err {
		case nil:
		case io.EOF:
			return n, nil
		default:
			return n, r.err
		}
	}
}

// freeBuffer frees the buffer if nothing is left of it.
func (r *Reader) freeBuffer() {
	if len(r.verified) == 0 && r.buffer != nil {
		buffers.Put(r.buffer)
		r.buffer = nil
	}
}

// readBlock reads the next block. At the end it returns io.EOF.
func (r *Reader) readBlock() error {
	if r.offset == r.end {
		return io.EOF
	}
	n := min(r.fact.blocks.length, r.end-r.offset)
	r.buffer = buffers.Get().(*[]byte)
	defer r.freeBuffer()
	if n > int64(len(*r.buffer)) {
		*r.buffer = make([]byte, n)
	}
	block := (*r.buffer)[:n]
	if _, err := io.ReadFull(r.body, block); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	if err := r.fact.add(r.offset, crc32.ChecksumIEEE(block)); err != nil {
		return err
	}
	within := func(offset int64) int64 { return min(max(0, offset-r.offset), n) }
	r.verified = block[within(r.first):within(r.last)]
	r.offset += n
	return nil
}

// Close closes the source, and stores what was learned.
func (r *Reader) Close() error {
	r.fact.cache.mu.Lock()
	r.fact.saveChanged()
	r.fact.cache.mu.Unlock()
	return r.body.Close()
}

// Length returns how many bytes Read returns.
func (r *Reader) Length() int64 { return r.last - r.first }

// CanIdle reports whether Read succeeds after a long time without one: a source with a
// validator is resumed.
func (r *Reader) CanIdle() bool { return true }

// ReadMissing reads what is missing to know the CRC of the content, and returns it. One
// caller at a time reads a file.
func (f *Fact) ReadMissing(ctx context.Context, source Source) (crc uint32, err error) {
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for {
		if crc, ok := f.CRC(); ok {
			return crc, nil
		}
		f.cache.mu.Lock()
		offset, length := f.blocks.missing()
		f.cache.mu.Unlock()
		if length == 0 { // of an invalid fact
			return 0, f.cache.errChanged
		}
		if err := f.readRun(ctx, source, offset, length); err != nil {
			return 0, err
		}
	}
}

// readRun reads a run of unknown blocks. It ends early after one that another reader
// has read in the meantime.
func (f *Fact) readRun(ctx context.Context, source Source, offset, length int64) error {
	r, err := f.Open(ctx, source, offset, length)
	if err != nil {
		return err
	}
	defer r.Close()
	for known := false; r.offset < r.end && !known; {
		known = r.offset >= offset && f.Includes(r.offset, 1)
		if err := r.readBlock(); err != nil {
			return err
		}
		r.verified = nil
		r.freeBuffer()
	}
	return nil
}
