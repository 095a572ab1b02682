package exports

import (
	"errors"
	"time"
)

// An archive whose size has been promised may turn out too small: a file has
// been left out, or is smaller than it was. It is padded in two places, which
// no reader shows. Up to maxPadding bytes are an extra field of the last record
// in the central directory, the growth hint of APPNOTE 4.6.10. What is beyond
// goes into the last entry as empty blocks of a deflate stream, of any number
// and without a need for memory.
const (
	minPadding = 8      // the field's own head
	maxPadding = 60_000 // a record may have 65,535 bytes in all

	growthHint = 0xa028 // the field's signature
)

// errPromise says that an archive cannot have the size that was promised.
var errPromise = errors.New("exports: the zip cannot have its announced length")

// bound is how many bytes of padding an archive of that size may have.
func bound(size uint64) uint64 { return max(1<<20, size/4) }

// fit is called before the last entry of an archive and makes room in it for
// the padding that the field alone cannot take. What the entry needs more for
// being a stream then, and may be off from the size it is said to have, is left
// to the field.
func (z *zipWriter) fit(name string, modified time.Time, size uint64, whole bool) error {
	if z.size == 0 {
		return nil
	}
	end := *z
	end.plan(name, modified, size, whole)
	total := end.total()
	if total > z.size || z.size-total > bound(z.size) {
		return errPromise
	}
	if missing := z.size - total; missing > maxPadding {
		z.fill = (missing - maxPadding/2) / blockHead
	}
	z.limit = z.size
	return nil
}

// writeFill writes the empty blocks that an entry begins with. It uses buf.
func (z *zipWriter) writeFill(buf []byte) error {
	if z.fill == 0 {
		return nil
	}
	blocks := uint64(len(buf) / blockHead)
	for i := range min(z.fill, blocks) {
		putBlockHead(buf[i*blockHead:], 0, false)
	}
	for z.fill > 0 {
		n := min(z.fill, blocks)
		if err := z.write(buf[:n*blockHead]); err != nil {
			return err
		}
		z.fill -= n
	}
	return nil
}

// pad makes the central directory so large that the archive has the size that
// was promised.
func (z *zipWriter) pad() error {
	total := z.total()
	switch {
	case z.size == 0, z.size == total:
		return nil
	case z.size < total+minPadding, z.size > total+maxPadding, len(z.entries) == 0:
		return errPromise
	}
	z.entries[len(z.entries)-1].padding = z.size - total
	z.central += z.size - total
	z.limit = z.size
	return nil
}

// appendPadding appends the extra field that is there for its size.
func (e *zipEntry) appendPadding(b []byte) []byte {
	if e.padding == 0 {
		return b
	}
	b = append16(b, extraGrow, uint16(e.padding-4), growthHint, 0)
	return append(b, make([]byte, e.padding-minPadding)...)
}
