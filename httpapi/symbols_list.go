package httpapi

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"slices"

	"example.com/canvasback/symbols"
)

// listSymbols responds with symbols of a folder. Each request reads the current
// version, so the cache never returns a stale list.
func (a *API) listSymbols(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	q := parseQuery(r.URL)
	p, err := q.page()
	if err != nil {
		return err
	}
	fields, err := q.fields()
	if err != nil {
		return err
	}
	ctx, cancel := a.storeContext(r)
	defer cancel()
	gzip := compressible(w, r)
	version, err := a.versions.get(ctx, versionKey{contentsVersion, id})
	if err != nil {
		return err
	}
	view := viewOf(q, p, fields)
	if etag, ok := notModified(r.Header, version, view); ok {
		return sendNotModified(w, etag)
	}
	key := listKey{contentsVersion, id, p, cmp.Or(fields, allFields), gzip}
	list, err := a.lists.get(key, version, func() (encodedList, error) { return a.encodeList(r, key, maxCachedList) })
	if err == nil && list.body == nil && list.after == 0 { // longer than maxCachedList
		list, err = a.encodeList(r, key, 0)
	}
	switch {
	case err != nil:
		return err
	case list.after > 0:
		return a.streamList(w, r, q, key, view, list)
	case list.next > 0:
		q.setLink(w.Header(), p, list.next)
	}
	a.sendList(w, r, list, view)
	return nil
}

// sendList writes the response with a complete list.
func (a *API) sendList(w http.ResponseWriter, r *http.Request, list encodedList, view string) {
	header := w.Header()
	header.Set("Cache-Control", cacheControlRevalidate)
	header.Set("ETag", tag{list.version, view, list.gzip}.String())
	if list.gzip {
		header.Set("Content-Encoding", "gzip")
	}
	a.sendJSON(w, r, http.StatusOK, list.body...)
}

// symbolPage is a [symbols.Page] or a [symbols.InfoPage].
type symbolPage struct {
	symbols []listedSymbol
	version symbols.Version
	more    bool
}

type listedSymbol struct {
	symbols.SymbolInfo
	data string // if it was read
}

// last returns the id after which the next page begins.
func (p symbolPage) last() int64 {
	if len(p.symbols) == 0 {
		return 0 // no page follows
	}
	return p.symbols[len(p.symbols)-1].ID
}

// only returns the page without symbols that are not in list. More is false after
// the last of list.
func (p symbolPage) only(list []symbols.SymbolInfo) symbolPage {
	p.more = p.more && len(list) > 0 && p.last() < list[len(list)-1].ID
	p.symbols = slices.DeleteFunc(p.symbols, func(s listedSymbol) bool {
		_, found := slices.BinarySearchFunc(list, s.ID, func(info symbols.SymbolInfo, id int64) int { return cmp.Compare(info.ID, id) })
		return !found
	})
	return p
}

// readPage reads symbols of a folder, with their data if that is among the fields.
func (a *API) readPage(ctx context.Context, folderID int64, r symbols.Range, fields fieldSet) (symbolPage, error) {
	if fields&dataField == 0 {
		page, err := a.symbols.ListSymbolInfos(ctx, folderID, r)
		out := symbolPage{make([]listedSymbol, len(page.Symbols)), page.Version, page.More}
		for i, info := range page.Symbols {
			out.symbols[i] = listedSymbol{info, ""}
		}
		return out, err
	}
	page, err := a.symbols.ListSymbols(ctx, folderID, r)
	out := symbolPage{make([]listedSymbol, len(page.Symbols)), page.Version, page.More}
	for i, symbol := range page.Symbols {
		out.symbols[i] = listedSymbol{symbol.Info(), symbol.Data}
	}
	return out, err
}

// encodeList reads and encodes a list. It stops after the page with which the list
// exceeds maxSize bytes. If the folder changes during the read, it starts over;
// after three attempts the list is incomplete. An incomplete list has no body if it
// is a page or compressed.
//
// Each page has StoreTimeout, because compression takes time as well.
func (a *API) encodeList(r *http.Request, key listKey, maxSize int64) (encodedList, error) {
	const maxAttempts = 3
	var list encodedList
	for range maxAttempts {
		list = encodedList{}
		out := listEncoder{compress: key.gzip}
		rows := key.page.selection()
		page := symbolPage{more: true}
		for separator := byte('['); page.more; separator = ',' {
			var err error
			if page, err = a.timedPage(r, key, rows); err != nil {
				return encodedList{}, err
			}
			if separator == '[' {
				list.version = page.version
			}
			out.add(appendPage(nil, page, separator, key.fields))
			rows.After = max(rows.After, page.last())
			if page.version != list.version || out.size > maxSize {
				break
			}
			if key.page.limit > 0 {
				if rows.Limit -= len(page.symbols); rows.Limit == 0 && page.more {
					list.next, page.more = rows.After, false
				}
			}
		}
		complete := page.version == list.version && !page.more
		if complete {
			out.add([]byte{']'})
		}
		list.body, list.gzip = out.finish()
		if complete {
			return list, nil
		}
		list.after = rows.After
		if out.size > maxSize {
			break
		}
	}
	if key.gzip || key.page.limit > 0 {
		list.body = nil
	}
	return list, nil
}

