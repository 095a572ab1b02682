package zipstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
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
		a.directory += int64(len(h.local())) + h.compressed + int64(len(h.descriptor()))
		if a.directory > maxSize {
			return nil, errLayout
		}
	}
	a.end = a.directory
	var record []byte
	for i := range entries {
		a.records[i] = a.end
		h := a.header(i)
		record = h.appendCentral(record[:0])
		a.end += int64(len(record))
	}
	a.size = a.end + int64(len(endRecords(len(a.entries), a.directory, a.end-a.directory)))
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

// Source supplies what the bytes of an [Archive] depend on besides its entries. An
// entry is identified by its index.
type Source interface {
	// Content returns length bytes of an entry's file from offset, followed by
	// io.EOF. The length is more than 0. WriteRange reads to io.EOF. It copies
	// the content of entries that are not streamed by [io.Copy], so that a
	// reader with a WriteTo method can use the kernel.
	Content(entry int, offset, length int64) (io.Reader, error)

	// CRC returns the CRC-32 (IEEE) of the complete content of an entry. It may
	// block until the CRC is known.
	CRC(entry int) (uint32, error)
}

// Need is a call of a [Source] that a range requires: of Content, or of CRC if Length is 0.
type Need struct {
	Entry          int
	Offset, Length int64 // of the content
}

// Needs returns what WriteRange will ask of its [Source], in the same order: one
// Need for each call. The range must be within the archive.
func (a *Archive) Needs(offset, length int64) iter.Seq[Need] {
	return func(yield func(Need) bool) {
		for s := range a.sections(offset, length) {
			need := Need{Entry: s.entry}
			if s.isBody() {
				need.Offset, need.Length = s.content()
			}
			if (s.needsCRC() || need.Length > 0) && !yield(need) {
				return
			}
		}
	}
}

// WriteRange writes length bytes of the archive from offset to w. It asks src as
// late as possible and only for what the range includes: content before it is
// sent, the CRC of a streamed entry after its content is read, and the CRCs of
// entries before the range when it writes their records in the central directory.
// Before it calls src.Content it writes all bytes before the entry's body to w.
//
// If the content is too short, the error wraps [io.ErrUnexpectedEOF].
func (a *Archive) WriteRange(w io.Writer, offset, length int64, src Source) error {
	if offset < 0 || length < 0 || length > a.size-offset {
		return fmt.Errorf("zipstream: range of %d bytes at %d exceeds the archive of %d", length, offset, a.size)
	}
	const atOnce = 4 << 10 // bytes of the central directory that are written together
	var pending []byte     // headers that are not written yet
	flush := func() error {
		_, err := w.Write(pending)
		pending = pending[:0]
		return err
	}
	for s := range a.sections(offset, length) {
		if s.needsCRC() {
			crc, err := src.CRC(s.entry)
			if err != nil {
				return fmt.Errorf("CRC of zip entry %q: %w", a.entries[s.entry].Name, err)
			}
			binary.LittleEndian.PutUint32(s.bytes[s.crc:], crc)
		}
		if s.isBody() || len(pending) >= atOnce {
			if err := flush(); err != nil {
				return err
			}
		}
		if !s.isBody() {
			pending = append(pending, s.bytes[s.start:s.end]...)
		} else if err := s.writeBody(w, src); err != nil {
			return fmt.Errorf("zip entry %q: %w", s.header.Name, err)
		}
	}
	return flush()
}

func (s *section) writeBody(w io.Writer, src Source) error {
	var content io.Reader = new(bytes.Reader)
	if offset, length := s.content(); length > 0 {
		var err error
		if content, err = src.Content(s.entry, offset, length); err != nil {
			return err
		}
	}
	if s.header.Streamed {
		return copyBlockRange(w, content, s.header.Size, s.start, s.end)
	}
	n, err := io.Copy(w, content)
	if err == nil {
		err = checkLength(n, s.end-s.start)
	}
	return err
}

// section is a part of an archive, of which a range includes the bytes from
// start to end.
type section struct {
	entry      int
	header     header // of a body, without CRC
	bytes      []byte // the complete section, without CRC; nil for a body
	crc        int64  // offset of the CRC in bytes, or noCRC
	start, end int64
}

const noCRC = -4 // so it ends before any section

// sections returns the parts of an archive that a range includes, in their order. Their
// bytes are valid until the next one.
func (a *Archive) sections(offset, length int64) iter.Seq[section] {
	return func(yield func(section) bool) {
		end := offset + length
		// part yields the section of size bytes at offset at.
		part := func(s section, at, size int64) bool {
			s.start, s.end = max(offset-at, 0), min(end-at, size)
			return s.start >= s.end || yield(s)
		}
		record := func(entry int, b []byte, crc, at int64) bool {
			return part(section{entry: entry, bytes: b, crc: crc}, at, int64(len(b)))
		}
		for i := last(a.offsets, offset); i < len(a.entries) && a.offsets[i] < end && offset < a.directory; i++ {
			h := a.header(i)
			local, localCRC := h.local(), int64(14)
			if h.Streamed {
				localCRC = noCRC // 0 in the local header
			}
			body := h.offset + int64(len(local))
			if !record(i, local, localCRC, h.offset) ||
				!part(section{entry: i, header: h, crc: noCRC}, body, h.compressed) ||
				!record(i, h.descriptor(), 4, body+h.compressed) {
				return
			}
		}
		var central []byte
		for i := last(a.records, offset); i < len(a.entries) && a.records[i] < end && offset < a.end; i++ {
			h := a.header(i)
			if central = h.appendCentral(central[:0]); !record(i, central, 16, a.records[i]) {
				return
			}
		}
		record(0, endRecords(len(a.entries), a.directory, a.end-a.directory), noCRC, a.end)
	}
}

func (s *section) isBody() bool { return s.bytes == nil }

// needsCRC reports whether the section includes bytes of the entry's CRC.
func (s *section) needsCRC() bool { return s.start < s.crc+4 && s.end > s.crc }

// content returns which bytes of the entry's content the section of its body includes.
func (s *section) content() (offset, length int64) {
	if !s.header.Streamed {
		return s.start, s.end - s.start
	}
	offset = contentBefore(s.start)
	return offset, contentBefore(s.end) - offset
}
