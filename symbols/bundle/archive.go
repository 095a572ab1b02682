package bundle

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// archive is a zip from an untrusted source: the sizes in its headers are compared
// with its contents. Or it is a library or a picture.
type archive struct {
	size      int64       // of the archive
	entries   []*zip.File // nil if it is not a zip
	options   Options
	remaining int64 // bytes that may still be decompressed
}

// directoryBytes is how much of the central directory is read per allowed
// entry. An entry may have more if others have less.
const directoryBytes = 512

func openArchive(data []byte, options Options) (*archive, error) {
	limits, size := options.Limits, int64(len(data))
	a := &archive{size: size, options: options, remaining: min(limits.Total, max(ratioFreeBytes, limits.Ratio*size))}
	if !isZip(data) {
		return a, nil
	}
	source := &limitedReaderAt{r: bytes.NewReader(data), remaining: 128<<10 + int64(limits.Entries)*directoryBytes}
	z, err := zip.NewReader(source, size)
	switch {
	case errors.Is(err, errReadLimit):
		return nil, tooManyEntries(limits.Entries)
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // nothing is written to disk
		return nil, invalid("the archive is not a zip")
	}
	source.remaining = math.MaxInt64

	// Overlapping entries would decompress the same bytes many times.
	unused := uint64(len(data))
	for _, entry := range z.File {
		entry.Name = zipName(entry)
		if entry.CompressedSize64 > unused {
			return nil, invalid("the archive is not a zip: its entries are larger than the archive")
		}
		unused -= entry.CompressedSize64
	}
	a.entries = z.File
	return a, nil
}

// zipName returns the name of an entry, which is in code page 437 if it is not in UTF-8 and
// has no field with the UTF-8 (APPNOTE 6.3.10, section 4.6.9), as from WinZip and Info-ZIP.
func zipName(entry *zip.File) string {
	const utf8Flag, unicodePath, overhead = 1 << 11, 0x7075, 9
	name := entry.Name
	for extra := entry.Extra; len(extra) >= overhead; {
		field := extra[:min(4+int(binary.LittleEndian.Uint16(extra[2:])), len(extra))]
		if binary.LittleEndian.Uint16(extra) == unicodePath && len(field) > overhead &&
			binary.LittleEndian.Uint32(field[5:]) == crc32.ChecksumIEEE([]byte(name)) {
			return normalPath(string(field[overhead:]))
		}
		extra = extra[len(field):]
	}
	if entry.Flags&utf8Flag == 0 && !utf8.ValidString(name) {
		name, _ = charmap.CodePage437.NewDecoder().String(name) // it has a character for each byte
	}
	return normalPath(name)
}

// normalPath returns the name of a file as [Write] writes it: with slashes and in NFC.
func normalPath(name string) string { return norm.NFC.String(strings.ReplaceAll(name, `\`, "/")) }

const (
	// entryMemory is what a symbol takes beside its name and data, and the JSON around
	// that.
	entryMemory = 1 << 10

	// unpackedRatio is the size of what is made of a library, divided by its own.
	unpackedRatio = 4

	// freeData is how many bytes of data any archive may have beyond its memorySize: a
	// small library of compressed SVGs has ten times its own size, also in a zip.
	freeData = ratioFreeBytes
)

// memorySize returns the size of all files in base64, of what is made of each, and of two
// more copies of the largest: the file, and what a store makes of it.
func (a *archive) memorySize(dryRun bool) int64 {
	if a.entries == nil {
		return unpackedRatio * a.size
	}
	var total, largest int64
	for _, entry := range a.entries {
		size := int64(min(entry.UncompressedSize64, uint64(a.remaining)))
		total = min(total+size, a.remaining) // decompress reads no more
		largest = max(largest, size)
	}
	if dryRun {
		total = largest
	}
	return (total+2*largest)/3*4 + entryMemory*int64(len(a.entries))
}

const maxDeflateRatio = 1032 // the highest of DEFLATE

// decompress returns the content of an entry, which has at most maxSize bytes.
// The error is a fileError or matches ErrTooLarge.
func (a *archive) decompress(entry *zip.File, maxSize int64) ([]byte, error) {
	const encrypted = 1 << 0
	switch {
	case entry.Flags&encrypted != 0:
		return nil, fileError("encrypted")
	case entry.Mode()&fs.ModeSymlink != 0:
		return nil, fileError("a symbolic link")
	case entry.Method != zip.Store && entry.Method != zip.Deflate:
		return nil, fileError("unsupported compression method")
	}
	r, err := entry.Open()
	if err != nil {
		return nil, fileError("damaged")
	}
	defer r.Close()
	size := int64(entry.UncompressedSize64)
	switch {
	case size < 0, size/maxDeflateRatio > int64(entry.CompressedSize64):
		return nil, fileError("damaged")
	case size > a.remaining:
		return nil, tooLarge("the zip is too large: its files are too large when decompressed")
	case size > maxSize:
		return nil, a.fileTooLarge(entry.Name)
	}
	a.remaining -= size
	content := make([]byte, size)
	_, err = io.ReadFull(r, content)
	excess, _ := io.CopyN(io.Discard, r, 1)
	// archive/zip skips the check if the CRC-32 in the header is zero.
	if err != nil || excess > 0 || crc32.ChecksumIEEE(content) != entry.CRC32 {
		return nil, fileError("damaged")
	}
	return content, nil
}

var errReadLimit = errors.New("bundle: read limit reached")

// limitedReaderAt returns errReadLimit once more than remaining bytes are read.
type limitedReaderAt struct {
	r         io.ReaderAt
	remaining int64
}

func (l *limitedReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if l.remaining -= int64(len(p)); l.remaining < 0 {
		return 0, errReadLimit
	}
	return l.r.ReadAt(p, offset)
}
