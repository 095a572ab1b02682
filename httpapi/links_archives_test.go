package httpapi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/storage/memory"
)

// generatedFile is a file whose content follows from its size.
type generatedFile struct {
	size    int64
	name    string // as registered
	missing bool
	crc     bool // is known
}

// generatedOpener is a RangeOpener. The file at /N of a URL is files[N].
type generatedOpener struct {
	anyURL
	files []generatedFile
}

func (o *generatedOpener) file(u *url.URL) (generatedFile, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(u.Path, "/"))
	if err == nil && o.files[n].missing {
		err = exports.ErrGone
	}
	if err != nil {
		return generatedFile{}, err
	}
	return o.files[n], nil
}

func (o *generatedOpener) Stat(_ context.Context, u *url.URL) (*exports.File, error) {
	f, err := o.file(u)
	if err != nil {
		return nil, err
	}
	return &exports.File{Size: f.size, Validator: strconv.FormatInt(f.size, 10)}, nil
}

func (o *generatedOpener) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	file, err := o.Stat(ctx, u)
	if err == nil {
		file.Body = generatedFile{size: file.Size}.open(0, file.Size)
	}
	return file, err
}

func (o *generatedOpener) OpenRange(_ context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	f, err := o.file(u)
	if err != nil {
		return nil, err
	}
	return f.open(r.Offset, r.Length), nil
}

func (f generatedFile) open(offset, length int64) io.ReadCloser {
	return io.NopCloser(io.NewSectionReader(f, offset, length))
}

// ReadAt implements [io.ReaderAt]. Each word of 8 bytes differs from all others.
func (f generatedFile) ReadAt(p []byte, offset int64) (int, error) {
	var word [8]byte
	for n := 0; n < len(p); {
		at := offset + int64(n)
		binary.LittleEndian.PutUint64(word[:], uint64(at/8+f.size<<34+1)*0x9e3779b97f4a7c15)
		n += copy(p[n:], word[at%8:])
	}
	return len(p), nil
}

// generatedArchives returns the files of 20 archives. With large, some of them have
// up to 5 GiB.
func generatedArchives(large bool) map[string][]generatedFile {
	random := rand.New(rand.NewPCG(1, 2))
	many := func(count int, size int64) (list []generatedFile) {
		for range count {
			list = append(list, generatedFile{size: random.Int64N(size + 1), crc: random.IntN(4) == 0})
		}
		return list
	}
	var odd []generatedFile
	for _, name := range []string{
		"plan.pdf", "PLAN.pdf", "plan.pdf", "é.txt", "e\u0301.txt", "a/b\\c", "..", "manifest.json", "con", "x\x01y", " ",
		strings.Repeat("ä", 300), "图纸.dwg", "🦆.zip", "a.tar.gz", "a.tar.gz", "\u202egpj.exe", "%00",
	} {
		odd = append(odd, generatedFile{size: random.Int64N(2000), name: name})
	}
	missing := many(200, 5000)
	for i := range missing {
		missing[i].missing = i%3 == 1
	}
	list := map[string][]generatedFile{
		"empty file":        {{}},
		"one byte":          {{size: 1}},
		"one byte, CRC":     {{size: 1, crc: true}},
		"empty files":       many(300, 0),
		"odd names":         odd,
		"block sizes":       {{size: 65534}, {size: 65535}, {size: 65536}, {size: 131070}, {size: 131071}, {size: 131072}},
		"around 1 MiB":      {{size: 1<<20 - 1}, {size: 1 << 20}, {size: 1<<20 + 1}, {size: 1<<20 + 1, crc: true}},
		"skipped files":     missing,
		"first is skipped":  {{missing: true}, {size: 70_000}, {size: 3 << 20}},
		"last is skipped":   {{size: 3 << 20}, {size: 70_000}, {missing: true}},
		"2 to 10 MiB":       {{size: 2 << 20}, {size: 10 << 20, crc: true}, {size: 5<<20 + 3}, {size: 7<<20 - 9}},
		"empty among large": {{}, {size: 2 << 20}, {}, {}, {size: 4 << 20}, {}},
		"1,000 entries":     many(1000, 3000),
	}
	if !large {
		return list
	}
	const gib = 1 << 30
	list["3,000 empty files"] = many(3000, 0)
	list["100 MiB"] = []generatedFile{{size: 100 << 20}}
	list["10,000 entries"] = many(10_000, 500)
	list["65,535 entries"] = many(65_535, 30)
	list["70,000 entries"] = many(70_000, 300)
	list["5 GiB"] = []generatedFile{{size: 5 * gib}, {size: 7}}
	list["5 GiB, CRC"] = []generatedFile{{size: 3}, {size: 5 * gib, crc: true}, {}}
	list["around 4 GiB"] = append([]generatedFile{{size: 4*gib - 5_000_000}}, many(2000, 9000)...)
	return list
}

