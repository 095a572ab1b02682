package filefacts

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/matryer/is"
)

func content(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// read records the blocks of a file from first to before end.
func (b *blocks) read(file []byte, first, end int64) (ok bool) {
	for i := first; i < end; i++ {
		if !b.set(i, crc32.ChecksumIEEE(file[i*b.length:min((i+1)*b.length, b.size)])) {
			return false
		}
	}
	return true
}

func TestBlocks_InAnyOrderGiveTheCRC(t *testing.T) {
	is := is.New(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, minBlock - 1, minBlock, minBlock + 1, 5*minBlock + 77} {
		file := content(r, size)
		b := newBlocks(int64(size))
		for !b.isComplete() {
			i := r.Int64N(b.n())
			is.True(b.read(file, i, min(b.n(), i+r.Int64N(3))))
		}
		is.Equal(b.combined(), crc32.ChecksumIEEE(file))
		_, missing := b.missing()
		is.Equal(missing, int64(0))

		merged := newBlocks(int64(size))
		is.True(merged.merge(b.encode()))
		is.True(merged.isComplete())
		is.Equal(merged.combined(), crc32.ChecksumIEEE(file))
	}
}

func TestBlocks_PartsMerge(t *testing.T) {
	is := is.New(t)
	r := rand.New(rand.NewPCG(5, 6))
	const size = 9*minBlock + 5
	file := content(r, size)
	a, b := newBlocks(size), newBlocks(size)
	is.True(a.read(file, 0, 4))
	is.True(b.read(file, 3, 10))
	is.True(a.merge(b.encode()))
	is.Equal(a.combined(), crc32.ChecksumIEEE(file))
	for _, malformed := range [][]byte{nil, {255}, {255, 255, 1}} {
		is.True(b.merge(malformed))
	}
	other := newBlocks(size)
	is.True(other.read(content(r, size), 3, 4))
	is.True(!b.merge(other.encode()))
}

func TestBlocks_CoverHasAKnownOne(t *testing.T) {
	const size = 10*minBlock + 5
	b := newBlocks(size)
	cover := func(offset, length, wantStart, wantEnd int64) {
		t.Helper()
		if start, end := b.cover(offset, length); start != wantStart || end != wantEnd {
			t.Errorf("cover(%d, %d) is %d, %d, want %d, %d", offset, length, start, end, wantStart, wantEnd)
		}
	}
	cover(0, 0, 0, 0)
	cover(0, 1, 0, minBlock)
	cover(5*minBlock+3, minBlock, 5*minBlock, 7*minBlock)
	cover(size-1, 1, 10*minBlock, size)
	b.set(4, 0)
	cover(5*minBlock, 1, 4*minBlock, 6*minBlock)
	cover(5*minBlock+3, 1, 4*minBlock, 6*minBlock)
	cover(4*minBlock+3, 1, 4*minBlock, 5*minBlock)
	cover(3*minBlock, minBlock, 3*minBlock, 5*minBlock)
	cover(2*minBlock, minBlock, 2*minBlock, 3*minBlock)
}

func TestBlocks_AreBounded(t *testing.T) {
	is := is.New(t)
	for _, size := range []int64{0, 1, smallFile, smallFile + 1, 4 << 30, 4<<30 + 1, MaxSize} {
		b := newBlocks(size)
		is.True(b.n() <= MaxSize/maxBlock)
		is.True(b.n()*b.length >= size)
		is.True(b.length <= maxBlock)
	}
}

// TestBlocks_VersionBefore exchanges a small file with a process whose blocks all have
// usualBlock: neither takes the CRCs of the other for its own.
func TestBlocks_VersionBefore(t *testing.T) {
	is := is.New(t)
	const size = 9*usualBlock + 5
	file := content(rand.New(rand.NewPCG(3, 4)), size)
	before := newBlocks(size)
	before.length = usualBlock
	is.True(before.read(file, 0, before.n()))
	after := newBlocks(size)
	is.True(after.merge(before.encode()))
	is.Equal(after.count, int64(0))

	is.True(after.read(file, 0, after.n()))
	before = newBlocks(size)
	before.length = usualBlock
	is.True(before.merge(after.encode()))
	is.Equal(before.count, int64(0))
}
