package exports

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"time"
)

// Layout of a zip file: PKWARE APPNOTE 6.3.10, sections 4.3.7 to 4.3.16.
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
	extraGrow = 0xa220 // the growth hint: room for later changes

	// Stored blocks of a deflate stream: RFC 1951, section 3.2.4. They could be
	// 65,535 bytes long. With a little less, a block fits into the 64 KiB that a
	// kernel passes on at once, together with its head and those of TCP and IP.
	maxBlock     = 60 << 10
	blockHead    = 5
	blocksAtOnce = 2 // read by one call
)

// zipWriter writes an archive front to back.
//
// A file whose content is at hand is stored behind a complete header. One that
// is still being read needs its size and checksum in a data descriptor behind
// it, and then it cannot be stored as it is: readers of a stream, Java's among
// them, would not find its end. It goes out as a deflate stream of stored
// blocks, 5 bytes longer for each 60 KiB, which costs no compression and ends
// where its last block says.
type zipWriter struct {
	w       io.Writer
	offset  uint64
	entries []zipEntry
	central uint64 // size of their records in the central directory

	// of an archive whose size has been promised; see padding.go
	size  uint64 // 0 if it has not
	limit uint64 // the offset may not pass it; 0 for none
	fill  uint64 // empty blocks that the next entry begins with
}

type zipEntry struct {
	name     string
	modified time.Time
	method   uint16
	flags    uint16
	crc      uint32
	packed   uint64 // size in the archive
	size     uint64
	offset   uint64
	padding  uint64 // of its record in the central directory
}

// write sends p and counts it.
func (z *zipWriter) write(p []byte) error {
	if z.limit > 0 && z.offset+uint64(len(p)) > z.limit {
		return errPromise
	}
	n, err := z.w.Write(p)
	z.offset += uint64(n)
	return err
}

// list puts an entry into the central directory.
func (z *zipWriter) list(e zipEntry) {
	z.entries = append(z.entries, e)
	z.central += uint64(len(e.appendCentral(nil)))
}

// addWhole writes an entry with the given content.
func (z *zipWriter) addWhole(name string, modified time.Time, content []byte) error {
	return z.addSummed(name, modified, content, crc32.ChecksumIEEE(content))
}

// addSummed writes an entry with content whose checksum is known.
func (z *zipWriter) addSummed(name string, modified time.Time, content []byte, crc uint32) error {
	if z.fill > 0 {
		return z.addStream(name, modified, int64(len(content)), bytes.NewReader(content))
	}
	e := z.newEntry(name, modified)
	e.method = methodStore
	e.crc = crc
	e.size = uint64(len(content))
	e.packed = e.size
	if err := z.write(e.appendLocal(nil)); err != nil {
		return err
	}
	z.list(e)
	return z.write(content)
}

// addStream writes an entry with what r gives: just size bytes, or up to its
// end if size is negative. An error of r is returned as it is; the archive is
// torn then.
func (z *zipWriter) addStream(name string, modified time.Time, size int64, r io.Reader) error {
	if size >= 0 {
		r = io.LimitReader(r, size)
	}
	e := z.newEntry(name, modified)
	e.method = methodDeflate
	e.flags |= flagDescriptor
	if size >= 0 { // the header says at least whether they are large
		e.size, e.packed = uint64(size), inBlocks(uint64(size))
	}
	if err := z.write(e.appendLocal(nil)); err != nil {
		return err
	}
	e.size, e.packed = 0, 0
	start := z.offset
	buf := make([]byte, blockHead+blocksAtOnce*maxBlock)
	if err := z.writeFill(buf); err != nil {
		return err
	}
	content := buf[blockHead:]
	n := 0
	for last := false; !last; {
		m, err := readAtLeast(r, content[n:], maxBlock-n)
		if err != nil && err != io.EOF {
			return err
		}
		e.crc = crc32.Update(e.crc, crc32.IEEETable, content[n:n+m])
		e.size += uint64(m)
		n += m
		last = err == io.EOF
		if n, err = z.writeBlocks(buf, n, last); err != nil {
			return err
		}
	}
	if size >= 0 && e.size != uint64(size) {
		return io.ErrUnexpectedEOF
	}
	e.packed = z.offset - start
	z.list(e)
	return z.write(e.appendDescriptor(nil))
}

// plan counts an entry as if it were written. Of a stream of more than 4 GiB
// whose size is not known when it is, the header has 20 bytes less.
func (z *zipWriter) plan(name string, modified time.Time, size uint64, whole bool) {
	e := z.newEntry(name, modified)
	e.size, e.packed = size, size
	if !whole {
		e.method = methodDeflate
		e.flags |= flagDescriptor
		e.packed = inBlocks(size)
		z.offset += uint64(len(e.appendDescriptor(nil)))
	}
	z.offset += uint64(len(e.appendLocal(nil))) + e.packed
	z.list(e)
}

// inBlocks is the size of a stream of that many bytes. Its last block is the one
// that is not full.
func inBlocks(size uint64) uint64 { return size + blockHead*(size/maxBlock+1) }

// used is the size of all entries so far, with their records in the central
// directory.
func (z *zipWriter) used() uint64 { return z.offset + z.central }

// total is the size that the archive would have if it ended here.
func (z *zipWriter) total() uint64 {
	end := *z
	end.offset += z.central
	return end.offset + uint64(len(end.appendEnd(nil, z.offset)))
}

func (z *zipWriter) newEntry(name string, modified time.Time) zipEntry {
	e := zipEntry{name: name, modified: modified.UTC(), offset: z.offset}
	for i := range len(name) {
		// Readers in East Asia may take the tilde for another sign.
		if name[i] >= 0x80 || name[i] == '~' {
			e.flags |= flagUTF8
			break
		}
	}
	return e
}

