package zipstream

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
)

// Constants of PKWARE APPNOTE 6.3.10, sections 4.3.7 to 4.3.16 and 4.4.
const (
	sigLocal      = 0x04034b50
	sigDescriptor = 0x08074b50
	sigCentral    = 0x02014b50
	sigEnd64      = 0x06064b50
	sigLocator64  = 0x07064b50
	sigEnd        = 0x06054b50

	methodStore   = 0
	methodDeflate = 8

	flagDescriptor = 1 << 3
	flagUTF8       = 1 << 11

	versionDefault = 20
	version64      = 45
	madeByUnix     = 3<<8 | version64
	modeFile       = 0o100644 << 16

	extra64   = 0x0001
	extraTime = 0x5455
)

// header is an entry at its place in an archive.
type header struct {
	Entry
	compressed int64 // size of the content in the archive
	offset     int64 // of the local header
}

func (h *header) large() bool {
	return h.Size >= math.MaxUint32 || h.compressed >= math.MaxUint32
}

// needsZip64 reports whether the central directory needs zip64 for the entry.
func (h *header) needsZip64() bool { return h.large() || h.offset >= math.MaxUint32 }

func (h *header) local() []byte {
	var extra []byte
	crc, compressed, size := h.CRC, uint32(h.compressed), uint32(h.Size)
	switch {
	case h.large() && h.Streamed: // makes readers expect 8-byte sizes in the descriptor
		crc, compressed, size = 0, math.MaxUint32, math.MaxUint32
		extra = append16(extra, extra64, 16)
		extra = append64(extra, 0, 0)
	case h.large():
		compressed, size = math.MaxUint32, math.MaxUint32
		extra = append16(extra, extra64, 16)
		extra = append64(extra, h.Size, h.compressed)
	case h.Streamed:
		crc, compressed, size = 0, 0, 0
	}
	extra = h.appendUnixTime(extra)
	b := h.appendCommon(append32(nil, sigLocal), crc, compressed, size, len(extra))
	b = append(b, h.Name...)
	return append(b, extra...)
}

// descriptor returns the data descriptor, which only a streamed entry has. Its sizes
// take 8 bytes only if they need them: readers expect that if the local header
// has no zip64 field.
func (h *header) descriptor() []byte {
	if !h.Streamed {
		return nil
	}
	b := append32(nil, sigDescriptor, h.CRC)
	if h.large() {
		return append64(b, h.compressed, h.Size)
	}
	return append32(b, uint32(h.compressed), uint32(h.Size))
}

func (h *header) appendCentral(b []byte) []byte {
	compressed, size, offset := uint32(h.compressed), uint32(h.Size), uint32(h.offset)
	extra := make([]byte, 0, 64) // on the stack
	if h.needsZip64() {
		compressed, size, offset = math.MaxUint32, math.MaxUint32, math.MaxUint32
		extra = append16(extra, extra64, 24)
		extra = append64(extra, h.Size, h.compressed, h.offset)
	}
	extra = h.appendUnixTime(extra)
	b = append16(append32(b, sigCentral), madeByUnix)
	b = h.appendCommon(b, h.CRC, compressed, size, len(extra))
	b = append16(b, 0, 0, 0)
	b = append32(b, modeFile, offset)
	b = append(b, h.Name...)
	return append(b, extra...)
}

// endRecords returns what follows a central directory of length bytes at offset start.
func endRecords(entries int, start, length int64) (b []byte) {
	if entries >= math.MaxUint16 || length >= math.MaxUint32 || start >= math.MaxUint32 {
		b = append32(b, sigEnd64)
		b = append64(b, 44) // size of the rest of this record
		b = append16(b, madeByUnix, version64)
		b = append32(b, 0, 0)
		b = append64(b, int64(entries), int64(entries), length, start)
		b = append32(b, sigLocator64, 0)
		b = append64(b, start+length)
		b = append32(b, 1)
	}
	count := uint16(min(entries, math.MaxUint16))
	b = append32(b, sigEnd, 0)
	b = append16(b, count, count)
	b = append32(b, uint32(min(length, math.MaxUint32)), uint32(min(start, math.MaxUint32)))
	return append16(b, 0)
}

// appendCommon appends the fields that both headers have, from the version to the lengths.
// A tilde in the name needs the UTF-8 flag too, because some East Asian code pages replace it.
func (h *header) appendCommon(b []byte, crc, compressed, size uint32, extraLength int) []byte {
	version, flags, method := uint16(versionDefault), uint16(0), uint16(methodStore)
	if h.needsZip64() {
		version = version64
	}
	if h.Streamed {
		flags, method = flagDescriptor, methodDeflate
	}
	if strings.ContainsFunc(h.Name, func(r rune) bool { return r >= 0x80 || r == '~' }) {
		flags |= flagUTF8
	}
	b = h.appendDOSTime(append16(b, version, flags, method))
	b = append32(b, crc, compressed, size)
	return append16(b, uint16(len(h.Name)), uint16(extraLength))
}

// appendDOSTime appends the modification time in UTC as MS-DOS stores it: in
// steps of two seconds, from 1980 to 2107.
func (h *header) appendDOSTime(b []byte) []byte {
	t := h.Modified.UTC()
	switch {
	case t.Year() < 1980:
		t = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	case t.Year() > 2107:
		t = time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC)
	}
	clock := t.Hour()<<11 | t.Minute()<<5 | t.Second()/2
	date := (t.Year()-1980)<<9 | int(t.Month())<<5 | t.Day()
	return append16(b, uint16(clock), uint16(date))
}

// appendUnixTime appends the extra field with the modification time in Unix
// seconds, if 32 bits hold it.
func (h *header) appendUnixTime(b []byte) []byte {
	seconds := h.Modified.Unix()
	if seconds < math.MinInt32 || seconds > math.MaxInt32 {
		return b
	}
	b = append16(b, extraTime, 5)
	b = append(b, 1) // modification time only
	return append32(b, uint32(int32(seconds)))
}

func append16(b []byte, values ...uint16) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}

func append32(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func append64(b []byte, values ...int64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// Entry describes one file of an archive.
type Entry struct {
	Name     string    // as shown by readers: UTF-8 with slashes, at most 65,535 bytes
	Modified time.Time // stored to the second
	Size     int64     // of the content in bytes; -1 if unknown, which only [Writer.AddStream] allows
	CRC      uint32    // CRC-32 (IEEE) of the content; set by AddStream, ignored by [Archive]

	// Streamed entries have size and CRC in a data descriptor after the
	// content. The content is in stored DEFLATE blocks, so that streaming
	// readers, such as Java's ZipInputStream, find its end. Other entries
	// have a complete header and unencoded content.
	Streamed bool
}

// compressedSize returns how many bytes the content takes in the archive. The last
// block of a stream is the one that is not full, even if it is empty.
func (e *Entry) compressedSize() int64 {
	if !e.Streamed {
		return e.Size
	}
	return e.Size + blockHeader*(e.Size/maxBlock+1)
}
