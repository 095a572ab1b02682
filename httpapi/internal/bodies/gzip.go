package bodies

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"sync"
)

// MinCompressed is the size in bytes from which JSON is compressed. Shorter bodies fit
// into one packet anyway.
const MinCompressed = 1024

// flateWriters are reused: one takes 800 KB.
var flateWriters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.DefaultCompression) // fails only for an invalid level
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
	w := flateWriters.Get().(*flate.Writer)
	defer flateWriters.Put(w)
	var out bytes.Buffer // returns no error
	w.Reset(&out)
	w.Write(plain)
	w.Flush() // ends at a byte, with no final block
	return bytes.Clone(out.Bytes())
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
