package zipstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/storage/testflag"
)

// archives returns entries of archives of 0 B to 5 GiB.
func archives() map[string][]Entry {
	random := rand.New(rand.NewPCG(1, 2))
	entry := func(size int64, streamed bool) Entry {
		return Entry{Name: "file.bin", Modified: modified, Size: size, Streamed: streamed}
	}
	// many returns count entries of up to size bytes in both forms.
	many := func(count int, size int64, name string) []Entry {
		entries := make([]Entry, count)
		for i := range entries {
			entries[i] = entry(random.Int64N(size+1), random.IntN(2) == 0)
			entries[i].Name = fmt.Sprintf(name, i)
		}
		return entries
	}
	var edges, names []Entry
	for _, n := range []int64{0, 1, maxBlock - 1, maxBlock, maxBlock + 1, 2 * maxBlock, 2*maxBlock + 1} {
		edges = append(edges, entry(n, true), entry(n, false))
	}
	for _, f := range corpus() {
		names = append(names, f.entry())
	}
	const gib = 1 << 30
	return map[string][]Entry{
		"no entry":                   nil,
		"block sizes":                edges,
		"odd names":                  names,
		"long names":                 many(100, 10, strings.Repeat("n", 60_000)+"%d"),
		"empty files":                many(5_000, 0, "%d.txt"),
		"1,000 entries":              many(1_000, 3_000, "folder/%d.txt"),
		"65,534 entries":             many(65_534, 10, "%d.txt"),
		"65,535 entries":             many(65_535, 10, "%d.txt"),
		"70,000 entries":             many(70_000, 100, strings.Repeat("n", 100)+"%d.txt"),
		"500 MiB":                    many(500, 2<<20, "%d.pdf"),
		"4 GiB - 1":                  {entry(math.MaxUint32-1, false), entry(5, true)},
		"5 GiB":                      {entry(5*gib, false), entry(7, false)},
		"5 GiB stream":               {entry(1, false), entry(5*gib, true), entry(0, true)},
		"compressed more than 4 GiB": {entry(4*gib-100, true), entry(3, false), entry(3, true)},
		"offsets around 4 GiB":       append([]Entry{entry(4*gib-700, false)}, many(20, 20, "%d")...),
	}
}

// TestArchive_RangesEqualSlices writes 2,250 ranges of 15 archives.
func TestArchive_RangesEqualSlices(t *testing.T) {
	t.Parallel()
	for name, entries := range archives() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, entries)
			archive := newArchive(t, entries)
			is.New(t).Equal(archive.Size(), m.size)
			if m.size < 16<<20 {
				checkRange(t, m, archive, 0, m.size)
			}
			random := rand.New(rand.NewPCG(uint64(m.size), 3))
			for range testflag.Rounds(50, 150, 150) {
				checkRange(t, m, archive, randomStart(random, archive), randomLength(random))
			}
		})
	}
}

// randomStart returns an offset anywhere in the archive, or near the start of a
// part.
func randomStart(random *rand.Rand, a *Archive) int64 {
	at := random.Int64N(a.size + 1)
	switch i := random.IntN(len(a.entries) + 1); {
	case random.IntN(3) == 0:
		return at
	case i == len(a.entries):
		at = []int64{0, a.directory, a.end, a.size}[random.IntN(4)]
	default:
		h := a.header(i)
		body := h.offset + int64(len(h.local()))
		at = []int64{h.offset, body, body + random.Int64N(h.compressed/fullBlock+1)*fullBlock, body + h.compressed, a.records[i]}[random.IntN(5)]
	}
	return max(at+random.Int64N(60)-30, 0)
}

func randomLength(random *rand.Rand) int64 {
	return random.Int64N([]int64{2, 50, 1_000, 200_000}[random.IntN(4)])
}

// checkRange compares a range, cut at the end of the archive, with the model.
func checkRange(t *testing.T, m *model, archive *Archive, offset, length int64) {
	t.Helper()
	offset = min(offset, m.size)
	length = min(length, m.size-offset)
	out := bytes.NewBuffer(make([]byte, 0, length))
	if err := archive.WriteRange(out, offset, length, m); err != nil {
		t.Fatalf("%d bytes at %d: %v", length, offset, err)
	}
	is.New(t).True(bytes.Equal(out.Bytes(), m.slice(offset, length)))
}

