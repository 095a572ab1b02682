package exports_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"example.com/canvasback/exports"
)

// fakeFile is a file of pseudorandom content, which follows from its seed.
type fakeFile struct {
	size      int64
	seed      uint64
	validator string
	name      string
	unstable  bool  // each response has another validator
	err       error // of each request
}

// fillContent sets p to the content of a file from offset.
// The race detector, which would watch each byte, took most of the time of the tests.
//
//go:norace
func fillContent(p []byte, seed uint64, offset int64) {
	word := func(n int64) uint64 {
		x := (uint64(n) + 1) * (seed*2 + 1) * 0x9e3779b97f4a7c15
		x ^= x >> 29
		return x * 0xbf58476d1ce4e5b9
	}
	var first [8]byte
	if start := offset % 8; start > 0 {
		binary.LittleEndian.PutUint64(first[:], word(offset/8))
		n := copy(p, first[start:])
		p, offset = p[n:], offset+int64(n)
	}
	n := offset / 8
	for ; len(p) >= 8; n++ {
		binary.LittleEndian.PutUint64(p, word(n))
		p = p[8:]
	}
	binary.LittleEndian.PutUint64(first[:], word(n))
	copy(p, first[:])
}

// contentOf returns the complete content of a file.
func contentOf(f fakeFile) []byte {
	p := make([]byte, f.size)
	fillContent(p, f.seed, 0)
	return p
}

// fakeOrigin is a RangeOpener. It counts what is read from it.
type fakeOrigin struct {
	delay time.Duration // before each response

	mu        sync.Mutex
	files     map[string]fakeFile
	responses int // with unstable validators
	alternate int // number of unstable validators; unlimited if 0

	stats, opens, ranges atomic.Int64
	bytes                atomic.Int64
	onRead               func(url string, offset int64) // before each Read; may be nil
}

var _ exports.RangeOpener = (*fakeOrigin)(nil)

func newFakeOrigin() *fakeOrigin { return &fakeOrigin{files: make(map[string]fakeFile)} }

func (o *fakeOrigin) set(url string, f fakeFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files[url] = f
}

func (o *fakeOrigin) remove(url string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.files, url)
}

func (o *fakeOrigin) get(url string) (fakeFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, ok := o.files[url]
	if !ok {
		return f, exports.ErrGone
	}
	if f.unstable {
		o.responses++
		number := o.responses
		if o.alternate > 0 {
			number %= o.alternate
		}
		f.validator = fmt.Sprint(f.validator, number)
	}
	return f, f.err
}

func (o *fakeOrigin) Serves(*url.URL) bool   { return true }
func (o *fakeOrigin) Check(u *url.URL) error { return nil }

func (o *fakeOrigin) wait(ctx context.Context) error {
	if o.delay == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(o.delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *fakeOrigin) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	o.opens.Add(1)
	if err := o.wait(ctx); err != nil {
		return nil, err
	}
	f, err := o.get(u.String())
	if err != nil {
		return nil, err
	}
	file := describe(f)
	file.Body = &fakeBody{ctx: ctx, origin: o, url: u.String(), file: f, end: f.size}
	return file, nil
}

func describe(f fakeFile) *exports.File {
	return &exports.File{Size: f.size, Type: "application/pdf", Name: f.name, Validator: f.validator}
}

func (o *fakeOrigin) Stat(ctx context.Context, u *url.URL) (*exports.File, error) {
	o.stats.Add(1)
	if err := o.wait(ctx); err != nil {
		return nil, err
	}
	f, err := o.get(u.String())
	if err != nil {
		return nil, err
	}
	return describe(f), nil
}

func (o *fakeOrigin) OpenRange(ctx context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	o.ranges.Add(1)
	if err := o.wait(ctx); err != nil {
		return nil, err
	}
	f, err := o.get(u.String())
	switch {
	case err != nil:
		return nil, err
	case f.validator != r.Validator, r.Size >= 0 && f.size != r.Size:
		return nil, exports.ErrChanged
	case r.Offset < 0 || r.Length < 0 || r.Offset+r.Length > f.size:
		return nil, errors.New("fake: range out of bounds")
	}
	return &fakeBody{ctx: ctx, origin: o, url: u.String(), file: f, offset: r.Offset, end: r.Offset + r.Length}, nil
}

// fakeBody reads the file that was opened. It fails if the origin has one with
// another validator.
type fakeBody struct {
	ctx         context.Context
	origin      *fakeOrigin
	url         string
	file        fakeFile
	offset, end int64
}

func (b *fakeBody) Read(p []byte) (int, error) {
	if b.origin.onRead != nil {
		b.origin.onRead(b.url, b.offset)
	}
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	now, err := b.origin.get(b.url)
	switch {
	case err != nil:
		return 0, err
	case now.validator != b.file.validator && !now.unstable || now.size != b.file.size:
		return 0, exports.ErrChanged
	case b.offset == b.end:
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), b.end-b.offset))
	fillContent(p[:n], b.file.seed, b.offset)
	b.offset += int64(n)
	b.origin.bytes.Add(int64(n))
	return n, nil
}

func (b *fakeBody) Close() error { return nil }

// newFiles returns files of equal size.
func newFiles(count int, size int64) (files []fakeFile) {
	for i := range count {
		files = append(files, newFile(size, uint64(i)))
	}
	return files
}

// newFile returns a file with a validator.
func newFile(size int64, seed uint64) fakeFile {
	return fakeFile{size: size, seed: seed, validator: fmt.Sprintf(`"%d-%d"`, size, seed), name: fmt.Sprintf("%d.bin", seed)}
}
