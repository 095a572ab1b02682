package bundle

import (
	"archive/zip"
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"math"
)

// archive is a zip that is taken at its word in nothing.
type archive struct {
	entries []*zip.File
	limits  Limits
	left    int64 // bytes that may still come out
}

// directoryBytes is how much of a zip's directory is read for each entry that
// is allowed. Names, comments and such may be longer where others are shorter.
const directoryBytes = 512

func openArchive(data []byte, limits Limits) (*archive, error) {
	source := &boundedReader{r: bytes.NewReader(data), left: 128<<10 + int64(limits.Entries)*directoryBytes}
	z, err := zip.NewReader(source, int64(len(data)))
	switch {
	case errors.Is(err, errBound):
		return nil, tooManyEntries(limits.Entries)
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // paths lead nowhere here
		return nil, invalid("the archive is not a zip")
	}
	source.left = math.MaxInt64

	// Entries that share bytes would have them expanded again and again.
	room := uint64(len(data))
	for _, entry := range z.File {
		if entry.CompressedSize64 > room {
			return nil, invalid("the archive is not a zip: its entries have more bytes than there are")
		}
		room -= entry.CompressedSize64
	}
	left := min(limits.Total, max(freeOfRatio, limits.Ratio*int64(len(data))))
	return &archive{entries: z.File, limits: limits, left: left}, nil
}

// expand returns the content of an entry if it is whole and has at most so
// many bytes. The error is a refusal or a tooLarge.
func (a *archive) expand(entry *zip.File, most int64) ([]byte, error) {
	const encrypted = 1 << 0
	switch {
	case entry.Flags&encrypted != 0:
		return nil, refusal("encrypted")
	case entry.Method != zip.Store && entry.Method != zip.Deflate:
		return nil, refusal("packed by a method that is not supported")
	}
	r, err := entry.Open()
	if err != nil {
		return nil, refusal("damaged")
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, min(most, a.left)+1))
	size := int64(len(content))
	switch {
	case size > a.left:
		return nil, tooLarge("the zip is too large: too much comes out of it")
	case size > most:
		return nil, fileTooLarge(entry.Name)
	}
	a.left -= size
	if err != nil || crc32.ChecksumIEEE(content) != entry.CRC32 {
		return nil, refusal("damaged")
	}
	return content, nil
}

var errBound = errors.New("bundle: bound of reading")

// boundedReader gives up a reader from which too much is read.
type boundedReader struct {
	r    io.ReaderAt
	left int64
}

func (b *boundedReader) ReadAt(p []byte, offset int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errBound
	}
	return b.r.ReadAt(p, offset)
}
