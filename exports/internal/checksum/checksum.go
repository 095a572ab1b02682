// Package checksum computes the CRC-32 (IEEE) of a file from those of its blocks,
// which may be read in any order, by several readers, and at different times.
//
// Each block that is read again is compared, so that a change of the content is
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

const (
	minBlock  = 256 << 10
	maxBlocks = 16 << 10 // 64 KiB of sums; blocks of files above 4 GiB are larger
)

// Sums are the known CRCs of a file and its blocks. They are safe for concurrent
// use.
type Sums struct {
	size  int64
	block int64 // length of all blocks but the last

	mu     sync.Mutex
	blocks []uint32
	known  []bool
	count  int // known blocks
	total  uint32
	done   bool // total is known

	partial map[int64]partialBlock // where reads of unknown blocks ended
}

// partialBlock is the CRC of the first bytes of a block.
type partialBlock struct {
	length int64
	crc    uint32
}

const maxPartial = 64

// New returns the Sums of a file of the given size, of which nothing is known.
func New(size int64) *Sums {
	s := &Sums{size: size, block: minBlock}
	for size > s.block*maxBlocks {
		s.block *= 2
	}
	n := (size + s.block - 1) / s.block
	s.blocks, s.known, s.done = make([]uint32, n), make([]bool, n), n == 0
	return s
}

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

// Known returns how many blocks are known, completely or in part.
func (s *Sums) Known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count + len(s.partial)
}

// Missing returns the first unknown part of the content between from and to, in
// complete blocks. Its length is 0 if there is none. It may begin before from and
// end after to.
func (s *Sums) Missing(from, to int64) (offset, length int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := from / s.block
	for i < int64(len(s.known)) && i*s.block < to && s.known[i] {
		i++
	}
	j := i
	for j < int64(len(s.known)) && j*s.block < to && !s.known[j] {
		j++
	}
	offset = i * s.block
	return offset, max(0, min(j*s.block, s.size)-offset)
}

// Start returns where to begin a read so that it shows whether the content before
// offset has changed: at the start of the block with offset if that is known, even in
// part, or of the known one before it, or at offset if neither is known. If complete is set,
// the read must also yield the sum of the block with offset.
func (s *Sums) Start(offset int64, complete bool) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := offset / s.block
	start := i * s.block
	switch {
	case i >= int64(len(s.known)):
		return offset
	case s.known[i] && start < offset:
		return start
	case s.partial[i].length > 0:
		return start
	case i > 0 && s.known[i-1]:
		return start - s.block
	case complete:
		return start
	}
	return offset
}

// Floor returns the start of the block with offset.
func (s *Sums) Floor(offset int64) int64 { return offset - offset%s.block }

// set stores the CRC of a block.
func (s *Sums) set(i int64, crc uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[i] {
		if s.blocks[i] != crc {
			return ErrMismatch
		}
		return nil
	}
	s.blocks[i], s.known[i] = crc, true
	s.count++
	delete(s.partial, i)
	if s.count < len(s.blocks) {
		return nil
	}
	return s.setTotal(s.combined())
}

// setPartial stores the CRC of the first bytes of a block, if it is the longest
// known part.
func (s *Sums) setPartial(i int64, p partialBlock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[i] || p.length <= s.partial[i].length || len(s.partial) >= maxPartial {
		return
	}
	if s.partial == nil {
		s.partial = make(map[int64]partialBlock)
	}
	s.partial[i] = p
}

// partialOf returns what is known of the first bytes of a block.
func (s *Sums) partialOf(i int64) partialBlock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partial[i]
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
	if s.count+len(s.partial) == 0 || len(s.blocks) == 1 && s.done { // a file's only block has its CRC
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
	for i, p := range s.partial {
		b = binary.LittleEndian.AppendUint64(b, uint64(i))
		b = binary.LittleEndian.AppendUint64(b, uint64(p.length))
		b = binary.LittleEndian.AppendUint32(b, p.crc)
	}
	return b
}

// Merge adds what Append has written for a file of the same size, and returns the
// number of its blocks. It ignores malformed data, and returns [ErrMismatch] if the
// data contradicts what is known.
func (s *Sums) Merge(data []byte) (blocks int, err error) {
	n := (len(s.blocks) + 7) / 8
	if len(data) < n {
		return 0, nil
	}
	bits, sums := data[:n], data[n:]
	for i := range s.blocks {
		if bits[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		if len(sums) < 4 {
			return blocks, nil
		}
		if err := s.set(int64(i), binary.LittleEndian.Uint32(sums)); err != nil {
			return blocks, err
		}
		sums = sums[4:]
		blocks++
	}
	for ; len(sums) >= 20; sums = sums[20:] {
		i, length := binary.LittleEndian.Uint64(sums), binary.LittleEndian.Uint64(sums[8:])
		if i < uint64(len(s.blocks)) && length < uint64(s.block) {
			s.setPartial(int64(i), partialBlock{int64(length), binary.LittleEndian.Uint32(sums[16:])})
			blocks++
		}
	}
	return blocks, nil
}

// Writer returns a Writer for the content from offset.
func (s *Sums) Writer(offset int64) *Writer {
	return &Writer{sums: s, offset: offset, aligned: offset%s.block == 0}
}

// Writer adds the sums of content that is read sequentially. It is not safe for
// concurrent use.
type Writer struct {
	sums    *Sums
	offset  int64
	aligned bool // the current block was written from its start
	crc     uint32
}

// Write implements [io.Writer]. It returns [ErrMismatch] at the end of a block that
// differs from an earlier read. Content beyond the size of the file is an
// ErrMismatch, too.
func (w *Writer) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if w.offset >= w.sums.size {
			return n, ErrMismatch
		}
		i := w.offset / w.sums.block
		end := min((i+1)*w.sums.block, w.sums.size)
		partial := w.sums.partialOf(i)
		if mark := i*w.sums.block + partial.length; w.aligned && w.offset < mark {
			end = mark
		} else {
			partial.length = 0
		}
		part := p[n:min(len(p), n+int(min(end-w.offset, int64(len(p)))))]
		if w.aligned {
			w.crc = crc32.Update(w.crc, crc32.IEEETable, part)
		}
		w.offset += int64(len(part))
		n += len(part)
		if w.offset < end {
			continue
		}
		if partial.length > 0 {
			if w.crc != partial.crc {
				return n, ErrMismatch
			}
			continue
		}
		crc, aligned := w.crc, w.aligned
		w.crc, w.aligned = 0, true
		if aligned {
			if err := w.sums.set(i, crc); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Close stores the CRC of a block that was written in part, so that the next read is
// compared with it.
func (w *Writer) Close() error {
	if i := w.offset / w.sums.block; w.aligned && w.offset > i*w.sums.block && w.offset < w.sums.size {
		w.sums.setPartial(i, partialBlock{w.offset - i*w.sums.block, w.crc})
	}
	return nil
}
