package exports

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports/ziptest"
)

// zipFile is an entry of a test archive.
type zipFile struct {
	name    string
	content []byte
	stream  bool // as a file that is still being read
}

// corpus are files that have tripped writers or readers of archives.
func corpus() []zipFile {
	pattern := func(n int) []byte {
		content := make([]byte, n)
		for i := range content {
			content[i] = byte(i * i >> 7)
		}
		return content
	}
	var files []zipFile
	for _, n := range []int{0, 1, 100, maxBlock - 1, maxBlock, maxBlock + 1, 2 * maxBlock, 300_000} {
		files = append(files,
			zipFile{fmt.Sprintf("whole-%d.bin", n), pattern(n), false},
			zipFile{fmt.Sprintf("stream-%d.bin", n), pattern(n), true},
		)
	}
	return append(files,
		zipFile{"résumé 图纸 🦆.txt", []byte("unicode"), false},
		zipFile{"other 图纸.txt", []byte("unicode, streamed"), true},
		zipFile{"a name with spaces & signs (1)'.txt", []byte("x"), false},
		zipFile{strings.Repeat("n", 251) + ".txt", []byte("long"), true},
		zipFile{"-rf", []byte("an option"), false},
		zipFile{".hidden", []byte("no extension"), true},
		zipFile{"[a-z] $HOME %00 ~ {1,2} #;`.txt", []byte("for a shell"), false},
		zipFile{"İstanbul straße ﬁle ẞ.txt", []byte("of unsteady case"), true},
		zipFile{"مخطط תכנית.txt", []byte("right to left"), false},
		// what looks like parts of an archive must not end one
		zipFile{"looks-like.zip", []byte("PK\x07\x08PK\x01\x02PK\x05\x06\x00\x00"), true},
	)
}

var someTime = time.Date(2026, 3, 30, 10, 20, 31, 0, time.UTC)

func writeZip(t testing.TB, files []zipFile) []byte {
	t.Helper()
	var out bytes.Buffer
	z := &zipWriter{w: &out}
	for _, f := range files {
		var err error
		if f.stream {
			err = z.addStream(f.name, someTime, -1, iotest.HalfReader(bytes.NewReader(f.content)))
		} else {
			err = z.addWhole(f.name, someTime, f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.close(); err != nil {
		t.Fatal(err)
	}
	if z.offset != uint64(out.Len()) {
		t.Fatalf("offset is %d behind %d bytes", z.offset, out.Len())
	}
	return out.Bytes()
}

func TestZip_isReadByGo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	files := corpus()
	archive := writeZip(t, files)
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.NoErr(err)
	is.Equal(len(r.File), len(files))
	for i, f := range r.File {
		is.Equal(f.Name, files[i].name)
		is.Equal(f.Modified.UTC(), someTime)
		is.Equal(f.NonUTF8, false)
		body, err := f.Open()
		is.NoErr(err)
		content, err := io.ReadAll(body)
		is.NoErr(err) // the checksum matches too
		is.True(bytes.Equal(content, files[i].content))
	}
}

func TestZip_ofNothingIsEmpty(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	archive := writeZip(t, nil)
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.NoErr(err)
	is.Equal(len(r.File), 0)
}

// TestZip_ofOneEntryIsReadByEveryone: the last entry is the first one too.
func TestZip_ofOneEntryIsReadByEveryone(t *testing.T) {
	t.Parallel()
	for _, f := range []zipFile{
		{"whole.txt", []byte("x"), false}, {"stream.txt", []byte("x"), true},
		{"empty", nil, false}, {"empty stream", nil, true},
	} {
		ziptest.Read(t, writeZip(t, []zipFile{f}), 1, []string{f.name})
	}
}

func TestZip_manyEntriesAreZip64(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const count = 70_000
	files := make([]zipFile, count)
	for i := range files {
		files[i] = zipFile{name: fmt.Sprintf("%d.txt", i), content: []byte{byte(i)}}
	}
	archive := writeZip(t, files)
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.NoErr(err)
	is.Equal(len(r.File), count)
	ziptest.Read(t, archive, count, nil)
}

// TestZip_isReadByEveryone hands an archive to the readers on this machine,
// from a file and from a pipe.
func TestZip_isReadByEveryone(t *testing.T) {
	t.Parallel()
	files := corpus()
	ziptest.Read(t, writeZip(t, files), len(files), namesOf(files))
}

func namesOf(files []zipFile) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.name
	}
	return names
}

// TestZip_tornStreamIsAnError: the error by which an origin says that a file
// was cut off is the very one that io.ReadFull has for a short last block.
func TestZip_tornStreamIsAnError(t *testing.T) {
	t.Parallel()
	for _, torn := range []error{io.ErrUnexpectedEOF, errors.New("reset")} {
		for _, n := range []int{0, 10, maxBlock, maxBlock + 5} {
			r := io.MultiReader(bytes.NewReader(make([]byte, n)), iotest.ErrReader(torn))
			z := &zipWriter{w: io.Discard}
			if err := z.addStream("x", someTime, -1, r); !errors.Is(err, torn) {
				t.Errorf("a stream cut after %d bytes gives %v", n, err)
			}
		}
	}
}