// TestLinks_RangesEqualSlices requests random ranges of archives from two processes
// and compares them with complete downloads. CANVASBACK_TEST_RANGES is the number
// of ranges; from 10,000 on, there are archives of up to 5 GiB and 70,000 entries.
func TestLinks_RangesEqualSlices(t *testing.T) {
	t.Parallel()
	ranges, _ := strconv.Atoi(os.Getenv("CANVASBACK_TEST_RANGES"))
	if ranges == 0 {
		ranges = 100
	}
	list := generatedArchives(ranges >= 10_000)
	equal := 0
	for name, files := range list {
		t.Run(name, func(t *testing.T) {
			a := newArchiveTest(t, files)
			for range ranges / len(list) {
				a.checkRange()
				equal++
			}
		})
	}
	t.Logf("%d of %d ranges are equal", equal, ranges)
}

// archiveTest is an archive with a link, and two processes that serve it.
type archiveTest struct {
	t         *testing.T
	processes []*linkHarness
	path, tag string
	want      *os.File // the complete download
	size      int64
	parts     []int64 // offsets of contents
	random    *rand.Rand
}

func newArchiveTest(t *testing.T, files []generatedFile) *archiveTest {
	is := is.New(t)
	store := memory.New().Exports()
	a := &archiveTest{t: t, random: rand.New(rand.NewPCG(uint64(len(files)), 3))}
	for range 2 {
		a.processes = append(a.processes, &linkHarness{harness: serve(t, func(o *httpapi.Options) {
			o.DangerouslySkipClientKeys = true
			o.Exports = must(exports.NewService(store, &exports.Options{
				MaxItems: len(files), LinkServed: 1 << 20, Openers: []exports.Opener{&generatedOpener{files: files}},
			}))(t)
		})})
	}
	l := a.processes[0]
	var sources []string
	for i, f := range files {
		url := "https://files.example/" + strconv.Itoa(i)
		if f.crc {
			hash := crc32.NewIEEE()
			io.Copy(hash, f.open(0, f.size))
			crc := hash.Sum32()
			fact := exports.Fact{
				URL: sha256.Sum256([]byte(url)), Validator: strconv.FormatInt(f.size, 10), Size: f.size, CRC32: &crc,
			}
			is.NoErr(store.(exports.LinkStore).PutFacts(t.Context(), []exports.Fact{fact}, 1<<20))
		}
		name := f.name
		if name == "" {
			name = fmt.Sprintf("%d.bin", i)
		}
		_, _, err := l.options.Exports.Register(t.Context(), exports.Registration{
			SourceURL: strconv.Itoa(i), ExportedURL: url, FileName: &name,
		})
		is.NoErr(err)
		sources = append(sources, strconv.Itoa(i))
	}
	var link linkBody
	link, a.path = l.create(batchBody(sources...))
	a.tag, a.size = *link.ETag, *link.Size
	a.download()
	a.checkArchive(files)
	for _, l := range a.processes {
		is.NoErr(l.options.Exports.Flush(t.Context()))
	}
	return a
}

// download downloads the complete archive.
func (a *archiveTest) download() {
	is := is.New(a.t)
	a.want = must(os.CreateTemp(a.t.TempDir(), ""))(a.t)
	a.t.Cleanup(func() { a.want.Close() })
	response := a.processes[0].open("GET", a.path, "")
	is.Equal(response.StatusCode, 200)
	is.Equal(response.ContentLength, a.size)
	n := must(io.Copy(a.want, response.Body))(a.t)
	is.Equal(n, a.size)
}

