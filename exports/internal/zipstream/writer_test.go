package zipstream

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports/ziptest"
	"example.com/canvasback/storage/testflag"
)

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

type file struct {
	name     string
	content  []byte
	streamed bool
}

func (f file) entry() Entry {
	return Entry{Name: f.name, Modified: modified, Size: int64(len(f.content)), CRC: crc32.ChecksumIEEE(f.content), Streamed: f.streamed}
}

// add writes the file. Streams arrive in small pieces.
func (f file) add(z *Writer) error {
	if f.streamed {
		return z.AddStream(f.entry(), iotest.HalfReader(bytes.NewReader(f.content)))
	}
	return z.AddBytes(f.entry(), f.content)
}

// corpus returns files that have broken writers or readers of archives.
func corpus() []file {
	pattern := func(n int) []byte {
		content := make([]byte, n)
		for i := range content {
			content[i] = byte(i * i >> 7)
		}
		return content
	}
	var files []file
	for _, n := range []int{0, 1, 100, maxBlock - 1, maxBlock, maxBlock + 1, 2 * maxBlock, 300_000} {
		files = append(files,
			file{fmt.Sprintf("stored-%d.bin", n), pattern(n), false},
			file{fmt.Sprintf("stream-%d.bin", n), pattern(n), true},
		)
	}
	return append(files,
		file{"résumé 图纸 🦆.txt", []byte("unicode"), false},
		file{"other 图纸.txt", []byte("unicode, streamed"), true},
		file{"a name with spaces & signs (1)'.txt", []byte("x"), false},
		file{strings.Repeat("n", 251) + ".txt", []byte("long"), true},
		file{"-rf", []byte("an option"), false},
		file{".hidden", []byte("no extension"), true},
		file{"[a-z] $HOME %00 ~ {1,2} #;`.txt", []byte("for a shell"), false},
		file{"İstanbul straße ﬁle ẞ.txt", []byte("of unsteady case"), true},
		file{"مخطط תכנית.txt", []byte("right to left"), false},
		// signatures in the content must not end the archive
		file{"looks-like.zip", []byte("PK\x07\x08PK\x01\x02PK\x05\x06\x00\x00"), true},
	)
}

var modified = time.Date(2026, 3, 30, 10, 20, 31, 0, time.UTC)

func writeZip(t testing.TB, files []file) []byte {
	t.Helper()
	is := is.New(t)
	var out bytes.Buffer
	z := NewWriter(&out)
	for _, f := range files {
		is.NoErr(f.add(z))
	}
	is.NoErr(z.Close())
	return out.Bytes()
}

func readZip(t testing.TB, archive []byte) *zip.Reader {
	t.Helper()
	return must(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))(t)
}

func TestWriter_ReadByArchiveZip(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, files := range [][]file{nil, corpus()} {
		r := readZip(t, writeZip(t, files))
		is.Equal(len(r.File), len(files))
		for i, f := range r.File {
			is.Equal(f.Name, files[i].name)
			is.Equal(f.Modified.UTC(), modified)
			is.Equal(f.NonUTF8, false)
			body := must(f.Open())(t)
			content := must(io.ReadAll(body))(t) // the checksum matches too
			is.True(bytes.Equal(content, files[i].content))
		}
	}
}

// TestWriter_ReadByAllReaders covers the readers installed on this machine, from
// a file and from a pipe.
func TestWriter_ReadByAllReaders(t *testing.T) {
	t.Parallel()
	x := []byte("x")
	for _, files := range [][]file{
		corpus(), {{"stored.txt", x, false}}, {{"stream.txt", x, true}},
		{{"empty", nil, false}}, {{"empty stream", nil, true}},
	} {
		var names []string
		for _, f := range files {
			names = append(names, f.name)
		}
		ziptest.Read(t, writeZip(t, files), len(files), names)
	}
}

func TestWriter_ManyEntriesAreZip64(t *testing.T) {
	testflag.SkipUnlessThorough(t)
	t.Parallel()
	is := is.New(t)
	const count = 70_000
	files := make([]file, count)
	for i := range files {
		files[i] = file{name: fmt.Sprintf("%d.txt", i), content: []byte{byte(i)}}
	}
	archive := writeZip(t, files)
	is.Equal(len(readZip(t, archive).File), count)
	ziptest.Read(t, archive, count, nil)
}

