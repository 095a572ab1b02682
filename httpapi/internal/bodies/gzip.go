package bodies

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"runtime"
	"sync"
)

// MinCompressed is the size in bytes from which JSON is compressed. Shorter bodies fit
// into one packet anyway.
const MinCompressed = 1024

// flateWriters are reused: one takes 800 KB.
var flateWriters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

// deflating is held by each deflate, so that few of them need memory at a time.
var deflating = make(chan struct{}, 2*runtime.GOMAXPROCS(0))

// gzipHeader begins a gzip member without optional fields (RFC 1952, section 2.3).
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// deflate compresses a part of a gzip member. Parts refer to no others.
func deflate(plain []byte) []byte {
	deflating <- struct{}{}
	defer func() { <-deflating }()
	var out bytes.Buffer
	deflateTo(&out, plain) // a Buffer returns no error
	return bytes.Clone(out.Bytes())
}

func deflateTo(w io.Writer, plain []byte) error {
	out := flateWriters.Get().(*flate.Writer)
	defer flateWriters.Put(out)
	out.Reset(w)
	if _, err := out.Write(plain); err != nil {
		return err
	}
	return out.Flush() // ends at a byte, with no final block
}

// appendGzipTrailer appends the end of a member: an empty final block, and the CRC-32
// and the size of what the member contains.
func appendGzipTrailer(dst []byte, crc uint32, size int64) []byte {
	dst = append(dst, "\x01\x00\x00\xff\xff"...)
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	return binary.LittleEndian.AppendUint32(dst, uint32(size))
}

// gzipTrailerSize is the size of what appendGzipTrailer appends.
const gzipTrailerSize = 13

// Gzip returns body with gzip applied.
func Gzip(body []byte) []byte {
	out := append([]byte(gzipHeader), deflate(body)...)
	return appendGzipTrailer(out, crc32.ChecksumIEEE(body), int64(len(body)))
}

// GzipWriter applies gzip to a response of unknown size. Each Write is compressed on
// its own and should be long.
type GzipWriter struct {
	w    io.Writer
	crc  uint32
	size int64
}

// NewGzipWriter returns a GzipWriter that writes to w.
func NewGzipWriter(w io.Writer) *GzipWriter { return &GzipWriter{w: w} }

// Write implements [io.Writer].
func (g *GzipWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if g.size == 0 {
		if _, err := io.WriteString(g.w, gzipHeader); err != nil {
			return 0, err
		}
	}
	g.crc, g.size = crc32.Update(g.crc, crc32.IEEETable, p), g.size+int64(len(p))
	if err := deflateTo(g.w, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the end of the member. At least one byte must have been written.
func (g *GzipWriter) Close() error {
	_, err := g.w.Write(appendGzipTrailer(nil, g.crc, g.size))
	return err
}