// checkArchive compares the contents of the complete download with the files.
func (a *archiveTest) checkArchive(files []generatedFile) {
	is := is.New(a.t)
	archive := must(zip.NewReader(a.want, a.size))(a.t)
	files = slices.DeleteFunc(slices.Clone(files), func(f generatedFile) bool { return f.missing })
	buffer := make([]byte, 256<<10)
	for i, entry := range archive.File {
		offset := must(entry.DataOffset())(a.t)
		a.parts = append(a.parts, offset, offset+int64(entry.CompressedSize64))
		content := must(entry.Open())(a.t)
		if i == len(files) {
			is.Equal(entry.Name, "manifest.json")
			must(io.Copy(io.Discard, content))(a.t)
			continue
		}
		is.Equal(entry.UncompressedSize64, uint64(files[i].size))
		want := files[i].open(0, files[i].size)
		for {
			n, err := io.ReadFull(content, buffer)
			wanted := make([]byte, n)
			io.ReadFull(want, wanted)
			if !bytes.Equal(buffer[:n], wanted) {
				a.t.Fatalf("entry %d differs", i)
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				break
			}
			is.NoErr(err)
		}
	}
	a.parts = append(a.parts, 0, a.size)
}

// checkRange requests a random range, most often near the start or the end of a
// content, and compares it with the complete download.
func (a *archiveTest) checkRange() {
	first := a.random.Int64N(a.size)
	if a.random.IntN(3) > 0 {
		first = a.parts[a.random.IntN(len(a.parts))] + a.random.Int64N(100) - 70
	}
	first = max(0, min(first, a.size-1))
	length := min(1+a.random.Int64N([]int64{1, 50, 1000, 200_000}[a.random.IntN(4)]), a.size-first)
	value := fmt.Sprintf("bytes=%d-%d", first, first+length-1)
	switch rest := a.size - first; {
	case rest > 300_000:
	case a.random.IntN(2) == 0:
		value, length = fmt.Sprintf("bytes=%d-", first), rest
	case a.random.IntN(2) == 0:
		value, length = fmt.Sprintf("bytes=-%d", rest), rest
	}
	l := a.processes[a.random.IntN(2)]
	response := l.send("GET", a.path, "", "Range", value, "If-Range", a.tag).want(206)
	response.wantHeaders("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, first+length-1, a.size))
	want := make([]byte, length)
	must(a.want.ReadAt(want, first))(a.t)
	is.New(a.t).True(bytes.Equal(response.body, want))
}

// TestLinks_ClientsResume continues a download with programs that users have. One
// that is not installed is skipped.
func TestLinks_ClientsResume(t *testing.T) {
	t.Parallel()
	l := serveLinks(t, exports.Options{})
	for _, name := range []string{"a", "b", "c"} {
		l.add(name, strings.Repeat(name+largeContent, 2))
	}
	_, path := l.create(batchBody("a", "b", "c", "missing"))
	want := l.send("GET", path, "").want(200).body
	for name, args := range map[string][]string{
		"curl":   {"-sS", "--fail", "-C", "-", "-o", "canvas-exports.zip", l.url + path},
		"wget":   {"-q", "-c", l.url + path},
		"aria2c": {"-q", "-c", "-x8", "-s8", "-k1M", l.url + path},
	} {
		for _, have := range []int{0, 1, len(want) / 3, len(want) - 1} {
			t.Run(name, func(t *testing.T) {
				if _, err := exec.LookPath(name); err != nil {
					t.Skip(err)
				}
				is := is.New(t)
				dir := t.TempDir()
				file := filepath.Join(dir, "canvas-exports.zip")
				if have > 0 {
					is.NoErr(os.WriteFile(file, want[:have], 0o600))
				}
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				t.Logf("%s", out)
				is.NoErr(err)
				got := must(os.ReadFile(file))(t)
				is.True(bytes.Equal(got, want))
			})
		}
	}
}
