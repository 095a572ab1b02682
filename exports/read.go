package exports

import (
	"io"
	"time"
)

// readUntil fills p as far as r goes before a time, and has one byte at least;
// see [readAtLeast]. It waits no longer than one Read of r does.
func readUntil(r io.Reader, p []byte, until time.Time) (n int, err error) {
	for n < len(p) && err == nil && (n == 0 || time.Now().Before(until)) {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

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
