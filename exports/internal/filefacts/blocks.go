package filefacts

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// MaxSize is the largest size of a file, 1 TiB.
const MaxSize = 1 << 40

// The blocks of files up to smallFile are smaller than usualBlock, because two ranges that
// meet in a block both read it. Those of files above 4 GiB are larger, so that there are
// 65,536. They take memory until they are compared, so those of files above 64 GiB are not
// larger than maxBlock. Stored facts depend on these lengths.
const (
	minBlock   = 16 << 10
	smallFile  = 16 << 20
	usualBlock = 64 << 10
	maxBlock   = 1 << 20
	maxBlocks  = 64 << 10
)

// blocks are the CRCs of the blocks of a file, as far as they are known.
type blocks struct {
	size   int64
	length int64 // of all blocks but the last
	crcs   []uint32
	known  []bool // nil while none is known
	count  int64  // known blocks
}

func newBlocks(size int64) blocks {
	b := blocks{size: size, length: usualBlock}
	if size <= smallFile {
		b.length = minBlock
	}
	for size > b.length*maxBlocks && b.length < maxBlock {
		b.length *= 2
	}
	return b
}

func (b *blocks) n() int64 { return (b.size + b.length - 1) / b.length }

func (b *blocks) isComplete() bool { return b.count == b.n() }

func (b *blocks) isKnown(i int64) bool { return b.known != nil && b.known[i] }

// set stores the CRC of a block. It reports false if another one is known.
func (b *blocks) set(i int64, crc uint32) bool {
	if b.known == nil {
		b.crcs, b.known = make([]uint32, b.n()), make([]bool, b.n())
	}
	if b.known[i] {
		return b.crcs[i] == crc
	}
	b.crcs[i], b.known[i] = crc, true
	b.count++
	return true
}

// missing returns the first run of unknown blocks. Its length is 0 if there is none.
func (b *blocks) missing() (offset, length int64) {
	first := int64(0)
	for first < b.n() && b.isKnown(first) {
		first++
	}
	end := first
	for end < b.n() && !b.isKnown(end) {
		end++
	}
	return first * b.length, max(0, min(end*b.length, b.size)-first*b.length)
}

// cover returns the blocks to read for a part of the content. If the first or the last
// of them is unknown, the known block next to it is included: it shows a change of the
// content.
func (b *blocks) cover(offset, length int64) (start, end int64) {
	if length == 0 {
		return offset, offset
	}
	first, last := offset/b.length, (offset+length-1)/b.length
	if first > 0 && !b.isKnown(first) && b.isKnown(first-1) {
		first--
	}
	if last+1 < b.n() && !b.isKnown(last) && b.isKnown(last+1) {
		last++
	}
	return first * b.length, min((last+1)*b.length, b.size)
}

// zeros returns how many zero bytes precede the stored blocks of a small file. They are
// the bitmap of the version before, whose blocks all have usualBlock: it learns nothing.
func (b *blocks) zeros() int {
	if b.length >= usualBlock {
		return 0
	}
	return int((b.size+usualBlock-1)/usualBlock+7) / 8
}

// encode returns the known blocks for [blocks.merge]: a bit for each block, and the
// CRCs of those that are known.
func (b *blocks) encode() []byte {
	if b.count == 0 {
		return nil
	}
	prefix := b.zeros()
	data := make([]byte, prefix+(len(b.known)+7)/8)
	for i, known := range b.known {
		if known {
			data[prefix+i/8] |= 1 << (i % 8)
			data = binary.LittleEndian.AppendUint32(data, b.crcs[i])
		}
	}
	return data
}

// merge adds what encode has returned for a file of the same size. It ignores malformed
// data, and reports false if the data contradicts what is known.
func (b *blocks) merge(data []byte) bool {
	n := int(b.n()+7) / 8
	data, ok := bytes.CutPrefix(data, make([]byte, b.zeros()))
	if !ok || len(data) < n {
		return true
	}
	bits, crcs := data[:n], data[n:]
	for i := range b.n() {
		if bits[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		if len(crcs) < 4 {
			return true
		}
		if !b.set(i, binary.LittleEndian.Uint32(crcs)) {
			return false
		}
		crcs = crcs[4:]
	}
	return true
}

// combined returns the CRC of the file from those of all blocks.
func (b *blocks) combined() uint32 {
	shift := power(b.length)
	var crc uint32
	for i, next := range b.crcs {
		if last := b.size - int64(i)*b.length; last < b.length {
			shift = power(last)
		}
		crc = multiply(shift, crc) ^ next
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
