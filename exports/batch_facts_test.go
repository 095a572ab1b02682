package exports_test

import (
	"archive/zip"
	"bytes"
	"io"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

func TestBatch_SizeIsKnownFromFacts(t *testing.T) {
	is := is.New(t)
	var list []fakeFile
	for i := range 40 { // more than are prefetched
		list = append(list, newFile(int64(i*70_000), uint64(i)))
	}
	l := newLinkTest(t, list...)
	first := l.service(exports.Options{})
	batch, err := openBatch(t, first, l.sources)
	is.NoErr(err)
	is.Equal(batch.Size(), int64(-1))
	batch.Close()
	_, _, err = downloadBatch(t, first, l.sources)
	is.NoErr(err)
	is.NoErr(first.Flush(t.Context()))

	second := l.service(exports.Options{})
	batch, err = openBatch(t, second, l.sources)
	is.NoErr(err)
	is.True(batch.Size() > 0)
	batch.Close()
	archive, _, err := downloadBatch(t, second, l.sources) // compares the size
	is.NoErr(err)
	names, contents := readZip(t, archive)
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.NoErr(err)
	for i, f := range list {
		t.Log(i, f)
		is.True(contents[names[i]] == string(contentOf(f)))
		is.True(r.File[i].Flags&8 == 0)
	}

	l.origin.set(fileURL(39), newFile(5, 5))
	_, _, err = downloadBatch(t, second, l.sources)
	is.True(err != nil)
	archive, _, err = downloadBatch(t, second, l.sources) // has no size to keep
	is.NoErr(err)
	_, contents = readZip(t, archive)
	is.True(contents["5-1.bin"] == string(contentOf(newFile(5, 5))))
}

// TestBatch_WrongFactFailsOneBatch has a file of which only a fact is known when the
// size of the zip is announced.
func TestBatch_WrongFactFailsOneBatch(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(*fakeOrigin)
		otherProcess bool
		skipped      int
	}{
		"file is gone":                   {func(o *fakeOrigin) { o.remove(fileURL(39)) }, false, 1},
		"file is gone, other process":    {func(o *fakeOrigin) { o.remove(fileURL(39)) }, true, 1},
		"other size, without validator":  {func(o *fakeOrigin) { o.set(fileURL(39), fakeFile{size: 5}) }, false, 0},
		"unknown CRC, without validator": {func(o *fakeOrigin) { o.set(fileURL(39), fakeFile{size: 2 << 20}) }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			var list []fakeFile
			for i := range 40 { // more than are prefetched
				list = append(list, newFile(1000, uint64(i)))
			}
			list[39].size = 2 << 20
			l := newLinkTest(t, list...)
			s := l.service(exports.Options{})
			_, _, err := downloadBatch(t, s, l.sources)
			is.NoErr(err)
			is.NoErr(s.Flush(t.Context()))

			c.change(l.origin)
			batch, err := openBatch(t, s, l.sources)
			is.NoErr(err)
			is.True(batch.Size() > 0) // from the facts
			is.True(batch.WriteZip(io.Discard, nil) != nil)
			is.NoErr(batch.Close())

			if c.otherProcess {
				s = l.service(exports.Options{})
			}
			_, skipped, err := downloadBatch(t, s, l.sources)
			is.NoErr(err)
			is.Equal(len(skipped), c.skipped)
		})
	}
}

func TestBatch_NoticesContentThatDiffersFromFacts(t *testing.T) {
	is := is.New(t)
	l := newLinkTest(t, newFile(2<<20, 1), newFile(2<<20, 2))
	s := l.service(exports.Options{})
	_, _, err := downloadBatch(t, s, l.sources)
	is.NoErr(err)
	liar := newFile(2<<20, 3)
	liar.validator = newFile(2<<20, 2).validator
	l.origin.set(fileURL(1), liar)
	_, _, err = downloadBatch(t, s, l.sources)
	is.True(err != nil)
	archive, _, err := downloadBatch(t, s, l.sources)
	is.NoErr(err)
	_, contents := readZip(t, archive)
	is.True(contents["3.bin"] == string(contentOf(liar)))
}
