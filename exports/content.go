package exports

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"example.com/canvasback/exports/internal/checksum"
)

// saveInterval is how often a long read stores the sums of what it has read.
const saveInterval = 5 * time.Second

// blockReader reads a part of a planned file. It returns no byte before the CRC of
// its block is recorded or, if that was known, equal. Content that differs from an
// earlier read, though its validator did not change, is an [ErrChanged].
type blockReader struct {
	body        io.ReadCloser // from offset to end
	cancel      context.CancelCauseFunc
	facts       *facts
	fact        *fileFact
	sums        *checksum.Writer
	offset, end int64   // blocks that are left to read
	first, last int64   // what Read returns of the file
	buffer      *[]byte // of a block; nil if verified is empty
	verified    []byte  // part of buffer that Read has not returned yet
	nextSave    time.Time
	err         error
}

// openPart opens length bytes of a planned file from offset. It checks an empty file.
func (s *Service) openPart(ctx context.Context, e planEntry, f *fileFact, offset, length int64) (*blockReader, error) {
	u, opener, err := s.locate(e.URL)
	if err != nil {
		return nil, err
	}
	ranger, ok := opener.(RangeOpener)
	if !ok { // the configuration has changed
		return nil, ErrChanged
	}
	if e.Size == 0 {
		if err := s.checkPlanned(ctx, e); err != nil {
			return nil, err
		}
		return &blockReader{body: io.NopCloser(bytes.NewReader(nil)), cancel: func(error) {}, facts: s.facts, fact: f, sums: f.sums.Writer(0, 0)}, nil
	}
	start, end := f.sums.Cover(offset, length)
	body, cancel, err := openWithin(ctx, s.openTimeout, func(ctx context.Context) (io.ReadCloser, error) {
		return ranger.OpenRange(ctx, u, Range{Validator: e.Validator, Size: e.Size, Offset: start, Length: end - start})
	}, func(body io.ReadCloser) { body.Close() })
	if err != nil {
		return nil, err
	}
	return &blockReader{
		body: body, cancel: cancel, facts: s.facts, fact: f, sums: f.sums.Writer(start, end),
		offset: start, end: end, first: offset, last: offset + length,
		nextSave: time.Now().Add(saveInterval),
	}, nil
}

// blocks are buffers for blocks of the usual size.
var blocks = sync.Pool{New: func() any { return new(make([]byte, 64<<10)) }}

// Read implements [io.Reader]. It holds a buffer only while it has bytes of a block
// that it has not returned.
func (r *blockReader) Read(p []byte) (int, error) {
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
func (r *blockReader) WriteTo(w io.Writer) (n int64, err error) {
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
func (r *blockReader) freeBuffer() {
	if len(r.verified) == 0 && r.buffer != nil {
		blocks.Put(r.buffer)
		r.buffer = nil
	}
}

// readBlock reads the next block. At the end it returns io.EOF.
func (r *blockReader) readBlock() error {
	if r.offset == r.end {
		return io.EOF
	}
	n := min(r.fact.sums.Block(), r.end-r.offset)
	r.buffer = blocks.Get().(*[]byte)
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
	if _, err := r.sums.Write(block); err != nil {
		r.facts.disprove(r.fact)
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if r.fact.disproved.Load() { // by another response
		return ErrChanged
	}
	within := func(offset int64) int64 { return min(max(0, offset-r.offset), n) }
	r.verified = block[within(r.first):within(r.last)]
	r.offset += n
	if now := time.Now(); now.After(r.nextSave) {
		r.nextSave = now.Add(saveInterval)
		r.facts.save(r.fact)
	}
	return nil
}

// Close closes the file and stores the sums of what was read.
func (r *blockReader) Close() error {
	err := r.body.Close()
	r.cancel(nil)
	r.sums.Close()
	r.facts.save(r.fact)
	return err
}

// Length implements [prefetch.File].
func (r *blockReader) Length() int64 { return r.last - r.first }

// CanIdle implements [prefetch.File]: a file with a validator can be resumed.
func (r *blockReader) CanIdle() bool { return true }

// readMissing reads the unknown blocks of a planned file up to an offset. One caller
// at a time reads a file. If others is set, it leaves out blocks that responses are
// about to read.
func (s *Service) readMissing(ctx context.Context, e planEntry, f *fileFact, to int64, others bool) (err error) {
	defer recoverToError(&err)
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if _, ok := f.sums.Total(); ok {
			return nil
		}
		offset, length := f.sums.Missing(to, others)
		if length == 0 {
			return nil
		}
		if err := s.readRun(ctx, e, f, offset, length, others); err != nil {
			return openError(err, nil)
		}
	}
}

// readRun reads a part of a file for its sums, and ends early at a block that a
// response is about to read if others is set.
func (s *Service) readRun(ctx context.Context, e planEntry, f *fileFact, offset, length int64, others bool) error {
	part, err := s.openPart(ctx, e, f, offset, length)
	if err != nil {
		return err
	}
	defer part.Close()
	for err == nil && !(others && part.sums.Shared()) {
		_, err = io.CopyN(io.Discard, part, f.sums.Block())
	}
	if err == io.EOF {
		return nil
	}
	return err
}
