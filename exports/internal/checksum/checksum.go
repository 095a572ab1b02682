// Package checksum computes the CRC-32 (IEEE) of a file from those of its blocks,
// which may be read in any order, by several readers, and at different times.
//
// A block that is read again is compared, so that a change of the content is
// noticed.
package checksum

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sync"
)

// ErrMismatch means that two reads of a file returned different bytes.
var ErrMismatch = errors.New("checksum: content differs from an earlier read")

// MaxSize is the largest size of a file, 1 TiB.
const MaxSize = 1 << 40

// The blocks of files above 4 GiB are larger than minBlock, so that there are 65,536.
// They take memory until they are compared, so those of files above 64 GiB are not
// larger than maxBlock.
const (
	minBlock  = 64 << 10
	maxBlock  = 1 << 20
	maxBlocks = 64 << 10
)

// Sums are the known CRCs of a file and its blocks. They are safe for concurrent
// use.
type Sums struct {
	size  int64
	block int64 // length of all blocks but the last
	n     int64 // number of blocks

	mu     sync.Mutex
	blocks []uint32 // nil while none is known
	known  []bool
	count  int64 // known blocks
	total  uint32
	done   bool // total is known

	writers map[*Writer]bool // that have not been closed
}

// New returns the Sums of a file of up to [MaxSize] bytes, of which nothing is
// known.
func New(size int64) *Sums {
	s := &Sums{size: size, block: minBlock, writers: make(map[*Writer]bool)}
	for size > s.block*maxBlocks && s.block < maxBlock {
		s.block *= 2
	}
	s.n = (size + s.block - 1) / s.block
	s.done = s.n == 0
	return s
}

// Blocks returns the number of blocks.
func (s *Sums) Blocks() int { return int(s.n) }

// Block returns the length of all blocks but the last.
func (s *Sums) Block() int64 { return s.block }

// Known returns the number of known blocks.
func (s *Sums) Known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.count)
}

// Includes reports whether all blocks of a part of the content are known.
func (s *Sums) Includes(offset, length int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := offset / s.block; i*s.block < offset+length; i++ {
		if !s.isKnown(i) {
			return false
		}
	}
	return true
}

func (s *Sums) isKnown(i int64) bool { return s.known != nil && s.known[i] }

// Total returns the CRC of the file, if it is known.
func (s *Sums) Total() (crc uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total, s.done
}

// SetTotal sets the CRC of the file. It returns [ErrMismatch] if another one is
// known.
func (s *Sums) SetTotal(crc uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setTotal(crc)
}

func (s *Sums) setTotal(crc uint32) error {
	if s.done && s.total != crc {
		return ErrMismatch
	}
	s.total, s.done = crc, true
	return nil
}

// Missing returns the first run of unknown blocks that overlaps the content before
// offset to. If others is set, it ends before a block that a [Writer] will add, and
// such blocks are not missing. Its length is 0 if there is none.
func (s *Sums) Missing(to int64, others bool) (offset, length int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := func(i int64) bool { return !s.isKnown(i) && !(others && s.expected(i, nil)) }
	n := (min(to, s.size) + s.block - 1) / s.block
	i := int64(0)
	for i < n && !missing(i) {
		i++
	}
	j := i
	for j < n && missing(j) {
		j++
	}
	offset = i * s.block
	return offset, max(0, min(j*s.block, s.size)-offset)
}

// expected reports whether a Writer other than except will add a block.
func (s *Sums) expected(i int64, except *Writer) bool {
	for w := range s.writers {
		if w != except && w.next <= i && i*s.block < w.end {
			return true
		}
	}
	return false
}

// Cover returns the blocks to read for a part of the content, which is not empty.
// If the first or the last of them is unknown, the known block next to it is
// included: it shows a change of the content.
func (s *Sums) Cover(offset, length int64) (start, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, last := offset/s.block, (offset+length-1)/s.block
	if first > 0 && !s.isKnown(first) && s.isKnown(first-1) {
		first--
	}
	if last+1 < s.n && !s.isKnown(last) && s.isKnown(last+1) {
		last++
	}
	return first * s.block, min((last+1)*s.block, s.size)
}

// Floor returns the start of the block with offset.
func (s *Sums) Floor(offset int64) int64 { return offset - offset%s.block }

