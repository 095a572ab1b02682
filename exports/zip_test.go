package exports

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
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
		readWithTools(t, writeZip(t, []zipFile{f}), 1, []zipFile{f})
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
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.name
	}
	ziptest.Read(t, writeZip(t, files), len(names), names)
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
