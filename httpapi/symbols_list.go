package httpapi

import (
	"context"
	"net/http"
	"slices"

	"example.com/canvasback/symbols"
)

// listSymbols responds with all symbols of a folder, including their data. Each
// request reads the current version, so the cache never returns a stale list.
func (a *API) listSymbols(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	ctx, cancel := a.storeContext(r)
	defer cancel()
	version, err := a.versions.get(ctx, versionKey{contentsVersion, id})
	if err != nil {
		return err
	}
	if notModified(r.Header, version) {
		return sendNotModified(w, version)
	}
	list, err := a.lists.get(id, version, func() (symbolList, error) { return a.encodeList(ctx, id, maxCachedList) })
	if err == nil && list.body == nil { // longer than maxCachedList
		list, err = a.encodeList(ctx, id, 0)
	}
	switch {
	case err != nil:
		return err
	case list.after > 0:
		a.streamList(w, r, id, list)
		return nil
	}
	w.Header().Set("Cache-Control", cacheControlRevalidate)
	w.Header().Set("ETag", entityTag(list.version))
	a.sendJSON(w, r, http.StatusOK, list.body...)
	return nil
}

// encodeList reads and encodes the symbols of a folder. It stops after the page
// with which the list exceeds maxSize bytes. If the folder changes during the
// read, it starts over; after three attempts the list is incomplete.
func (a *API) encodeList(ctx context.Context, id, maxSize int64) (symbolList, error) {
	const maxAttempts = 3
	var list symbolList
	for range maxAttempts {
		list = symbolList{}
		page := symbols.Page{More: true}
		for separator := byte('['); page.More; separator = ',' {
			var err error
			if page, err = a.symbols.ListSymbols(ctx, id, symbols.Range{After: list.after}); err != nil {
				return symbolList{}, err
			}
			if separator == '[' {
				list.version = page.Version
			}
			list.body = append(list.body, appendPage(nil, page, separator))
			list.after = max(list.after, lastID(page))
			if page.Version != list.version || list.size() > maxSize {
				break
			}
		}
		if page.Version == list.version && !page.More {
			last := &list.body[len(list.body)-1]
			*last = append(*last, ']')
			list.after = 0
			return list, nil
		}
		if list.size() > maxSize {
			break
		}
	}
	return list, nil
}

// streamList writes an incomplete list and then the other pages as they are read.
// A long list takes no more memory than a short one, and a slow client holds no
// connection of the store. The list may include changes made during the response,
// so its ETag is volatile.
func (a *API) streamList(w http.ResponseWriter, r *http.Request, id int64, list symbolList) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheControlRevalidate)
	w.Header().Set("ETag", volatileTag(list.version))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := a.newStream(w, r)
	if err := writeParts(out, list.body); err != nil {
		a.abort(w, r, err)
	}
	var body []byte
	page, after := symbols.Page{More: true}, list.after
	for page.More {
		var err error
		if page, err = a.symbolPage(r, id, after); err != nil {
			a.abort(w, r, err)
		}
		after = lastID(page)
		body = appendPage(body[:0], page, ',')
		if !page.More {
			body = append(body, ']')
		}
		if _, err := out.Write(body); err != nil {
			a.abort(w, r, err)
		}
	}
	out.Finish()
}

func (a *API) symbolPage(r *http.Request, folderID, after int64) (symbols.Page, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	return a.symbols.ListSymbols(ctx, folderID, symbols.Range{After: after})
}

// appendPage appends the symbols of a page as JSON: each after a separator, which
// is the given one and then a comma. A page after the first may be empty, because
// symbols may have been deleted.
func appendPage(dst []byte, page symbols.Page, separator byte) []byte {
	if separator == '[' && len(page.Symbols) == 0 {
		return append(dst, '[')
	}
	size := len(`]`)
	for _, symbol := range page.Symbols {
		size += len(`,`) + encodedSize(symbol)
	}
	dst = slices.Grow(dst, size)
	for _, symbol := range page.Symbols {
		dst = append(dst, separator)
		dst = appendSymbol(dst, symbol)
		separator = ','
	}
	return dst
}

// lastID returns the id after which the next page begins.
func lastID(page symbols.Page) int64 {
	if len(page.Symbols) == 0 {
		return 0 // no page follows
	}
	return page.Symbols[len(page.Symbols)-1].ID
}
