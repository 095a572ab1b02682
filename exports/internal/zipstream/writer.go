// Package zipstream computes the layout of zip archives. A [Writer] writes an
// archive from front to back, an [Archive] any range of one. For the same entries
// both write the same bytes. The package does not compress, and knows neither
// network nor disk.
package zipstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Writer writes an archive from front to back. After an error the archive is
// incomplete, and no further method may be called. It is not safe for
// concurrent use.
type Writer struct {
	w       io.Writer
	offset  int64
	headers []header
	buffer  *[fullBlock]byte // nil until the first stream
}

// NewWriter returns a Writer to w. The caller must call [Writer.Close] after
// the last entry.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Len returns the number of entries written.
func (z *Writer) Len() int { return len(z.headers) }

// CRC returns the CRC-32 (IEEE) of the last entry.
func (z *Writer) CRC() uint32 { return z.headers[len(z.headers)-1].CRC }

// AddBytes writes an entry that is not streamed. Its Size must be the length of
// content, and its CRC that of content.
func (z *Writer) AddBytes(e Entry, content []byte) error {
	if e.Streamed || e.Size != int64(len(content)) {
		return fmt.Errorf("zipstream: entry %q of %d bytes cannot hold %d", e.Name, e.Size, len(content))
	}
	if err := z.addLocal(e); err != nil {
		return err
	}
	return z.write(content)
}

// AddStored writes an entry that is not streamed with the first e.Size bytes of the
// readers, one after the other. It returns [io.ErrUnexpectedEOF] if they have
// fewer.
//
// AddStored copies each reader by [io.Copy] from an [io.LimitedReader], so that the
// kernel can copy an *os.File. It therefore does not check that the content has
// the entry's CRC.
func (z *Writer) AddStored(e Entry, content ...io.Reader) error {
	if e.Streamed || e.Size < 0 {
		return fmt.Errorf("zipstream: entry %q has no complete header", e.Name)
	}
	if err := z.addLocal(e); err != nil {
		return err
	}
	end := z.offset + e.Size
	for _, r := range content {
		n, err := io.Copy(z.w, &io.LimitedReader{R: r, N: end - z.offset})
		z.offset += n
		if err != nil {
			return err
		}
	}
	return checkLength(z.offset, end)
}

// addLocal writes the local header of an entry that is not streamed.
func (z *Writer) addLocal(e Entry) error {
	h := header{Entry: e, compressed: e.Size, offset: z.offset}
	z.headers = append(z.headers, h)
	return z.write(h.local())
}

// AddStream writes a streamed entry with the content of r. If the entry's Size
// is known, AddStream reads that many bytes and returns [io.ErrUnexpectedEOF] if
// there are fewer. Otherwise it reads r to its end. It returns other errors of r
// unchanged.
//
// The local header of an entry of more than 4 GiB has a zip64 field only if Size
// is known.
func (z *Writer) AddStream(e Entry, r io.Reader) error {
	h := header{Entry: e, offset: z.offset}
	h.Streamed = true
	h.Size = max(e.Size, 0)
	h.compressed = h.compressedSize()
	if err := z.write(h.local()); err != nil {
		return err
	}
	if e.Size >= 0 {
		r = io.LimitReader(r, e.Size)
	}
	var err error
	if h.Size, h.CRC, err = z.writeBlocks(r); err != nil {
		return err
	}
	if e.Size >= 0 && h.Size != e.Size {
		return io.ErrUnexpectedEOF
	}
	h.compressed = h.compressedSize()
	z.headers = append(z.headers, h)
	return z.write(h.descriptor())
}

// Close writes the central directory. It does not close the underlying writer.
func (z *Writer) Close() error {
	start := z.offset
	for i := range z.headers {
		if err := z.write(z.headers[i].appendCentral(nil)); err != nil {
			return err
		}
	}
	return z.write(endRecords(len(z.headers), start, z.offset-start))
}

func (z *Writer) write(p []byte) error {
	n, err := z.w.Write(p)
	z.offset += int64(n)
	return err
}

// Stored blocks of a DEFLATE stream: RFC 1951, section 3.2.4. The format allows
// 65,535 bytes. 60 KiB with all headers fit into one 64 KiB segment of the
// kernel, which measured up to 1.4 times faster.
const (
	maxBlock    = 60 << 10
	blockHeader = 5
	fullBlock   = blockHeader + maxBlock
)

// writeBlocks writes the content of r as a DEFLATE stream of stored blocks, and
// returns its size and CRC-32. The last block is the one that is not full, even
// if it is empty.
func (z *Writer) writeBlocks(r io.Reader) (size int64, crc uint32, err error) {
	if z.buffer == nil {
		z.buffer = new([fullBlock]byte)
	}
	for n := maxBlock; n == maxBlock; {
		if n, err = readFull(r, z.buffer[blockHeader:]); err != nil && err != io.EOF {
			return size, crc, err
		}
		block := z.buffer[:blockHeader+n]
		crc = crc32.Update(crc, crc32.IEEETable, block[blockHeader:])
		size += int64(n)
		putBlockHeader(block, n)
		if err := z.write(block); err != nil {
			return size, crc, err
		}
	}
	return size, crc, nil
}

// putBlockHeader puts the header of a block with n bytes of content into buf.
func putBlockHeader(buf []byte, n int) {
	buf[0] = 0
	if n < maxBlock {
		buf[0] = 1 // final block
	}
	binary.LittleEndian.PutUint16(buf[1:], uint16(n))
	binary.LittleEndian.PutUint16(buf[3:], ^uint16(n))
}

// copyBlockRange writes the bytes from start to end of a stream of stored blocks
// whose content has size bytes. The content of this range is r up to its end.
func copyBlockRange(w io.Writer, r io.Reader, size, start, end int64) error {
	buf := make([]byte, min(blockHeader+size, fullBlock))
	for start < end {
		block := start / fullBlock
		n := min(size-block*maxBlock, maxBlock)
		putBlockHeader(buf, int(n))
		from, to := start-block*fullBlock, min(end-block*fullBlock, blockHeader+n)
		if to > blockHeader {
			if _, err := io.ReadFull(r, buf[max(from, blockHeader):to]); err == io.EOF {
				return io.ErrUnexpectedEOF
			} else if err != nil {
				return err
			}
		}
		if _, err := w.Write(buf[from:to]); err != nil {
			return err
		}
		start += to - from
	}
	n, err := readFull(r, buf[:1])
	if n > 0 || err == io.EOF {
		return checkLength(int64(n), 0)
	}
	return err
}

// contentBefore returns how many bytes of content the first n bytes of a stream
// of stored blocks contain.
func contentBefore(n int64) int64 {
	return n/fullBlock*maxBlock + max(n%fullBlock-blockHeader, 0)
}

// readFull reads until p is full. Unlike [io.ReadFull] it returns io.EOF at the end of
// r, never io.ErrUnexpectedEOF, which stands for a truncated file here.
func readFull(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

var errTooLong = errors.New("zipstream: too much content")

// checkLength returns an error unless n bytes of content are as many as expected.
func checkLength(n, want int64) error {
	switch {
	case n < want:
		return io.ErrUnexpectedEOF
	case n > want:
		return errTooLong
	}
	return nil
}