// FuzzArchive_WriteRange takes two bytes for each entry: its form and the size of
// its content.
func FuzzArchive_WriteRange(f *testing.F) {
	f.Add([]byte{}, uint32(0), uint32(22))
	f.Add([]byte{0, 0, 1, 0}, uint32(10), uint32(50))
	f.Add([]byte{1, 5, 3, 240, 5, 241, 0, 9}, uint32(60_000), uint32(200_000))
	f.Fuzz(func(t *testing.T, form []byte, offset, length uint32) {
		var entries []Entry
		for ; len(form) >= 2 && len(entries) < 50; form = form[2:] {
			entries = append(entries, Entry{
				Name:     strings.Repeat("é", int(form[0]>>4)),
				Modified: time.Unix(int64(form[0])<<25, 0),
				Size:     min(int64(form[1])<<(form[0]>>1&15), 1<<18),
				Streamed: form[0]&1 == 1,
			})
		}
		m := newModel(t, entries)
		checkRange(t, m, newArchive(t, entries), int64(offset), int64(length))
	})
}

// recordingSource has content and CRCs of one repeated byte, and records the
// calls of WriteRange.
type recordingSource struct {
	content, crc byte
	calls        []Need
	written      *bytes.Buffer
	before       []int // bytes written before each call
}

func (s *recordingSource) Content(entry int, offset, length int64) (io.Reader, error) {
	s.calls = append(s.calls, Need{Entry: entry, Offset: offset, Length: length})
	s.before = append(s.before, s.written.Len())
	return bytes.NewReader(bytes.Repeat([]byte{s.content}, int(length))), nil
}

func (s *recordingSource) CRC(entry int) (uint32, error) {
	s.calls = append(s.calls, Need{Entry: entry})
	s.before = append(s.before, s.written.Len())
	return 0x01010101 * uint32(s.crc), nil
}

// TestArchive_AsksOnlyForIncludedBytes writes ranges of a small archive with every
// start and end. It finds the bytes that depend on content or a CRC by changing
// either.
func TestArchive_AsksOnlyForIncludedBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	archive := newArchive(t, []Entry{
		{Name: "a", Size: 20}, {Name: "b", Size: 20, Streamed: true}, {Name: "c", Streamed: true}, {Name: "d"},
	})
	write := func(offset, length int64, content, crc byte) ([]byte, *recordingSource) {
		var out bytes.Buffer
		source := &recordingSource{content: content, crc: crc, written: &out}
		if err := archive.WriteRange(&out, offset, length, source); err != nil {
			t.Fatal(err)
		}
		return out.Bytes(), source
	}
	complete, source := write(0, archive.Size(), 0xff, 0xff)
	byContent, _ := write(0, archive.Size(), 0, 0xff)
	byCRC, _ := write(0, archive.Size(), 0xff, 0)
	if want := "[{0 0 0} {0 0 20} {1 0 20} {1 0 0} {2 0 0} {3 0 0} {0 0 0} {1 0 0} {2 0 0} {3 0 0}]"; fmt.Sprint(source.calls) != want {
		t.Fatalf("calls for the complete archive are %v", source.calls)
	}
	is.Equal(source.before[1:3], []int{31, int(archive.offsets[1]) + 31}) // the local headers are written
	// parts[i] is the number of the call whose result byte i depends on.
	parts := make([]int, archive.Size())
	part := -1
	var kind byte
	for i := range complete {
		previous := kind
		kind = 0
		if complete[i] != byContent[i] {
			kind = 1
		} else if complete[i] != byCRC[i] {
			kind = 2
		}
		if kind != 0 && kind != previous {
			part++
		}
		parts[i] = -1
		if kind != 0 {
			parts[i] = part
		}
	}
	is.Equal(part, len(source.calls)-1)
	for start := range parts {
		for end := start; end <= len(parts); end += 5 {
			var want []Need
			for n, call := range source.calls {
				first := slices.Index(parts, n)
				offset := max(start-first, 0)
				if length := countEqual(parts[start:end], n); length > 0 {
					if call.Length > 0 {
						call.Offset, call.Length = int64(offset), int64(length)
					}
					want = append(want, call)
				}
			}
			got, source := write(int64(start), int64(end-start), 0xff, 0xff)
			if !bytes.Equal(got, complete[start:end]) {
				t.Fatalf("bytes %d to %d are wrong", start, end)
			}
			if !slices.Equal(source.calls, want) {
				t.Fatalf("bytes %d to %d: calls are %v, want %v", start, end, source.calls, want)
			}
			needs := slices.Collect(archive.Needs(int64(start), int64(end-start)))
			if !slices.Equal(needs, want) {
				t.Fatalf("bytes %d to %d: needs are %v, want %v", start, end, needs, want)
			}
		}
	}
}

