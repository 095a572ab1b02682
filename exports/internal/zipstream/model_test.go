package zipstream

import (
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/matryer/is"
)

// model is a complete archive of entries with generated content. It stores the
// bytes that a [Writer] writes except content, so that an archive of 5 GiB takes
// little memory and time.
type model struct {
	entries  []Entry
	segments []segment
	size     int64
}

// segment is a part of a model. Its bytes are data, or generated.
type segment struct {
	offset  int64
	data    []byte
	content *pattern
	framed  bool // content is in stored blocks
}

// maxWritten is the size up to which a model passes streamed content through a
// Writer.
const maxWritten = 1 << 20

func newModel(t testing.TB, entries []Entry) *model {
	t.Helper()
	is := is.New(t)
	m := &model{entries: entries}
	z := NewWriter(m)
	var content []byte
	for i, e := range entries {
		if e.Size <= maxWritten {
			content = newPattern(i, 0, e.Size).append(content[:0], 0, e.Size)
			e.CRC = crc32.ChecksumIEEE(content)
		} else {
			e.CRC = uint32(i) * 0x9e3779b1
		}
		entries[i].CRC = e.CRC
		var err error
		switch {
		case !e.Streamed:
			err = z.AddStored(e, newPattern(i, 0, e.Size))
		case e.Size <= maxWritten:
			err = z.AddStream(e, newPattern(i, 0, e.Size))
		default:
			err = m.addStream(z, e, i)
		}
		is.NoErr(err)
	}
	is.NoErr(z.Close())
	return m
}

// addStream does what [Writer.AddStream] does, but generates the content later.
func (m *model) addStream(z *Writer, e Entry, i int) error {
	h := header{Entry: e, offset: z.offset, compressed: e.compressedSize()}
	if err := z.write(h.local()); err != nil {
		return err
	}
	m.segments = append(m.segments, segment{offset: m.size, content: newPattern(i, 0, e.Size), framed: true})
	m.size += h.compressed
	z.offset += h.compressed
	z.headers = append(z.headers, h)
	return z.write(h.descriptor())
}

// Write begins a segment where the data of the last one would have to be copied to grow.
func (m *model) Write(p []byte) (int, error) {
	last := len(m.segments) - 1
	if last < 0 || m.segments[last].content != nil || len(m.segments[last].data)+len(p) > cap(m.segments[last].data) {
		m.segments = append(m.segments, segment{offset: m.size, data: make([]byte, 0, max(len(p), 64<<10))})
		last++
	}
	m.segments[last].data = append(m.segments[last].data, p...)
	m.size += int64(len(p))
	return len(p), nil
}

// ReadFrom stores stored content without generating it.
func (m *model) ReadFrom(r io.Reader) (int64, error) {
	limited := r.(*io.LimitedReader)
	if limited.N < 1_000 {
		content, err := io.ReadAll(limited)
		m.Write(content)
		return int64(len(content)), err
	}
	m.segments = append(m.segments, segment{offset: m.size, content: limited.R.(*pattern)})
	m.size += limited.N
	return limited.N, nil
}

func (m *model) slice(offset, length int64) []byte {
	out := make([]byte, 0, length)
	i := sort.Search(len(m.segments), func(i int) bool { return m.segments[i].offset > offset }) - 1
	for ; length > 0; i++ {
		end := m.size
		if i+1 < len(m.segments) {
			end = m.segments[i+1].offset
		}
		s := m.segments[i]
		start, n := offset-s.offset, min(length, end-offset)
		switch {
		case s.framed:
			out = s.content.appendFramed(out, start, n)
		case s.content != nil:
			out = s.content.append(out, start, n)
		default:
			out = append(out, s.data[start:start+n]...)
		}
		offset += n
		length -= n
	}
	return out
}

func (m *model) Content(entry int, offset, length int64) (io.Reader, error) {
	return newPattern(entry, offset, length), nil
}

func (m *model) CRC(entry int) (uint32, error) { return m.entries[entry].CRC, nil }

// pattern is the generated content of an entry, from an offset on.
type pattern struct {
	entry             int
	offset, remaining int64
}

func newPattern(entry int, offset, length int64) *pattern { return &pattern{entry, offset, length} }

// noise has a prime length, so that the pattern is at another place in each block.
var noise = func() []byte {
	random := rand.NewChaCha8([32]byte{})
	b := make([]byte, 65_521)
	random.Read(b)
	return slices.Concat(b, b)
}()

func (p *pattern) append(b []byte, offset, length int64) []byte {
	period := int64(len(noise) / 2)
	for length > 0 {
		start := (offset + int64(p.entry)*7919) % period
		n := min(length, period)
		b = append(b, noise[start:start+n]...)
		offset += n
		length -= n
	}
	return b
}

// appendFramed appends bytes of the content in stored blocks.
func (p *pattern) appendFramed(b []byte, offset, length int64) []byte {
	const step = 5 + 61_440
	for first := offset / step; ; first++ {
		n := min(p.remaining-first*61_440, 61_440)
		block := []byte{0, byte(n), byte(n >> 8), ^byte(n), ^byte(n >> 8)}
		if n < 61_440 {
			block[0] = 1
		}
		block = p.append(block, first*61_440, n)[offset%step:]
		if int64(len(block)) >= length {
			return append(b, block[:length]...)
		}
		b = append(b, block...)
		offset += int64(len(block))
		length -= int64(len(block))
	}
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.remaining == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), p.remaining, int64(len(noise)/2))
	p.append(b[:0], p.offset, n)
	p.offset += n
	p.remaining -= n
	return int(n), nil
}
