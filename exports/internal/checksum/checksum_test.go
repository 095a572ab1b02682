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
			from := int64(r.IntN(size + 1))
			if _, missing := s.Missing(0, int64(size)); missing == 0 {
				break
			}
			offset, length := s.Missing(from, int64(size))
			if length == 0 {
				continue
			}
			length = min(length, int64(1+r.IntN(3*minBlock)))
			w := s.Writer(offset)
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
	_, err := s.Writer(0).Write(file[:2*minBlock+9])
	is.NoErr(err)
	is.Equal(s.Known(), 2)
	other := content(r, size)
	_, err = s.Writer(minBlock).Write(other[minBlock:])
	is.True(errors.Is(err, ErrMismatch))
	_, err = s.Writer(minBlock + 1).Write(other[minBlock+1 : 2*minBlock]) // no complete block
	is.NoErr(err)
	is.NoErr(s.SetTotal(crc32.ChecksumIEEE(other)))
	_, err = s.Writer(2 * minBlock).Write(file[2*minBlock:])
	is.True(errors.Is(err, ErrMismatch)) // of the total
	_, err = New(3).Writer(0).Write(file[:4])
	is.True(errors.Is(err, ErrMismatch)) // too long
}

func TestSums_PartialKnowledgeMerges(t *testing.T) {
	is := is.New(t)
	r := rand.New(rand.NewPCG(5, 6))
	const size = 9*minBlock + 5
	file := content(r, size)
	a, b := New(size), New(size)
	_, err := a.Writer(0).Write(file[:4*minBlock])
	is.NoErr(err)
	_, err = b.Writer(3 * minBlock).Write(file[3*minBlock:])
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

func TestSums_PartOfABlockIsCompared(t *testing.T) {
	is := is.New(t)
	r := rand.New(rand.NewPCG(7, 8))
	const size = minBlock + 5
	file, other := content(r, size), content(r, size)
	s := New(size)
	w := s.Writer(0)
	_, err := w.Write(file[:1000])
	is.NoErr(err)
	is.NoErr(w.Close())
	merged := New(size)
	n, err := merged.Merge(s.Append(nil))
	is.NoErr(err)
	is.Equal(n, 1)
	is.Equal(merged.Start(500, false), int64(0))
	_, err = merged.Writer(0).Write(other)
	is.True(errors.Is(err, ErrMismatch))
	_, err = merged.Writer(0).Write(file)
	is.NoErr(err)
	total, ok := merged.Total()
	is.True(ok)
	is.Equal(total, crc32.ChecksumIEEE(file))
}

func TestSums_StartCoversAKnownBlock(t *testing.T) {
	is := is.New(t)
	s := New(10 * minBlock)
	is.Equal(s.Start(5*minBlock+3, false), int64(5*minBlock+3))
	is.Equal(s.Start(5*minBlock+3, true), int64(5*minBlock))
	_, err := s.Writer(4 * minBlock).Write(make([]byte, minBlock))
	is.NoErr(err)
	is.Equal(s.Start(5*minBlock+3, false), int64(4*minBlock))
	is.Equal(s.Start(5*minBlock, true), int64(4*minBlock))
	is.Equal(s.Start(4*minBlock+3, true), int64(4*minBlock))
	is.Equal(s.Start(4*minBlock, false), int64(4*minBlock))
	is.Equal(s.Start(0, true), int64(0))
	is.Equal(s.Start(10*minBlock, false), int64(10*minBlock)) // the end
}