func TestWriter_AddStreamUnknownSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var known, unknown bytes.Buffer
	content := bytes.Repeat([]byte("canvasback "), 20_000)
	for out, size := range map[*bytes.Buffer]int64{&known: int64(len(content)), &unknown: -1} {
		z := NewWriter(out)
		is.NoErr(z.AddStream(Entry{Name: "x", Modified: modified, Size: size}, bytes.NewReader(content)))
		is.NoErr(z.Close())
	}
	is.True(bytes.Equal(known.Bytes(), unknown.Bytes()))
}

// io.ErrUnexpectedEOF stands for a truncated upstream, and is also what
// io.ReadFull returns for a short last block.
func TestWriter_AddStreamReturnsReadError(t *testing.T) {
	t.Parallel()
	for _, want := range []error{io.ErrUnexpectedEOF, errors.New("reset")} {
		for _, n := range []int{0, 10, maxBlock, maxBlock + 5} {
			r := io.MultiReader(bytes.NewReader(make([]byte, n)), iotest.ErrReader(want))
			if err := NewWriter(io.Discard).AddStream(Entry{Name: "x", Size: -1}, r); !errors.Is(err, want) {
				t.Errorf("error after %d bytes is %v, want %v", n, err, want)
			}
		}
	}
}

func TestWriter_RejectsWrongSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(NewWriter(io.Discard).AddStream(Entry{Name: "x", Size: 3}, strings.NewReader("ab")), io.ErrUnexpectedEOF)
	is.True(NewWriter(io.Discard).AddBytes(Entry{Name: "x", Size: 3}, []byte("ab")) != nil)
	is.True(NewWriter(io.Discard).AddBytes(Entry{Name: "x", Size: 2, Streamed: true}, []byte("ab")) != nil)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestWriter_Over4GiB writes sizes and offsets that need zip64. Only the end of
// the archive is kept.
func TestWriter_Over4GiB(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 4 GiB")
	}
	t.Parallel()
	is := is.New(t)
	const size = 1<<32 + 10
	tail := &tailWriter{}
	z := NewWriter(tail)
	is.NoErr(z.AddStream(Entry{Name: "large.bin", Modified: modified, Size: -1}, io.LimitReader(zeros{}, size)))
	is.NoErr(file{"behind.txt", []byte("x"), false}.add(z))
	is.NoErr(z.Close())

	r := must(zip.NewReader(tail, tail.size))(t)
	is.Equal(len(r.File), 2)
	is.Equal(r.File[0].UncompressedSize64, uint64(size))
	is.True(r.File[0].CompressedSize64 > size)
	is.True(must(r.File[1].DataOffset())(t) > size)
	is.Equal(string(must(io.ReadAll(must(r.File[1].Open())(t)))(t)), "x")
}

// Without zip64 sizes in the header, libarchive reads 4-byte sizes from the
// descriptor of a stream of more than 4 GiB.
func TestWriter_LargeStreamHasZip64Header(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var out bytes.Buffer
	is.True(NewWriter(&out).AddStream(Entry{Name: "x", Modified: modified, Size: 1 << 32}, strings.NewReader("less")) != nil)
	header := out.Bytes()
	is.Equal(binary.LittleEndian.Uint64(header[18:]), uint64(math.MaxUint64)) // both sizes
	is.Equal(binary.LittleEndian.Uint16(header[31:]), uint16(extra64))
}

// TestWriter_Over4GiBReadByAllReaders takes minutes, because each reader unpacks
// the archive: go test ./exports/internal/zipstream -run 4GiB -huge
func TestWriter_Over4GiBReadByAllReaders(t *testing.T) {
	is := is.New(t)
	if !*huge {
		t.Skip("runs with -huge only")
	}
	const size = 1<<32 + 10
	path := filepath.Join(t.TempDir(), "archive.zip")
	archive := must(os.Create(path))(t)
	out := &sparseWriter{file: archive}
	z := NewWriter(out)
	err := errors.Join(
		z.AddStream(Entry{Name: "large.bin", Modified: modified, Size: size}, zeros{}),
		file{"behind.txt", []byte("x"), false}.add(z),
		z.Close(),
		archive.Truncate(out.size),
		archive.Close(),
	)
	is.NoErr(err)
	ziptest.ReadFile(t, path, 2, []string{"large.bin", "behind.txt"})
}

var huge = flag.Bool("huge", false, "pass an archive of more than 4 GiB to every reader")

