package zipstream

import "time"

// Entry describes one file of an archive.
type Entry struct {
	Name     string    // as shown by readers: UTF-8 with slashes, at most 65,535 bytes
	Modified time.Time // stored to the second
	Size     int64     // of the content in bytes; -1 if unknown, which only [Writer.AddStream] allows
	CRC      uint32    // CRC-32 (IEEE) of the content; set by AddStream

	// Streamed entries have size and CRC in a data descriptor after the
	// content. The content is in stored DEFLATE blocks, so that streaming
	// readers, such as Java's ZipInputStream, find its end. Other entries
	// have a complete header and unencoded content.
	Streamed bool
}

// Layout gives the position of every part of an archive. It does not depend on
// content or checksums.
type Layout struct {
	Offsets   []int64 // of the local header of each entry
	Directory int64   // offset of the central directory
	Size      int64   // of the archive
}

// NewLayout computes the layout of an archive. The sizes of all entries must be
// known.
func NewLayout(entries []Entry) Layout {
	l := Layout{Offsets: make([]int64, len(entries))}
	var directory int64
	for i, e := range entries {
		l.Offsets[i] = l.Directory
		h := header{Entry: e, compressed: e.compressedSize(), offset: l.Directory}
		l.Directory += h.localSize() + h.compressed + h.descriptorSize()
		directory += h.centralSize()
	}
	l.Size = l.Directory + directory + endSize(len(entries), l.Directory, directory)
	return l
}

// compressedSize returns how many bytes the content takes in the archive. The last
// block of a stream is the one that is not full, even if it is empty.
func (e *Entry) compressedSize() int64 {
	if !e.Streamed {
		return e.Size
	}
	return e.Size + blockHeader*(e.Size/maxBlock+1)
}
