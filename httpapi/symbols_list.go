package httpapi

import (
	"context"
	"net/http"
	"slices"

	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

// listSymbols answers with all symbols of a folder, their data included.
//
// Lists are kept as they are sent. Each request asks for the present version
// of the folder's contents, unless there is nothing in memory to compare it
// with, so a list out of memory is never an old one.
func (a *API) listSymbols(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	ctx, cancel := a.storeContext(r)
	defer cancel()
	var version symbols.Version
	if r.Header["If-None-Match"] != nil || a.lists.knows(id) {
		if version, err = a.versions.get(ctx, versionKey{contentsVersion, id}); err != nil {
			return err
		}
		if unchanged(r.Header, version) {
			return notModified(w, version)
		}
	}
	list, err := a.lists.get(ctx, id, version, func() (symbolList, error) { return a.encodeList(ctx, id, longestList) })
	if err == nil && list.body == nil { // it is known to be too long
		list, err = a.encodeList(ctx, id, 0)
	}
	switch {
	case err != nil:
		return err
	case list.after > 0:
		a.streamList(w, r, id, list)
		return nil
	}
	w.Header().Set("Cache-Control", cacheRevalidated)
	w.Header().Set("ETag", entityTag(list.version))
	return a.sendJSON(w, r, http.StatusOK, list.body...)
}

// encodeList reads and encodes a folder's symbols up to the page that makes the
// list longer than so many bytes. A list that changes while it is read is read
// anew. If it changes again and again, the last try ends where it is torn.
func (a *API) encodeList(ctx context.Context, id, longest int64) (symbolList, error) {
	const tries = 3
	var list symbolList
	for range tries {
		list = symbolList{}
		page := symbols.Page{More: true}
		for before := byte('['); page.More; before = ',' {
			var err error
			if page, err = a.symbols.ListSymbols(ctx, id, list.after); err != nil {
				return symbolList{}, err
			}
			if before == '[' {
				list.version = page.Version
			}
			list.body = append(list.body, appendPage(nil, page, before))
			list.after = max(list.after, lastID(page))
			if page.Version != list.version || list.size() > longest {
				break
			}
		}
		if page.Version == list.version && !page.More {
			last := &list.body[len(list.body)-1]
			*last = append(*last, ']')
			list.after = 0
			return list, nil
		}
		if list.size() > longest {
			break
		}
	}
	return list, nil
}

// streamList writes a list of which the beginning has been encoded, and the
// rest page by page as it is read, so that a large folder needs no more memory
// than a small one and a slow client holds no connection of the store. What it
// writes may be torn by a change, which is why its entity tag is a passing one.
func (a *API) streamList(w http.ResponseWriter, r *http.Request, id int64, list symbolList) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheRevalidated)
	w.Header().Set("ETag", passingTag(list.version))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := stream.New(w, r, a.options.IdleTimeout)
	for _, part := range list.body {
		if _, err := out.Write(part); err != nil {
			a.abort(w, r, err)
		}
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
	return a.symbols.ListSymbols(ctx, folderID, after)
}

// appendPage appends the symbols of a page to a list, the first one behind the
// bracket or comma given. What was to follow another page may be gone.
func appendPage(dst []byte, page symbols.Page, before byte) []byte {
	if before == '[' && len(page.Symbols) == 0 {
		return append(dst, '[')
	}
	size := len(`]`)
	for _, symbol := range page.Symbols {
		size += len(`,`) + encodedSize(symbol)
	}
	dst = slices.Grow(dst, size)
	for _, symbol := range page.Symbols {
		dst = append(dst, before)
		dst = appendSymbol(dst, symbol)
		before = ','
	}
	return dst
}

// lastID is where the page that follows goes on.
func lastID(page symbols.Page) int64 {
	if len(page.Symbols) == 0 {
		return 0 // none follows
	}
	return page.Symbols[len(page.Symbols)-1].ID
}