// writeBlocks writes the n bytes that lie in buf behind room for the head of a
// block, as full blocks. It moves what is left to where they were and returns
// how much that is. At the end of a stream all goes out: the last block is the
// one that is not full, be it empty.
func (z *zipWriter) writeBlocks(buf []byte, n int, last bool) (left int, err error) {
	start := 0
	for ; n >= maxBlock || last; start += maxBlock {
		length := min(n, maxBlock)
		final := length < maxBlock
		putBlockHead(buf[start:], length, final) // over the end of the block before, which is out
		if err := z.write(buf[start : start+blockHead+length]); err != nil {
			return 0, err
		}
		if n -= length; final {
			return 0, nil
		}
	}
	return copy(buf[blockHead:], buf[start+blockHead:start+blockHead+n]), nil
}

// putBlockHead begins a stored block of n bytes.
func putBlockHead(block []byte, n int, final bool) {
	block[0] = 0
	if final {
		block[0] = 1
	}
	binary.LittleEndian.PutUint16(block[1:], uint16(n))
	binary.LittleEndian.PutUint16(block[3:], ^uint16(n))
}

// close writes the central directory.
func (z *zipWriter) close() error {
	if err := z.pad(); err != nil {
		return err
	}
	start := z.offset
	for i := range z.entries {
		if err := z.write(z.entries[i].appendCentral(nil)); err != nil {
			return err
		}
	}
	return z.write(z.appendEnd(nil, start))
}

// appendLocal appends the header in front of a file.
func (e *zipEntry) appendLocal(b []byte) []byte {
	var extra []byte
	packed, size := uint32(e.packed), uint32(e.size)
	described := e.flags&flagDescriptor != 0 // behind the file
	switch {
	case e.large() && described: // so that its sizes there are read as 8 bytes each
		packed, size = math.MaxUint32, math.MaxUint32
		extra = append16(extra, extra64, 16)
		extra = append64(extra, 0, 0)
	case e.large():
		packed, size = math.MaxUint32, math.MaxUint32
		extra = append16(extra, extra64, 16)
		extra = append64(extra, e.size, e.packed)
	case described:
		packed, size = 0, 0
	}
	extra = e.appendTime(extra)

	b = append32(b, sigLocal)
	b = append16(b, e.version(), e.flags, e.method)
	b = e.appendDOSTime(b)
	b = append32(b, e.crc, packed, size)
	b = append16(b, uint16(len(e.name)), uint16(len(extra)))
	b = append(b, e.name...)
	return append(b, extra...)
}

// appendDescriptor appends what a header could not say. Its sizes have eight
// bytes exactly where the sizes need them, as readers expect that had no
// other word of them.
func (e *zipEntry) appendDescriptor(b []byte) []byte {
	b = append32(b, sigDescriptor, e.crc)
	if e.large() {
		return append64(b, e.packed, e.size)
	}
	return append32(b, uint32(e.packed), uint32(e.size))
}

// appendCentral appends a file's record in the central directory.
func (e *zipEntry) appendCentral(b []byte) []byte {
	packed, size, offset := uint32(e.packed), uint32(e.size), uint32(e.offset)
	var extra []byte
	if e.large() || e.offset >= math.MaxUint32 {
		packed, size, offset = math.MaxUint32, math.MaxUint32, math.MaxUint32
		extra = append16(extra, extra64, 24)
		extra = append64(extra, e.size, e.packed, e.offset)
	}
	extra = e.appendTime(extra)
	extra = e.appendPadding(extra)

	b = append32(b, sigCentral)
	b = append16(b, madeByUnix, e.version(), e.flags, e.method)
	b = e.appendDOSTime(b)
	b = append32(b, e.crc, packed, size)
	b = append16(b, uint16(len(e.name)), uint16(len(extra)), 0, 0, 0)
	b = append32(b, modeFile, offset)
	b = append(b, e.name...)
	return append(b, extra...)
}

// appendEnd appends what stands behind the central directory.
func (z *zipWriter) appendEnd(b []byte, start uint64) []byte {
	count, length := uint64(len(z.entries)), z.offset-start
	if count >= math.MaxUint16 || length >= math.MaxUint32 || start >= math.MaxUint32 {
		b = append32(b, sigEnd64)
		b = append64(b, 44) // size of what follows
		b = append16(b, madeByUnix, version64)
		b = append32(b, 0, 0)
		b = append64(b, count, count, length, start)
		b = append32(b, sigLocator64, 0)
		b = append64(b, z.offset)
		b = append32(b, 1)
		count = min(count, math.MaxUint16)
		length = min(length, math.MaxUint32)
		start = min(start, math.MaxUint32)
	}
	b = append32(b, sigEnd, 0)
	b = append16(b, uint16(count), uint16(count))
	b = append32(b, uint32(length), uint32(start))
	return append16(b, 0)
}

// large reports whether the sizes need zip64.
func (e *zipEntry) large() bool {
	return e.size >= math.MaxUint32 || e.packed >= math.MaxUint32
}

func (e *zipEntry) version() uint16 {
	if e.large() || e.offset >= math.MaxUint32 {
		return version64
	}
	return versionDefault
}

// appendDOSTime appends the time of modification as MS-DOS has it: in steps of
// two seconds, from 1980 to 2107.
func (e *zipEntry) appendDOSTime(b []byte) []byte {
	t := e.modified
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

// appendTime appends the extra field with the exact time, where it fits.
func (e *zipEntry) appendTime(b []byte) []byte {
	seconds := e.modified.Unix()
	if seconds < math.MinInt32 || seconds > math.MaxInt32 {
		return b
	}
	b = append16(b, extraTime, 5)
	b = append(b, 1) // the time of modification alone
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

func append64(b []byte, values ...uint64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}
