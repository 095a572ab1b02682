package s3_test

import (
	"archive/zip"
	"bytes"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/testflag"
)

func TestGateway_MultipartObject(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	opener := g.opener(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	content = append(content, "the second part"...)
	g.putParts(t, "a", slices.Values([][]byte{content[:5<<20], content[5<<20:]}))
	file, got := openKey(t, opener, g.objectURL("a"))
	is.True(got == string(content))
	is.True(strings.HasSuffix(file.Validator, `-2"`))
	part, err := opener.OpenRange(t.Context(), g.objectURL("a"), exports.Part{Validator: file.Validator, Size: file.Size, Offset: 5<<20 - 3, Length: 6})
	is.NoErr(err)
	is.Equal(read(t, part), "defthe")
}

// An object of 5 GiB in 80 parts is downloaded completely, and in a zip by a link.
// Its upload takes half a minute and 5 GiB of disk.
func TestGateway_LargeMultipartObject(t *testing.T) {
	if !*testflag.Long {
		t.Skip("run with -long")
	}
	is := is.New(t)
	g := newGateway(t)
	opener := g.opener(t)
	const partSize, size = 64 << 20, 5 << 30
	start := time.Now()
	step := func(name string) {
		t.Logf("%s: %v", name, time.Since(start).Round(time.Millisecond))
		start = time.Now()
	}
	sum := g.putParts(t, "large", func(yield func([]byte) bool) {
		for i := range size / partSize {
			if !yield(bytes.Repeat([]byte{byte(i)}, partSize)) {
				return
			}
		}
	})
	step("upload")
	file := must(opener.Stat(t.Context(), g.objectURL("large")))(t)
	is.Equal(file.Size, int64(size))
	part, err := opener.OpenRange(t.Context(), g.objectURL("large"), exports.Part{Validator: file.Validator, Size: size, Offset: 4<<30 - 2, Length: 4})
	is.NoErr(err)
	is.Equal(read(t, part), "\x3f\x3f\x40\x40")
	step("stat and range")
	file = must(opener.Open(t.Context(), g.objectURL("large")))(t)
	hash := crc32.NewIEEE()
	n := must(io.Copy(hash, file.Body))(t)
	is.NoErr(file.Body.Close())
	is.Equal(n, int64(size))
	is.Equal(hash.Sum32(), sum)
	step("download")

	service := must(exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}}))(t)
	_, _, err = service.Register(t.Context(), exports.Registration{SourceURL: "1", ExportedURL: g.objectURL("large").String()})
	is.NoErr(err)
	items := must(service.FindBatch(t.Context(), exports.BatchOf("1", "1")))(t)
	link := must(service.CreateLink(t.Context(), exports.LinkRequest{Items: items}))(t)
	is.True(link.Resumable() && link.Size > 2*size)
	archive := must(zip.NewReader(linkReaderAt{t, link}, link.Size))(t)
	is.Equal(archive.File[1].CRC32, sum)
	is.Equal(archive.File[1].UncompressedSize64, uint64(size))
	step("directory of the link")
	is.NoErr(service.Flush(t.Context()))
}

// sectionBuffer is an [exports.LinkWriter] of one section.
type sectionBuffer struct {
	bytes.Buffer
	section exports.Section
}

func (b *sectionBuffer) Select(*exports.Link) ([]exports.Section, error) {
	return []exports.Section{b.section}, nil
}
func (b *sectionBuffer) Begin(*exports.Link, int) error { return nil }
func (b *sectionBuffer) Flush() error                   { return nil }

// linkReaderAt reads a link in ranges, as a resumed download.
type linkReaderAt struct {
	t    *testing.T
	link *exports.Link
}

// ReadAt implements [io.ReaderAt].
func (l linkReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	n := min(int64(len(p)), l.link.Size-offset)
	part := sectionBuffer{section: exports.Section{Offset: offset, Length: n}}
	if _, err := l.link.Serve(l.t.Context(), &part); err != nil {
		return 0, err
	}
	copy(p, part.Bytes())
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// An object of 5 GiB is a sparse file of the gateway.
func TestGateway_LargeObject(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	if g.dir == "" {
		t.Skip("the files of the endpoint in CANVASBACK_TEST_S3 are on another machine")
	}
	const size = 5 << 30
	f := must(os.Create(filepath.Join(g.dir, "large")))(t)
	defer f.Close()
	is.NoErr(f.Truncate(size))
	_, err := f.WriteAt([]byte("the end"), size-7)
	is.NoErr(err)
	is.NoErr(os.Chtimes(f.Name(), time.Time{}, time.Now().Add(-time.Minute)))
	file := must(g.opener(t).Stat(t.Context(), g.objectURL("large")))(t)
	is.Equal(file.Size, int64(size))
	part, err := g.opener(t).OpenRange(t.Context(), g.objectURL("large"), exports.Part{Validator: file.Validator, Size: size, Offset: size - 8, Length: 8})
	is.NoErr(err)
	is.Equal(read(t, part), "\x00the end")
}
