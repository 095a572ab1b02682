package zipstream

import (
	"errors"
	"hash/crc32"
	"io"
)

// ErrChecksum means that the content of an entry does not have the entry's CRC.
var ErrChecksum = errors.New("zipstream: checksum mismatch")

var errTooLong = errors.New("zipstream: too much content")

// Verify returns a reader of the first size bytes of r. If their CRC-32 is not crc,
// it returns [ErrChecksum] instead of the last bytes. If there are fewer bytes, it
// returns [io.ErrUnexpectedEOF].
func Verify(r io.Reader, size int64, crc uint32) io.Reader {
	return &verifier{r: r, remaining: size, want: crc}
}

type verifier struct {
	r         io.Reader
	remaining int64
	crc, want uint32
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.remaining == 0 {
		return 0, io.EOF
	}
	n, err := v.r.Read(p[:min(int64(len(p)), v.remaining)])
	v.remaining -= int64(n)
	v.crc = crc32.Update(v.crc, crc32.IEEETable, p[:n])
	switch {
	case v.remaining == 0 && v.crc != v.want:
		v.remaining = 1 // every further Read fails too
		return 0, ErrChecksum
	case v.remaining == 0:
		return n, nil
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

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