// zeros is an endless stream.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestZip_over4GiB writes sizes and offsets that need zip64. The archive is
// never kept: its tail alone is looked at.
func TestZip_over4GiB(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 4 GiB")
	}
	t.Parallel()
	is := is.New(t)
	const size = 1<<32 + 10
	tail := &tailWriter{}
	z := &zipWriter{w: tail}
	is.NoErr(z.addStream("large.bin", someTime, -1, io.LimitReader(zeros{}, size)))
	is.NoErr(z.addWhole("behind.txt", someTime, []byte("x")))
	is.NoErr(z.close())

	r, err := zip.NewReader(tail, tail.size)
	is.NoErr(err)
	is.Equal(len(r.File), 2)
	is.Equal(r.File[0].UncompressedSize64, uint64(size))
	is.True(r.File[0].CompressedSize64 > size)
	offset, err := r.File[1].DataOffset()
	is.NoErr(err)
	is.True(offset > size)
	body, err := r.File[1].Open()
	is.NoErr(err)
	content, err := io.ReadAll(body)
	is.NoErr(err)
	is.Equal(string(content), "x")
}

// TestZip_largeStreamSaysSo: without a word in the header, libarchive would read
// sizes of 4 bytes behind a stream of more than 4 GiB.
func TestZip_largeStreamSaysSo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var out bytes.Buffer
	z := &zipWriter{w: &out}
	is.True(z.addStream("x", someTime, 1<<32, strings.NewReader("less")) != nil)
	header := out.Bytes()
	is.Equal(binary.LittleEndian.Uint64(header[18:]), uint64(math.MaxUint64)) // both sizes
	is.Equal(binary.LittleEndian.Uint16(header[31:]), uint16(extra64))
}

// TestZip_over4GiBIsReadByEveryone takes minutes, because each reader unpacks
// the archive: go test ./exports -run 4GiB -huge
func TestZip_over4GiBIsReadByEveryone(t *testing.T) {
	if !*huge {
		t.Skip("asked for with -huge")
	}
	const size = 1<<32 + 10
	for _, missing := range []uint64{0, 1<<30 + 1} { // the second one is padded
		path := filepath.Join(t.TempDir(), "archive.zip")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		out := &sparseWriter{file: file}
		z := &zipWriter{w: out}
		z.plan("large.bin", someTime, size, false)
		z.plan("behind.txt", someTime, 1, true)
		z = &zipWriter{w: out, size: z.total() + missing}
		err = errors.Join(
			z.addStream("large.bin", someTime, size, zeros{}),
			z.fit("behind.txt", someTime, 1, true),
			z.addWhole("behind.txt", someTime, []byte("x")),
			z.close(),
			file.Truncate(out.size),
			file.Close(),
		)
		if err != nil {
			t.Fatal(err)
		}
		ziptest.ReadFile(t, path, 2, []string{"large.bin", "behind.txt"})
	}
}

var huge = flag.Bool("huge", false, "hand an archive of more than 4 GiB to every reader")

// sparseWriter leaves a hole wherever a page is empty.
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

// TestZip_planIsWhatIsWritten goes over the places where an archive becomes one
// of zip64.
func TestZip_planIsWhatIsWritten(t *testing.T) {
	t.Parallel()
	check := func(name string, at uint64, add func(z *zipWriter, plan bool) error) {
		t.Helper()
		planned, written := &zipWriter{offset: at}, &zipWriter{w: io.Discard, offset: at}
		if err := errors.Join(add(planned, true), add(written, false)); err != nil {
			t.Fatal(name, err)
		}
		total := written.total()
		if err := written.close(); err != nil {
			t.Fatal(name, err)
		}
		if planned.total() != written.offset || total != written.offset {
			t.Errorf("%s: planned are %d bytes, known before the end %d, written %d", name, planned.total(), total, written.offset)
		}
	}
	entries := func(count int) func(z *zipWriter, plan bool) error {
		return func(z *zipWriter, plan bool) error {
			for i := range count {
				name := strconv.Itoa(i)
				if plan {
					z.plan(name, someTime, 0, true)
				} else if err := z.addWhole(name, someTime, nil); err != nil {
					return err
				}
			}
			return nil
		}
	}
	stream := func(size uint64) func(z *zipWriter, plan bool) error {
		return func(z *zipWriter, plan bool) error {
			if plan {
				z.plan("stream", someTime, size, false)
				return nil
			}
			return z.addStream("stream", someTime, int64(size), zeros{})
		}
	}
	for _, count := range []int{0, 1, 65_534, 65_535, 65_536} {
		check(fmt.Sprintf("%d entries", count), 0, entries(count))
	}
	for at := range uint64(200) { // headers before, at and behind the boundary
		at += math.MaxUint32 - 150
		check(fmt.Sprintf("entries at %d", at), at, entries(3))
		check(fmt.Sprintf("a stream at %d", at), at, stream(10))
	}
	for _, size := range []uint64{0, 1, maxBlock - 1, maxBlock, maxBlock + 1, blocksAtOnce * maxBlock, 1 << 20} {
		check(fmt.Sprintf("a stream of %d", size), 0, stream(size))
	}
	if testing.Short() {
		return // what follows writes 8 GiB
	}
	// The largest file that is packed in less than 4 GiB, and one more byte.
	const largest = math.MaxUint32 - 1 - blockHead*69_900
	for _, size := range []uint64{largest, largest + 1} {
		check(fmt.Sprintf("a stream of %d", size), 0, stream(size))
	}
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
		return 0, errors.New("before the tail")
	}
	n := copy(p, w.tail[start:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
