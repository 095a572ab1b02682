package exports_test

import (
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
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
