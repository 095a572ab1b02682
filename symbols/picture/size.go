package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	_ "image/gif"
	"image/jpeg"
	"math"
	"strings"
)

// Size returns the width and height of an image of the type PNG, JPEG, GIF, WebP or SVG:
// in pixels, and of an SVG in CSS pixels. For an SVG they are its width and height
// attributes in any absolute CSS unit; em and rem are 16 px, ex is 8 px. If one is missing
// or relative, it follows from the viewBox; without a viewBox it is 300 or 150, as in
// browsers. Exif orientation is ignored. The text of the error may be shown to users.
//
// Size reads the complete content of PNG and SVG, and the headers of the others.
func Size(mimeType string, content []byte) (width, height float64, err error) {
	switch mimeType {
	case SVG:
		return svgSize(ToUTF8(content))
	case "image/png":
		return pngSize(content)
	case "image/webp":
		return webpSize(content)
	}
	name := strings.ToUpper(strings.TrimPrefix(mimeType, "image/"))
	if name != "JPEG" && name != "GIF" {
		return 0, 0, errors.New("not an SVG, PNG, JPEG, GIF or WebP")
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(content))
	if errors.As(err, new(jpeg.UnsupportedError)) {
		return 0, 0, errors.New("a kind of JPEG that is not supported")
	}
	if err != nil || config.Width < 1 || config.Height < 1 {
		return 0, 0, errors.New("broken " + name)
	}
	return float64(config.Width), float64(config.Height), nil
}

// webpSize reads the header of the first chunk (RFC 9649, sections 2.5 to 2.7).
func webpSize(content []byte) (width, height float64, err error) {
	errBroken := errors.New("broken WebP")
	if len(content) < 30 || string(content[8:12]) != "WEBP" || uint64(binary.LittleEndian.Uint32(content[4:]))+8 > uint64(len(content)) {
		return 0, 0, errBroken
	}
	switch string(content[12:16]) {
	case "VP8 ":
		const mask = 1<<14 - 1 // the rest is the scale
		w, h := binary.LittleEndian.Uint16(content[26:])&mask, binary.LittleEndian.Uint16(content[28:])&mask
		if w > 0 && h > 0 {
			return float64(w), float64(h), nil
		}
	case "VP8L":
		bits := binary.LittleEndian.Uint32(content[21:])
		return float64(1 + bits&(1<<14-1)), float64(1 + bits>>14&(1<<14-1)), nil
	case "VP8X":
		const mask = 1<<24 - 1
		return float64(1 + binary.LittleEndian.Uint32(content[24:])&mask), float64(1 + binary.LittleEndian.Uint32(content[26:])>>8), nil
	}
	return 0, 0, errBroken
}

// pngSize returns the size of a PNG in pixels. It checks every chunk but does
// not decode pixels.
//
// image/png does not fit: DecodeConfig reads only the header and accepts
// truncated files, and Decode allocates as many pixels as the header declares.
func pngSize(content []byte) (width, height float64, err error) {
	const (
		headSize = 8  // length and type of a chunk
		overhead = 12 // headSize and the CRC-32
	)
	errBroken := errors.New("broken PNG")
	rest, ok := bytes.CutPrefix(content, []byte("\x89PNG\r\n\x1a\n"))
	if !ok {
		return 0, 0, errors.New("not a PNG")
	}
	for hasPixels, first := false, true; ; first = false {
		if len(rest) < overhead {
			return 0, 0, errBroken
		}
		length := binary.BigEndian.Uint32(rest)
		if uint64(length) > uint64(len(rest)-overhead) {
			return 0, 0, errBroken
		}
		end := headSize + int(length)
		chunk, sum := rest[4:end], binary.BigEndian.Uint32(rest[end:])
		name, data := string(chunk[:4]), chunk[4:]
		switch {
		case crc32.ChecksumIEEE(chunk) != sum, first != (name == "IHDR"), first && length != 13, name == "IEND" && !hasPixels:
			return 0, 0, errBroken
		case first:
			w, h := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
			if w == 0 || w > math.MaxInt32 || h == 0 || h > math.MaxInt32 {
				return 0, 0, errBroken
			}
			width, height = float64(w), float64(h)
		case name == "IDAT":
			hasPixels = true
		case name == "IEND":
			return width, height, nil
		}
		rest = rest[end+4:]
	}
}