func countEqual(list []int, n int) (count int) {
	for _, v := range list {
		if v == n {
			count++
		}
	}
	return count
}

// failingSource returns err, or content that ends with it.
type failingSource struct {
	content, err error
	length       int64 // of the content beyond that asked for
	crc          error
}

func (s *failingSource) Content(_ int, _, length int64) (io.Reader, error) {
	if s.err != nil {
		return nil, s.err
	}
	return io.MultiReader(io.LimitReader(zeros{}, length+s.length), iotest.ErrReader(s.content)), nil
}

func (s *failingSource) CRC(int) (uint32, error) { return 0, s.crc }

func TestArchive_WriteRangeReturnsErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	failed := errors.New("failed")
	for _, streamed := range []bool{false, true} {
		archive := newArchive(t, []Entry{{Name: "x", Modified: modified, Size: 100_000, Streamed: streamed}})
		for name, c := range map[string]struct {
			source failingSource
			want   error
		}{
			"Content":       {failingSource{err: failed}, failed},
			"Read":          {failingSource{length: -1, content: failed}, failed},
			"Read at end":   {failingSource{content: failed}, failed},
			"short content": {failingSource{length: -1, content: io.EOF}, io.ErrUnexpectedEOF},
			"no content":    {failingSource{length: -100_000, content: io.EOF}, io.ErrUnexpectedEOF},
			"long content":  {failingSource{length: 1, content: io.EOF}, errTooLong},
			"CRC":           {failingSource{content: io.EOF, crc: failed}, failed},
			"no error":      {failingSource{content: io.EOF}, nil},
		} {
			t.Log(name, streamed, c.want)
			err := archive.WriteRange(io.Discard, 0, archive.Size(), &c.source)
			is.True(errors.Is(err, c.want))
		}
	}
}

type limitedWriter int

func (w *limitedWriter) Write(p []byte) (int, error) {
	if n := int(*w); n < len(p) {
		return n, io.ErrClosedPipe
	}
	*w -= limitedWriter(len(p))
	return len(p), nil
}

func TestArchive_WriteRangeReturnsWriteError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	archive := newArchive(t, []Entry{{Name: "a", Size: 10}, {Name: "b", Size: 10, Streamed: true}})
	for n := range archive.Size() {
		w := limitedWriter(n)
		err := archive.WriteRange(&w, 0, archive.Size(), &failingSource{content: io.EOF})
		is.True(errors.Is(err, io.ErrClosedPipe))
	}
}

func TestArchive_WriteRangeRejectsInvalidRange(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	archive := newArchive(t, nil)
	for _, r := range [][2]int64{{-1, 1}, {0, -1}, {0, 23}, {22, 1}, {23, 0}, {1, 1<<63 - 1}, {1<<63 - 1, 1}} {
		is.True(archive.WriteRange(io.Discard, r[0], r[1], nil) != nil)
	}
	is.NoErr(archive.WriteRange(io.Discard, 22, 0, nil))
}

// fileReader copies a part of a file like package files does.
type fileReader struct{ *io.LimitedReader }

func (r fileReader) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, r.LimitedReader) }

type osSource struct{ f *os.File }

func (s osSource) Content(_ int, offset, length int64) (io.Reader, error) {
	_, err := s.f.Seek(offset, io.SeekStart)
	return fileReader{&io.LimitedReader{R: s.f, N: length}}, err
}

func (s osSource) CRC(int) (uint32, error) { return 0, nil }

func TestArchive_WriteRangeLetsKernelCopy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newZeroFile(t)
	archive := newArchive(t, []Entry{{Name: "x", Size: 100_000}})
	w := &kernelWriter{Writer: io.Discard}
	is.NoErr(archive.WriteRange(w, 10_000, 80_000, osSource{f}))
	is.Equal(w.copied, int64(80_000))
}
