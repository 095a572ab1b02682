package exports

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"
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
	readWithTools(t, archive, count, nil)
}

// TestZip_isReadByEveryone hands an archive to the readers on this machine,
// from a file and from a pipe.
func TestZip_isReadByEveryone(t *testing.T) {
	t.Parallel()
	files := corpus()
	readWithTools(t, writeZip(t, files), len(files), files)
}

const pythonReader = `
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
for name in z.namelist(): print(name)
`

const javaReader = `
import java.util.zip.*;
public class Read {
  public static void main(String[] a) throws Exception {
    System.setOut(new java.io.PrintStream(System.out, true, "UTF-8"));
    ZipInputStream in = new ZipInputStream(System.in);
    byte[] buf = new byte[1 << 16];
    for (ZipEntry e; (e = in.getNextEntry()) != null; ) {
      while (in.read(buf) >= 0) {}
      System.out.println(e.getName());
    }
  }
}
`

// readWithTools fails unless every reader installed here takes the archive for
// whole and finds all its entries. Those that list names must find files.
func readWithTools(t *testing.T, archive []byte, count int, files []zipFile) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "archive.zip")
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	java := filepath.Join(dir, "Read.java")
	if err := os.WriteFile(java, []byte(javaReader), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []struct {
		args  []string
		pipe  bool
		lists bool // prints one name a line
	}{
		{args: []string{"unzip", "-tqq", path}},
		{args: []string{"7z", "t", path}},
		{args: []string{"python3", "-c", pythonReader, path}, lists: true},
		{args: []string{"bsdtar", "-tf", path}, lists: true},
		{args: []string{"bsdtar", "-tf", "-"}, pipe: true, lists: true},
		{args: []string{"java", "-Dfile.encoding=UTF-8", java}, pipe: true, lists: true},
	} {
		if _, err := exec.LookPath(tool.args[0]); err != nil {
			if os.Getenv("CI") == "true" {
				t.Errorf("%s is not installed", tool.args[0])
			}
			t.Logf("SKIPPED: %s is not installed", tool.args[0])
			continue
		}
		cmd := exec.CommandContext(t.Context(), tool.args[0], tool.args[1:]...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		if tool.pipe {
			cmd.Stdin = io.MultiReader(bytes.NewReader(archive)) // not a file to seek in
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%.2000s", tool.args, err, out)
			continue
		}
		if !tool.lists {
			continue
		}
		names := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(names) != count {
			t.Errorf("%s finds %d entries, want %d", tool.args, len(names), count)
		}
		for i, f := range files {
			if i < len(names) && names[i] != f.name {
				t.Errorf("%s finds %q, want %q", tool.args, names[i], f.name)
			}
		}
	}
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