// sparseWriter skips pages of zeros, so that the file takes little space.
type sparseWriter struct {
	file *os.File
	size int64
}

func (w *sparseWriter) Write(p []byte) (int, error) {
	const page = 4 << 10
	n := len(p)
	for len(p) > 0 {
		length := min(int64(len(p)), page-w.size%page)
		if slices.ContainsFunc(p[:length], func(b byte) bool { return b != 0 }) {
			if _, err := w.file.WriteAt(p[:length], w.size); err != nil {
				return 0, err
			}
		}
		w.size += length
		p = p[length:]
	}
	return n, nil
}

// tailWriter keeps the last megabyte or so of what is written to it.
type tailWriter struct {
	size int64
	tail []byte
}

func (w *tailWriter) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	w.tail = append(w.tail, p...)
	if extra := len(w.tail) - 1<<21; extra > 0 {
		w.tail = append(w.tail[:0], w.tail[extra+1<<20:]...)
	}
	return len(p), nil
}

func (w *tailWriter) ReadAt(p []byte, offset int64) (int, error) {
	start := offset - (w.size - int64(len(w.tail)))
	if start < 0 {
		return 0, errors.New("offset before the tail")
	}
	n := copy(p, w.tail[start:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// TestHeader_Zip64FromItsFirstValue checks the number that marks a field as one of zip64,
// which no file can be large enough to have in a test.
func TestHeader_Zip64FromItsFirstValue(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for _, h := range []*header{
		{Entry: Entry{Name: "a", Size: math.MaxUint32}},
		{Entry: Entry{Name: "a"}, compressed: math.MaxUint32},
		{Entry: Entry{Name: "a"}, offset: math.MaxUint32},
	} {
		is.True(h.needsZip64())
		central := h.appendCentral(nil)
		is.Equal(binary.LittleEndian.Uint16(central[6:]), uint16(version64)) // needed to extract
	}
	below := &header{Entry: Entry{Name: "a", Size: math.MaxUint32 - 1}, compressed: math.MaxUint32 - 1, offset: math.MaxUint32 - 1}
	is.True(!below.needsZip64())
	is.Equal(binary.LittleEndian.Uint16(below.appendCentral(nil)[6:]), uint16(versionDefault))
}

func TestWriter_AddStoredEqualsAddBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	content := bytes.Repeat([]byte("canvasback "), 20_000)
	e := file{"x", content, false}.entry()
	var stored, added bytes.Buffer
	z := NewWriter(&stored)
	is.NoErr(z.AddStored(e, bytes.NewReader(content[:100]), iotest.HalfReader(bytes.NewReader(content[100:])), bytes.NewReader(content)))
	is.NoErr(z.Close())
	z = NewWriter(&added)
	is.NoErr(z.AddBytes(e, content))
	is.NoErr(z.Close())
	is.True(bytes.Equal(stored.Bytes(), added.Bytes()))
}

func TestWriter_AddStoredReturnsErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	e := Entry{Name: "x", Size: 10}
	content := bytes.NewReader(make([]byte, 9))
	is.Equal(NewWriter(io.Discard).AddStored(e, content), io.ErrUnexpectedEOF)
	is.Equal(NewWriter(io.Discard).AddStored(e, iotest.ErrReader(io.ErrClosedPipe)), io.ErrClosedPipe)
	is.True(NewWriter(io.Discard).AddStored(Entry{Size: -1}) != nil)
	is.True(NewWriter(io.Discard).AddStored(Entry{Streamed: true}) != nil)
}

// kernelWriter records files that the kernel could copy to a connection.
type kernelWriter struct {
	io.Writer
	copied int64
}

func (w *kernelWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.Writer, r)
	if limited, ok := r.(*io.LimitedReader); ok {
		if _, ok := limited.R.(*os.File); ok {
			w.copied += n
		}
	}
	return n, err
}

// newZeroFile returns an open file of 100,000 bytes.
func newZeroFile(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x")
	is.New(t).NoErr(os.WriteFile(path, make([]byte, 100_000), 0o600))
	f := must(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestWriter_AddStoredLetsKernelCopy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newZeroFile(t)
	w := &kernelWriter{Writer: io.Discard}
	is.NoErr(NewWriter(w).AddStored(Entry{Name: "x", Size: 90_010}, bytes.NewReader(make([]byte, 10)), f))
	is.Equal(w.copied, int64(90_000))
}
