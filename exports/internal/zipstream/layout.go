package zipstream

import (
	"math"
	"time"
)

// Entry describes one file of an archive.
type Entry struct {
	Name     string    // as shown by readers: UTF-8 with slashes, at most 65,535 bytes
	Modified time.Time // stored to the second
	Size     int64     // of the content in bytes; -1 if unknown, which only [Writer.AddStream] allows
	CRC      uint32    // CRC-32 (IEEE) of the content; set by AddStream

	// Streamed entries carry size and CRC in a data descriptor after the
	// content, which is encoded as stored DEFLATE blocks so that streaming
	// readers, such as Java's ZipInputStream, find its end. Other entries are
	// stored as they are behind a complete header.
	Streamed bool
}

// Layout gives the position of every part of an archive. It depends on names,
// times, sizes and forms alone, not on content or checksums.
type Layout struct {
	Offsets   []int64 // of the local header of each entry
	Directory int64   // offset of the central directory
	Size      int64   // of the archive
}

// NewLayout lays out an archive of the given entries, whose sizes are known.
func NewLayout(entries []Entry) Layout {
	l := Layout{Offsets: make([]int64, len(entries))}
	var directory int64
	for i, e := range entries {
		l.Offsets[i] = l.Directory
		h := header{Entry: e, packed: e.packedSize(), offset: l.Directory}
		l.Directory += h.localSize() + h.packed + h.descriptorSize()
		directory += h.centralSize()
	}
	l.Size = l.Directory + directory + endSize(len(entries), l.Directory, directory)
	return l
}

// packedSize returns how many bytes the content takes in the archive. The last
// block of a stream is the one that is not full, even if it is empty.
func (e *Entry) packedSize() int64 {
	if !e.Streamed {
		return e.Size
	}
	return e.Size + blockHeader*(e.Size/maxBlock+1)
}

// header is an entry at its place in an archive.
type header struct {
	Entry
	packed int64 // bytes of content in the archive
	offset int64 // of the local header
}

// large reports whether the sizes need zip64.
func (h *header) large() bool {
	return h.Size >= math.MaxUint32 || h.packed >= math.MaxUint32
}

// far reports whether the central directory needs zip64 for the entry.
func (h *header) far() bool { return h.large() || h.offset >= math.MaxUint32 }

func (h *header) localSize() int64 {
	size := 30 + int64(len(h.Name)) + h.timeSize()
	if h.large() {
		size += 4 + 16
	}
	return size
}

func (h *header) descriptorSize() int64 {
	switch {
	case !h.Streamed:
		return 0
	case h.large():
		return 24
	}
	return 16
}

func (h *header) centralSize() int64 {
	size := 46 + int64(len(h.Name)) + h.timeSize()
	if h.far() {
		size += 4 + 24
	}
	return size
}

// timeSize returns the size of the extra field with the modification time.
func (h *header) timeSize() int64 {
	if !h.hasUnixTime() {
		return 0
	}
	return 9
}

func (h *header) hasUnixTime() bool {
	seconds := h.Modified.Unix()
	return seconds >= math.MinInt32 && seconds <= math.MaxInt32
}

// endSize returns the size of what follows the central directory.
func endSize(entries int, start, length int64) int64 {
	if endIsLarge(entries, start, length) {
		return 56 + 20 + 22
	}
	return 22
}

func endIsLarge(entries int, start, length int64) bool {
	return entries >= math.MaxUint16 || length >= math.MaxUint32 || start >= math.MaxUint32
}
