package bundle

import (
	"bytes"
	"compress/flate"
	"hash/crc32"
)

// packed is the content of an entry, deflated in memory as it is written.
type packed struct {
	buffer  bytes.Buffer
	size    uint64 // of what was written
	crc     uint32 // of that
	deflate *flate.Writer
}

func newPacked() *packed {
	p := &packed{}
	var err error
	if p.deflate, err = flate.NewWriter(&p.buffer, flate.DefaultCompression); err != nil {
		panic(err) // the level is a constant
	}
	return p
}

// Write implements [io.Writer]. It never fails.
func (p *packed) Write(text []byte) (int, error) {
	p.size += uint64(len(text))
	p.crc = crc32.Update(p.crc, crc32.IEEETable, text)
	return p.deflate.Write(text)
}

// end completes what is in the buffer.
func (p *packed) end() { p.deflate.Close() }

// reset begins another content.
func (p *packed) reset() {
	const kept = 1 << 20
	if p.buffer.Cap() > kept {
		p.buffer = bytes.Buffer{} // few files are so large
	}
	p.buffer.Reset()
	p.deflate.Reset(&p.buffer)
	p.size, p.crc = 0, 0
}
