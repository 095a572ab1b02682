package exports_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/storage/memory"
)

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

// localOpener opens a local file, whose Validator is its path, and no part of it.
type localOpener string

func (localOpener) Serves(*url.URL) bool { return true }

func (localOpener) Check(*url.URL) error { return nil }

func (o localOpener) Open(context.Context, *url.URL) (*exports.File, error) {
	file, err := os.Open(string(o))
	return &exports.File{Body: file, Size: 2 << 20, Validator: string(o)}, err
}

func TestBatch_KnowsLocalFileWithoutRanges(t *testing.T) {
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(path, make([]byte, 2<<20), 0o600))
	s := must(exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{localOpener(path)}}))(t)
	sources := register(t, s, "https://files.example/file")
	for range 2 { // the second one knows the CRC
		_, _, err := downloadBatch(t, s, sources)
		is.NoErr(err)
	}
}
