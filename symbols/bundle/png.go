package bundle

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
)

// pngSize returns the size of a PNG in pixels. It looks at the whole file, but
// not into the pixels: a small file can have a great many.
func pngSize(content []byte) (width, height float64, err error) {
	const (
		broken = refusal("broken PNG")
		head   = 8  // length and type of a chunk
		around = 12 // these and its checksum
	)
	rest, ok := bytes.CutPrefix(content, []byte("\x89PNG\r\n\x1a\n"))
	if !ok {
		return 0, 0, refusal("not a PNG")
	}
	for pixels, first := false, true; ; first = false {
		if len(rest) < around {
			return 0, 0, broken
		}
		length := binary.BigEndian.Uint32(rest)
		if uint64(length) > uint64(len(rest)-around) {
			return 0, 0, broken
		}
		end := head + int(length)
		chunk, sum := rest[4:end], binary.BigEndian.Uint32(rest[end:])
		if crc32.ChecksumIEEE(chunk) != sum {
			return 0, 0, broken
		}
		name, data := string(chunk[:4]), chunk[4:]
		switch {
		case first != (name == "IHDR"), first && length != 13:
			return 0, 0, broken
		case first:
			w, h := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
			if w == 0 || w > math.MaxInt32 || h == 0 || h > math.MaxInt32 {
				return 0, 0, broken
			}
			width, height = float64(w), float64(h)
		case name == "IDAT":
			pixels = true
		case name == "IEND" && pixels:
			return width, height, nil
		case name == "IEND":
			return 0, 0, broken
		}
		rest = rest[end+4:]
	}
}
