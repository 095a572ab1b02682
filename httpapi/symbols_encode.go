package httpapi

import (
	"bytes"
	"net/http"
)

// encodeList reads and encodes a list. It ends after the page with which the list
// exceeds maxSize bytes, or shortBody while another request encodes a longer one; then
// after is set. If the folder changes during the read, it starts over; after three
// attempts, or above shortBody, the list is incomplete, too. Of incomplete lists, only
// plain ones without a limit have parts.
func (a *API) encodeList(r *http.Request, key bodyKey, maxSize int64) (list encodedBody, err error) {
	const maxAttempts = 3
	for range maxAttempts {
		var changed bool
		if list, changed, err = a.tryEncodeList(r, key, maxSize); err != nil || !changed {
			break
		}
	}
	return list, err
}

// tryEncodeList is one attempt of encodeList. It reports whether the folder has
// changed.
func (a *API) tryEncodeList(r *http.Request, key bodyKey, maxSize int64) (list encodedBody, changed bool, err error) {
	out := listEncoder{compress: key.gzip}
	defer out.discard()
	if key.gzip {
		maxSize = max(maxSize/maxRatio, min(maxSize, shortBody))
	}
	limit := min(maxSize, shortBody)
	defer func() {
		if limit > shortBody {
			a.bodies.filling.Unlock()
		}
	}()
	rows := key.page.selection()
	for separator, more := byte('['), true; more; separator = ',' {
		page, err := a.readPage(r, key.id, rows, key.fields)
		if err != nil {
			return encodedBody{}, false, err
		}
		if separator == '[' {
			list.version = page.version
		}
		out.add(appendPage(nil, page, separator, key.fields))
		rows.After, more = max(rows.After, page.last()), page.more
		if more && out.size > limit && limit < maxSize && a.bodies.filling.TryLock() {
			limit = maxSize
		}
		changed = page.version != list.version
		if changed || more && out.size > limit {
			list.after, list.long = rows.After, out.size > maxSize
			if !key.gzip && key.page.limit == 0 {
				list.parts, _ = out.finish()
			}
			return list, changed && out.size <= shortBody, nil
		}
		if key.page.limit > 0 {
			if rows.Limit -= len(page.symbols); rows.Limit == 0 && more {
				list.next, more = rows.After, false
			}
		}
	}
	out.add([]byte{']'})
	list.parts, list.gzip = out.finish()
	return list, false, nil
}

// listEncoder collects the parts of a list. It compresses them once they have
// minCompressed bytes.
type listEncoder struct {
	compress bool
	size     int64 // in memory; at least plain / maxRatio
	plain    int64 // bytes before compression
	parts    [][]byte
	buffer   bytes.Buffer
	out      *gzipWriter // nil before compression begins
}

// maxRatio bounds the effort for a long list that may not fit into the cache.
const maxRatio = 4

func (e *listEncoder) add(part []byte) {
	e.plain += int64(len(part))
	if e.out == nil && e.compress && e.plain >= minCompressed {
		e.out = newGzipWriter(&e.buffer)
		writeParts(e.out, e.parts) // a Buffer returns no error
	}
	if e.out == nil {
		e.parts = append(e.parts, part)
		e.size += int64(cap(part))
		return
	}
	e.out.Write(part)
	e.size = max(int64(e.buffer.Len()), e.plain/maxRatio)
}

// finish returns the body and whether it is compressed.
func (e *listEncoder) finish() (parts [][]byte, compressed bool) {
	if e.out == nil {
		return e.parts, false
	}
	e.out.Close()
	e.out = nil
	return [][]byte{bytes.Clone(e.buffer.Bytes())}, true
}

// discard makes the compressor available to others if finish has not been called.
func (e *listEncoder) discard() {
	if e.out != nil {
		e.out.discard()
	}
}
