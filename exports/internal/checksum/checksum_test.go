package checksum

import (
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/matryer/is"
)

// content returns random bytes.
func content(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestSums_BlocksInAnyOrderGiveTheTotal(t *testing.T) {
	is := is.New(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, minBlock - 1, minBlock, minBlock + 1, 5*minBlock + 77} {
		file := content(r, size)
		s := New(int64(size))
		for {
			if _, missing := s.Missing(int64(size), false); missing == 0 {
				break
			}
			offset := s.Floor(int64(r.IntN(size)))
			length := int64(size) - offset
			length = min(length, int64(minBlock/2+r.IntN(3*minBlock)))
			w := s.Writer(offset, offset+length)
			for part := file[offset : offset+length]; len(part) > 0; {
				n := min(len(part), 1+r.IntN(minBlock))
				_, err := w.Write(part[:n])
				is.NoErr(err)
				part = part[n:]
			}
		}
		total, ok := s.Total()
		is.True(ok)
		is.Equal(total, crc32.ChecksumIEEE(file))

		merged := New(int64(size))
		_, err := merged.Merge(s.Append(nil))
		is.NoErr(err)
		if size > minBlock {
			total, ok = merged.Total()
			is.True(ok)
			is.Equal(total, crc32.ChecksumIEEE(file))
		}
	}
}

func TestSums_NoticesOtherContent(t *testing.T) {
	is := is.New(t)
	r := rand.New(rand.NewPCG(3, 4))
	const size = 4*minBlock + 5
	file := content(r, size)
	s := New(size)
	_, err := s.Writer(0, size).Write(file[:2*minBlock+9])
	is.NoErr(err)
	is.Equal(s.Known(), 2)
	other := content(r, size)
	_, err = s.Writer(minBlock, size).Write(other[minBlock:])
	is.True(errors.Is(err, ErrMismatch))
	is.NoErr(s.SetTotal(crc32.ChecksumIEEE(other)))
	_, err = s.Writer(2*minBlock, size).Write(file[2*minBlock:])
	is.True(errors.Is(err, ErrMismatch)) // of the total
	_, err = New(3).Writer(0, 3).Write(file[:4])
	is.True(errors.Is(err, ErrMismatch)) // too long
}

func TestSums_PartialKnowledgeMerges(t *testing.T) {
	is := is.New(t)
	r := rand.New(rand.NewPCG(5, 6))
	const size = 9*minBlock + 5
	file := content(r, size)
	a, b := New(size), New(size)
	_, err := a.Writer(0, size).Write(file[:4*minBlock])
	is.NoErr(err)
	_, err = b.Writer(3*minBlock, size).Write(file[3*minBlock:])
	is.NoErr(err)
	n, err := a.Merge(b.Append(nil))
	is.NoErr(err)
	is.Equal(n, b.Known())
	total, ok := a.Total()
	is.True(ok)
	is.Equal(total, crc32.ChecksumIEEE(file))
	for _, malformed := range [][]byte{nil, {255}, {255, 255, 1}} {
		_, err = b.Merge(malformed)
		is.NoErr(err)
	}
}

func TestSums_CoverHasCompleteBlocksAndAKnownOne(t *testing.T) {
	const size = 10*minBlock + 5
	s := New(size)
	cover := func(offset, length, wantStart, wantEnd int64) {
		t.Helper()
		if start, end := s.Cover(offset, length); start != wantStart || end != wantEnd {
			t.Errorf("Cover(%d, %d) is %d, %d, want %d, %d", offset, length, start, end, wantStart, wantEnd)
		}
	}
	cover(0, 1, 0, minBlock)
	cover(5*minBlock+3, minBlock, 5*minBlock, 7*minBlock)
	cover(size-1, 1, 10*minBlock, size)
	if _, err := s.Writer(4*minBlock, 5*minBlock).Write(make([]byte, minBlock)); err != nil {
		t.Fatal(err)
	}
	cover(5*minBlock, 1, 4*minBlock, 6*minBlock)
	cover(5*minBlock+3, 1, 4*minBlock, 6*minBlock)
	cover(4*minBlock+3, 1, 4*minBlock, 5*minBlock)
	cover(3*minBlock, minBlock, 3*minBlock, 5*minBlock)
	cover(2*minBlock, minBlock, 2*minBlock, 3*minBlock)
	is := is.New(t)
	is.True(s.Includes(4*minBlock, minBlock))
	is.True(s.Includes(4*minBlock+3, 1))
	is.True(!s.Includes(4*minBlock, minBlock+1))
	is.True(!s.Includes(4*minBlock-1, 1))
}

func TestSums_MissingSkipsWhatOthersRead(t *testing.T) {
	is := is.New(t)
	const size = 10*minBlock + 5
	s := New(size)
	missing := func(to int64, others bool, wantOffset, wantLength int64) {
		t.Helper()
		if offset, length := s.Missing(to, others); length != wantLength || length > 0 && offset != wantOffset {
			t.Errorf("Missing(%d, %t) is %d, %d, want %d, %d", to, others, offset, length, wantOffset, wantLength)
		}
	}
	missing(size, true, 0, size)
	w := s.Writer(2*minBlock, 4*minBlock)
	missing(size, false, 0, size)
	missing(size, true, 0, 2*minBlock)
	first := s.Writer(0, 2*minBlock)
	missing(size, true, 4*minBlock, 6*minBlock+5)
	missing(3*minBlock, true, 0, 0)
	is.True(!w.Shared())
	second := s.Writer(3*minBlock, size)
	is.True(!w.Shared())
	if _, err := w.Write(make([]byte, minBlock)); err != nil {
		t.Fatal(err)
	}
	is.True(w.Shared())
	second.Close()
	is.True(!w.Shared())
	first.Close()
	missing(size, true, 0, 2*minBlock)
	w.Close()
	missing(size, false, 0, 2*minBlock)
	missing(5*minBlock, true, 0, 2*minBlock)
}

func TestNew_BoundsBlocks(t *testing.T) {
	is := is.New(t)
	for _, size := range []int64{0, 1, 4 << 30, 4<<30 + 1, MaxSize} {
		s := New(size)
		is.True(s.Blocks() <= MaxSize/maxBlock)
		is.True(int64(s.Blocks())*s.Block() >= size)
		is.True(s.Block() <= maxBlock)
	}
}
