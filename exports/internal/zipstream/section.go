package zipstream

import "iter"

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
