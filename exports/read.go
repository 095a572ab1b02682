package exports

import "io"

// readBlock fills p as far as r goes; see [readAtLeast].
func readBlock(r io.Reader, p []byte) (n int, err error) { return readAtLeast(r, p, len(p)) }

// readAtLeast reads into p until it has so many bytes. The error is io.EOF only
// at the true end of r; io.ReadAtLeast would turn that into the very error by
// which a file says that it was cut off.
func readAtLeast(r io.Reader, p []byte, least int) (n int, err error) {
	for n < least && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}
