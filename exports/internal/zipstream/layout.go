package zipstream

import (
	"errors"
	"math"
	"sort"
)

// maxSize is the limit of an archive's size, 1 EiB. It keeps sums in 64 bits.
const maxSize = 1 << 60

var errLayout = errors.New("zipstream: size or name of an entry out of range")

// Archive gives the position of every byte of an archive. Only the CRC fields
// depend on content. An Archive is immutable and safe for concurrent use.
type Archive struct {
	entries   []Entry
	offsets   []int64 // of the local headers
	records   []int64 // offsets of the records in the central directory
	directory int64   // offset of the central directory
	end       int64   // offset of the end records
	size      int64
}

// NewArchive computes the layout of an archive with the entries, which it keeps.
// It returns an error if the size of an entry is negative, if a name has more than
// 65,535 bytes, or if the archive has more than 1 EiB.
func NewArchive(entries []Entry) (*Archive, error) {
	a := &Archive{entries: entries, offsets: make([]int64, len(entries)), records: make([]int64, len(entries))}
	for i, e := range entries {
		if e.Size < 0 || e.Size > maxSize || len(e.Name) > math.MaxUint16 {
			return nil, errLayout
		}
		a.offsets[i] = a.directory
		h := a.header(i)
		a.directory += int64(len(h.appendLocal(nil))) + h.compressed + int64(len(h.appendDescriptor(nil)))
		if a.directory > maxSize {
			return nil, errLayout
		}
	}
	a.end = a.directory
	for i := range entries {
		a.records[i] = a.end
		h := a.header(i)
		a.end += int64(len(h.appendCentral(nil)))
	}
	a.size = a.end + int64(len(a.endRecords()))
	return a, nil
}

// Size returns the size of the archive in bytes.
func (a *Archive) Size() int64 { return a.size }

// EntryAt returns the entry that the byte at offset belongs to, its record in the
// central directory included, or -1 if it belongs to none.
func (a *Archive) EntryAt(offset int64) int {
	switch {
	case len(a.entries) == 0 || offset >= a.end:
		return -1
	case offset >= a.directory:
		return last(a.records, offset)
	}
	return last(a.offsets, offset)
}

// endRecords returns what follows the central directory.
func (a *Archive) endRecords() []byte {
	return appendEnd(nil, len(a.entries), a.directory, a.end-a.directory)
}

// header returns the header of an entry, without its CRC.
func (a *Archive) header(entry int) header {
	h := header{Entry: a.entries[entry], offset: a.offsets[entry]}
	h.compressed = h.compressedSize()
	h.CRC = 0
	return h
}

// last returns the index of the last offset that is at most offset, or 0.
func last(offsets []int64, offset int64) int {
	return max(sort.Search(len(offsets), func(i int) bool { return offsets[i] > offset })-1, 0)
}