// add stores the CRC of the block that w has written.
func (s *Sums) add(w *Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.next++
	return s.set(w.next-1, w.crc)
}

// set stores the CRC of a block, or compares it with the known one.
func (s *Sums) set(i int64, crc uint32) error {
	if s.known == nil {
		s.blocks, s.known = make([]uint32, s.n), make([]bool, s.n)
	}
	if s.known[i] {
		if s.blocks[i] != crc {
			return ErrMismatch
		}
		return nil
	}
	s.blocks[i], s.known[i] = crc, true
	s.count++
	if s.count < s.n {
		return nil
	}
	return s.setTotal(s.combined())
}

// combined returns the CRC of the file from those of all blocks.
func (s *Sums) combined() uint32 {
	shift := power(s.block)
	var crc uint32
	for i, sum := range s.blocks {
		if last := s.size - int64(i)*s.block; last < s.block {
			shift = power(last)
		}
		crc = multiply(shift, crc) ^ sum
	}
	return crc
}

// multiply returns the product of two polynomials modulo that of CRC-32. The
// highest bit of a polynomial is the coefficient of x^0.
func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.IEEE
		}
	}
	return product
}

// power returns x^(8n). The CRC of a content followed by n bytes is the product of
// power(n) and its own CRC, plus the CRC of these bytes.
func power(n int64) uint32 {
	result, square := uint32(1)<<31, uint32(1)<<30
	for e := uint64(n) * 8; e > 0; e >>= 1 {
		if e&1 != 0 {
			result = multiply(square, result)
		}
		square = multiply(square, square)
	}
	return result
}

// Append appends what is known about the blocks, for [Sums.Merge].
func (s *Sums) Append(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return b
	}
	bits := make([]byte, (len(s.known)+7)/8)
	for i, known := range s.known {
		if known {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	b = append(b, bits...)
	for i, known := range s.known {
		if known {
			b = binary.LittleEndian.AppendUint32(b, s.blocks[i])
		}
	}
	return b
}

// Merge adds what Append has written for a file of the same size, and returns the
// number of its blocks. It ignores malformed data, and returns [ErrMismatch] if the
// data contradicts what is known.
func (s *Sums) Merge(data []byte) (blocks int, err error) {
	n := int(s.n+7) / 8
	if len(data) < n {
		return 0, nil
	}
	bits, sums := data[:n], data[n:]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.n {
		if bits[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		if len(sums) < 4 {
			return blocks, nil
		}
		if err := s.set(i, binary.LittleEndian.Uint32(sums)); err != nil {
			return blocks, err
		}
		sums = sums[4:]
		blocks++
	}
	return blocks, nil
}

// Writer returns a Writer for the content from offset, the start of a block, to end.
// The caller must close it.
func (s *Sums) Writer(offset, end int64) *Writer {
	w := &Writer{sums: s, offset: offset, end: end, next: offset / s.block}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers[w] = true
	return w
}

// Writer adds the sums of content that is read sequentially. It is not safe for
// concurrent use.
type Writer struct {
	sums   *Sums
	offset int64
	end    int64
	crc    uint32 // of the current block up to offset
	next   int64  // block that is written next; guarded by sums.mu
}

// Write implements [io.Writer]. It returns [ErrMismatch] at the end of a block that
// differs from an earlier read, or for content beyond the size of the file.
func (w *Writer) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if w.offset >= w.sums.size {
			return n, ErrMismatch
		}
		end := min(w.sums.Floor(w.offset)+w.sums.block, w.sums.size)
		part := p[n:min(int64(len(p)), int64(n)+end-w.offset)]
		w.crc = crc32.Update(w.crc, crc32.IEEETable, part)
		w.offset += int64(len(part))
		n += len(part)
		if w.offset < end {
			continue
		}
		if err := w.sums.add(w); err != nil {
			return n, err
		}
		w.crc = 0
	}
	return n, nil
}

// Shared reports whether another Writer will add the block that w writes next.
func (w *Writer) Shared() bool {
	w.sums.mu.Lock()
	defer w.sums.mu.Unlock()
	return w.sums.expected(w.next, w)
}

// Close releases the Writer. Close may be called more than once.
func (w *Writer) Close() error {
	w.sums.mu.Lock()
	defer w.sums.mu.Unlock()
	delete(w.sums.writers, w)
	return nil
}
