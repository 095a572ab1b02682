package filefacts

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"time"
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
	pool        *sync.Pool    // of buffer
	buffer      *[]byte       // of blocks; nil if verified is empty
	verified    []byte        // part of buffer that Read has not returned yet
	err         error
}

// Open opens length bytes of the file from offset. It reads complete blocks of the
// source, and a known block next to unknown ones.
func (f *Fact) Open(ctx context.Context, source Source, offset, length int64) (*Reader, error) {
	f.cache.mu.Lock()
	start, end := f.blocks.cover(offset, length)
	f.lastRead = time.Now()
	f.cache.mu.Unlock()
	body, err := source(ctx, start, end-start)
	if err != nil {
		return nil, err
	}
	return &Reader{fact: f, body: body, offset: start, end: end, first: offset, last: offset + length}, nil
}

// Blocks of the usual length that [Reader.WriteTo] reads at once: eight measured 1.1 times as
// fast as four. Only largeReaders may do so, because a slow client holds the buffer to the end.
const blocksAtOnce = 8

var (
	buffers      = sync.Pool{New: func() any { return new(make([]byte, usualBlock)) }}
	largeBuffers = sync.Pool{New: func() any { return new(make([]byte, blocksAtOnce*usualBlock)) }}
	largeReaders = make(chan struct{}, 16)
)

// Read implements [io.Reader]. It holds a buffer only while it has bytes of a block
// that it has not returned.
func (r *Reader) Read(p []byte) (n int, err error) {
	for len(r.verified) == 0 && r.err == nil {
		r.err = r.fill(&buffers)
	}
	if len(r.verified) == 0 {
		return 0, r.err
	}
	n = copy(p, r.verified)
	r.verified = r.verified[n:]
	r.freeBuffer()
	return n, nil
}

// WriteTo implements [io.WriterTo]. It saves a copy, and reads several blocks at once if
// the source has them.
func (r *Reader) WriteTo(w io.Writer) (n int64, err error) {
	pool := &buffers
	select {
	case largeReaders <- struct{}{}:
		defer func() { <-largeReaders }()
		pool = &largeBuffers
	default:
	}
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
			r.err = r.fill(pool)
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

func (r *Reader) freeBuffer() {
	if len(r.verified) == 0 && r.buffer != nil {
		r.pool.Put(r.buffer)
		r.buffer = nil
	}
}

// fill reads a block into a buffer of a pool, or small ones of usualBlock together, and as
// many more as the source has and the buffer takes. At the end the error is io.EOF.
func (r *Reader) fill(pool *sync.Pool) (err error) {
	r.pool, r.buffer = pool, pool.Get().(*[]byte)
	if length := r.fact.blocks.length; length > int64(len(*r.buffer)) {
		*r.buffer = make([]byte, length)
	}
	r.verified, err = r.readBlocks(*r.buffer)
	r.freeBuffer()
	return err
}

// readBlocks returns the bytes of the part that are in the blocks it has read.
func (r *Reader) readBlocks(buffer []byte) (verified []byte, err error) {
	left, length := r.end-r.offset, int(r.fact.blocks.length)
	if left == 0 {
		return nil, io.EOF
	}
	if left > int64(len(buffer)) {
		left = int64(len(buffer) - len(buffer)%length)
	}
	buffer = buffer[:left]
	n, err := io.ReadAtLeast(r.body, buffer, min(max(length, usualBlock), len(buffer)))
	if rest := n % length; err == nil && rest > 0 && n < len(buffer) {
		var m int
		m, err = io.ReadFull(r.body, buffer[n:min(n-rest+length, len(buffer))])
		n += m
	}
	if err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if r.offset+int64(n) == r.end { // a source that ignores the part has other bytes, and more
		if more, _ := r.body.Read(make([]byte, 1)); more > 0 {
			return nil, errors.New("filefacts: the source has more than the part")
		}
	}
	within := func(offset int64) int64 { return min(max(0, offset-r.offset), int64(n)) }
	first, last := within(r.first), within(r.last)
	for block := range slices.Chunk(buffer[:n], length) {
		if err := r.fact.add(r.offset, crc32.ChecksumIEEE(block)); err != nil {
			return nil, err
		}
		r.offset += int64(len(block))
	}
	return buffer[first:last], nil
}

// Close closes the source, and stores what was learned.
func (r *Reader) Close() error {
	r.fact.cache.mu.Lock()
	r.fact.cache.save(r.fact)
	r.fact.cache.mu.Unlock()
	return r.body.Close()
}

// Length returns how many bytes Read returns.
func (r *Reader) Length() int64 { return r.last - r.first }

// CanIdle reports whether Read succeeds after a long time without one: a source with a
// validator is resumed.
func (r *Reader) CanIdle() bool { return true }

// ReadMissing waits for other readers up to maxWait in all, as long as one was opened or
// has added an unknown block within activeTime. A reader of the caller counts, too.
const maxWait, activeTime = time.Second, 20 * time.Millisecond

// ReadMissing reads what is missing to know the CRC of the content, and returns it. One
// caller at a time reads a file.
func (f *Fact) ReadMissing(ctx context.Context, source Source) (crc uint32, err error) {
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	start, own := time.Now(), time.Time{} // when this call last read a run
	for {
		f.cache.mu.Lock()
		known := f.known.CRC32
		offset, length := f.blocks.missing()
		active := f.lastRead.After(own) && time.Since(f.lastRead) < activeTime
		f.cache.mu.Unlock()
		if known != nil {
			return *known, nil
		}
		if length == 0 { // of an invalid fact
			return 0, f.cache.errChanged
		}
		if active && time.Since(start) < maxWait && ctx.Err() == nil {
			time.Sleep(activeTime / 4)
			continue
		}
		if err := f.readRun(ctx, source, offset, length); err != nil {
			return 0, err
		}
		own = time.Now()
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
		known = r.offset >= offset && f.isKnown(r.offset)
		if err := r.fill(&buffers); err != nil {
			return err
		}
		r.verified = nil
		r.freeBuffer()
	}
	return nil
}