// listEncoder collects the parts of a list. It compresses them once they have
// minCompressed bytes.
type listEncoder struct {
	compress bool
	size     int64 // in memory; at least the plain size / maxRatio
	plain    int64 // bytes that were added after compression began
	parts    [][]byte
	buffer   bytes.Buffer
	out      *gzip.Writer // nil before compression begins
	release  func()
}

// maxRatio bounds the effort for a long list that may not fit into the cache.
const maxRatio = 4

func (e *listEncoder) add(part []byte) {
	if e.out != nil {
		e.out.Write(part)
		e.plain += int64(len(part))
		e.size = max(int64(e.buffer.Len()), e.plain/maxRatio)
		return
	}
	e.parts = append(e.parts, part)
	e.size += int64(cap(part))
	length := 0
	for _, part := range e.parts {
		length += len(part)
	}
	if e.compress && length >= minCompressed {
		e.out, e.release = newGzipWriter(&e.buffer)
		for _, part := range e.parts {
			e.out.Write(part)
		}
	}
}

// finish returns the body and whether it is compressed.
func (e *listEncoder) finish() (body [][]byte, compressed bool) {
	if e.out == nil {
		return e.parts, false
	}
	e.out.Close()
	e.release()
	return [][]byte{bytes.Clone(e.buffer.Bytes())}, true
}

// streamList writes an incomplete list and then the other pages as they are read.
// A long list takes no more memory than a short one, and a slow client holds no
// connection of the store. The list may include changes made during the response,
// so its ETag is volatile.
func (a *API) streamList(w http.ResponseWriter, r *http.Request, q query, key listKey, view string, list encodedList) error {
	header := w.Header()
	var members []symbols.SymbolInfo // of a page with a limit
	if p := key.page; p.limit > 0 {  // the Link needs the last id before the body
		ctx, cancel := a.storeContext(r)
		defer cancel()
		infos, err := a.symbols.ListSymbolInfos(ctx, key.id, p.selection())
		if err != nil {
			return err
		}
		members = infos.Symbols
		if infos.More {
			q.setLink(header, p, members[len(members)-1].ID)
		}
	}
	separator, page := byte(','), symbolPage{more: true}
	rows := symbols.Range{After: list.after, Limit: key.page.limit}
	if list.body == nil {
		separator, rows.After = '[', key.page.after
		var err error
		if page, err = a.timedPage(r, key, rows); err != nil {
			return err
		}
	}
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", cacheControlRevalidate)
	header.Set("ETag", tag{list.version, view, key.gzip}.volatile())
	if key.gzip {
		header.Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := a.newStream(w, r)
	body, finish := io.Writer(out), func() error { return nil }
	if key.gzip {
		compressed, release := newGzipWriter(out)
		defer release()
		body, finish = compressed, compressed.Close
	}
	if err := writeParts(body, list.body); err != nil {
		a.abort(w, r, err)
	}
	var buffer []byte
	for {
		rows.After = max(rows.After, page.last())
		if key.page.limit > 0 {
			page = page.only(members)
		}
		if len(page.symbols) > 0 || !page.more {
			buffer = appendPage(buffer[:0], page, separator, key.fields)
			separator = ','
			if !page.more {
				buffer = append(buffer, ']')
			}
			if _, err := body.Write(buffer); err != nil {
				a.abort(w, r, err)
			}
		}
		if !page.more {
			break
		}
		var err error
		if page, err = a.timedPage(r, key, rows); err != nil {
			a.abort(w, r, err)
		}
	}
	if err := finish(); err != nil {
		a.abort(w, r, err)
	}
	out.Finish()
	return nil
}

// timedPage is readPage with StoreTimeout.
func (a *API) timedPage(r *http.Request, key listKey, rows symbols.Range) (symbolPage, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	return a.readPage(ctx, key.id, rows, key.fields)
}

// appendPage appends the symbols of a page as JSON: each after a separator, which
// is the given one and then a comma. A page after the first may be empty, because
// symbols may have been deleted.
func appendPage(dst []byte, page symbolPage, separator byte, fields fieldSet) []byte {
	if separator == '[' && len(page.symbols) == 0 {
		return append(dst, '[')
	}
	size := len(`]`)
	for _, symbol := range page.symbols {
		size += len(`,`) + encodedSize(symbol.Name, symbol.Type, symbol.data)
	}
	dst = slices.Grow(dst, size)
	for _, symbol := range page.symbols {
		dst = append(dst, separator)
		dst = appendFields(dst, symbol.SymbolInfo, symbol.data, fields)
		separator = ','
	}
	return dst
}
