package zipstream

import (
	"bytes"
	"fmt"
	"io"
	"iter"
)

// Source supplies what the bytes of an [Archive] depend on besides its entries. An
// entry is identified by its index.
type Source interface {
	// Content returns length bytes of an entry's file from offset, followed by
	// io.EOF. The length is more than 0. WriteRange reads to io.EOF and closes
	// the reader. It copies the content of entries that are not streamed by
	// [io.Copy], so that a reader with a WriteTo method can use the kernel.
	Content(entry int, offset, length int64) (io.ReadCloser, error)

	// CRC returns the CRC-32 (IEEE) of the complete content of an entry. It may
	// block until the CRC is known.
	CRC(entry int) (uint32, error)
}

// Need is what a range requires of one entry's file.
type Need struct {
	Entry          int
	Offset, Length int64 // of the content; Length is 0 if none is required
	CRC            bool  // of the complete content
}

// Needs returns what WriteRange will ask of its [Source], in the same order: one
// Need for each call. The range must be within the archive.
func (a *Archive) Needs(offset, length int64) iter.Seq[Need] {
	return func(yield func(Need) bool) {
		for s := range a.sections(offset, length) {
			need := Need{Entry: s.entry, CRC: s.needsCRC()}
			if s.kind == bodySection {
				need.Offset, need.Length = s.content()
			}
			if (need.CRC || need.Length > 0) && !yield(need) {
				return
			}
		}
	}
}

// WriteRange writes length bytes of the archive from offset to w. It asks src as
// late as possible and only for what the range includes: content before it is
// sent, the CRC of a streamed entry after its content is closed, and the CRCs of
// entries before the range when it writes their records in the central directory.
// Before it calls src.Content it writes all bytes before the entry's body to w.
//
// If the content is too short, the error wraps [io.ErrUnexpectedEOF].
func (a *Archive) WriteRange(w io.Writer, offset, length int64, src Source) error {
	if offset < 0 || length < 0 || length > a.size-offset {
		return fmt.Errorf("zipstream: range of %d bytes at %d exceeds the archive of %d", length, offset, a.size)
	}
	var pending []byte // headers that are not written yet
	flush := func() error {
		_, err := w.Write(pending)
		pending = pending[:0]
		return err
	}
	for s := range a.sections(offset, length) {
		var err error
		if s.needsCRC() {
			if s.header.CRC, err = src.CRC(s.entry); err != nil {
				return fmt.Errorf("CRC of zip entry %q: %w", s.header.Name, err)
			}
		}
		if s.kind == bodySection || len(pending) >= pendingSize {
			if err := flush(); err != nil {
				return err
			}
		}
		if s.kind == bodySection {
			if err := s.writeBody(w, src); err != nil {
				return fmt.Errorf("zip entry %q: %w", s.header.Name, err)
			}
			continue
		}
		pending = a.appendSection(pending, s)
	}
	return flush()
}

// pendingSize is how many bytes of the central directory are written at once.
const pendingSize = 4 << 10

// appendSection appends the included bytes of a section that is no body.
func (a *Archive) appendSection(b []byte, s section) []byte {
	start := len(b)
	switch s.kind {
	case localSection:
		b = s.header.appendLocal(b)
	case descriptorSection:
		b = s.header.appendDescriptor(b)
	case recordSection:
		b = s.header.appendCentral(b)
	case endSection:
		b = appendEnd(b, len(a.entries), a.directory, a.end-a.directory)
	}
	return append(b[:start], b[start+int(s.start):start+int(s.end)]...)
}

func (s *section) writeBody(w io.Writer, src Source) error {
	var content io.Reader = new(bytes.Reader)
	if offset, length := s.content(); length > 0 {
		opened, err := src.Content(s.entry, offset, length)
		if err != nil {
			return err
		}
		defer opened.Close()
		content = opened
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

type sectionKind int

const (
	localSection sectionKind = iota
	bodySection
	descriptorSection
	recordSection // in the central directory
	endSection
)

// section is a part of an archive, of which a range includes the bytes from
// start to end.
type section struct {
	kind       sectionKind
	header     header // without CRC; zero in an endSection
	entry      int
	start, end int64
}

// sections returns the parts of an archive that a range includes, in their order.
func (a *Archive) sections(offset, length int64) iter.Seq[section] {
	return func(yield func(section) bool) {
		end := offset + length
		// part yields the section of size bytes at offset at.
		part := func(s section, at, size int64) bool {
			s.start, s.end = max(offset-at, 0), min(end-at, size)
			return s.start >= s.end || yield(s)
		}
		for i := last(a.offsets, offset); i < len(a.entries) && a.offsets[i] < end && offset < a.directory; i++ {
			s := section{entry: i, header: a.header(i)}
			body := s.header.offset + s.header.localSize()
			descriptor := body + s.header.compressed
			if !part(s, s.header.offset, body-s.header.offset) {
				return
			}
			if s.kind = bodySection; !part(s, body, s.header.compressed) {
				return
			}
			if s.kind = descriptorSection; !part(s, descriptor, s.header.descriptorSize()) {
				return
			}
		}
		for i := last(a.records, offset); i < len(a.entries) && a.records[i] < end && offset < a.end; i++ {
			s := section{kind: recordSection, entry: i, header: a.header(i)}
			if !part(s, a.records[i], s.header.centralSize()) {
				return
			}
		}
		part(section{kind: endSection}, a.end, a.size-a.end)
	}
}

// needsCRC reports whether the section includes bytes of the entry's CRC.
func (s *section) needsCRC() bool {
	field := int64(0)
	switch s.kind {
	case localSection:
		if s.header.Streamed {
			return false // 0 in the local header
		}
		field = 14
	case descriptorSection:
		field = 4
	case recordSection:
		field = 16
	default:
		return false
	}
	return s.start < field+4 && s.end > field
}

// content returns which bytes of the entry's content a bodySection includes.
func (s *section) content() (offset, length int64) {
	if !s.header.Streamed {
		return s.start, s.end - s.start
	}
	offset = contentBefore(s.start)
	return offset, contentBefore(s.end) - offset
}
