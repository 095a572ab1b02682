package zipstream

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Stored blocks of a DEFLATE stream: RFC 1951, section 3.2.4. The format allows
// 65,535 bytes. 60 KiB with all headers fit into one 64 KiB segment of the
// kernel, which measured up to 1.4 times faster.
const (
	maxBlock    = 60 << 10
	blockHeader = 5
	fullBlock   = blockHeader + maxBlock
)

// copyBlocks writes the content of r as a DEFLATE stream of stored blocks, and
// returns its size and CRC-32. The last block is the one that is not full, even
// if it is empty.
func copyBlocks(write func([]byte) error, r io.Reader, buf *[fullBlock]byte) (size int64, crc uint32, err error) {
	for n := maxBlock; n == maxBlock; {
		if n, err = readFull(r, buf[blockHeader:]); err != nil && err != io.EOF {
			return size, crc, err
		}
		block := buf[:blockHeader+n]
		crc = crc32.Update(crc, crc32.IEEETable, block[blockHeader:])
		size += int64(n)
		putBlockHeader(block, n)
		if err := write(block); err != nil {
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
