package httpapi

import (
	"context"
	"net/http"
	"slices"

	"example.com/canvasback/symbols"
)

// listSymbols answers with all symbols of a folder, their data included.
//
// Lists are kept as they are sent. Each request asks for the present version
// of the folder's contents, unless there is nothing in memory to compare it
// with, so a list out of memory is never an old one.
func (a *api) listSymbols(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	ctx, cancel := a.storeContext(r)
	defer cancel()
	var version symbols.Version
	if r.Header["If-None-Match"] != nil || a.lists.knows(id) {
		if version, err = a.versions.get(ctx, symbols.FolderContents(id)); err != nil {
			return err
		}
		if unchanged(r.Header, version) {
			return notModified(w, version)
		}
	}
	list, err := a.lists.get(ctx, id, version, func() (symbolList, error) { return a.encodeList(ctx, id) })
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", cacheRevalidated)
	if list.body == nil {
		return a.streamList(w, r, id)
	}
	w.Header().Set("ETag", entityTag(list.version))
	return a.sendJSON(w, r, http.StatusOK, list.body...)
}

// encodeList reads and encodes a folder's symbols. The body is nil if they are
// too many to be held, or change again and again while they are read.
func (a *api) encodeList(ctx context.Context, id int64) (symbolList, error) {
	const tries = 3
	var list symbolList
	for range tries {
		list = symbolList{}
		page := symbols.Page{More: true}
		for before, after := byte('['), int64(0); page.More; before, after = ',', lastID(page) {
			var err error
			if page, err = a.Symbols.ListSymbols(ctx, id, after); err != nil {
				return symbolList{}, err
			}
			if before == '[' {
				list.version = page.Version
			}
			list.body = append(list.body, appendPage(nil, page, before))
			if page.Version != list.version || list.size() > longestList {
				break
			}
		}
		switch {
		case list.size() > longestList:
			return symbolList{version: list.version}, nil
		case page.Version == list.version:
			last := &list.body[len(list.body)-1]
			*last = append(*last, ']')
			return list, nil
		}
	}
	return symbolList{version: list.version}, nil
}

// streamList writes a folder's symbols page by page as they are read, so that
// a large folder needs no more memory than a small one and a slow client holds
// no connection of the store. What it writes may be torn by a change, which is
// why its entity tag is a passing one.
func (a *api) streamList(w http.ResponseWriter, r *http.Request, id int64) error {
	page, err := a.symbolPage(r, id, 0)
	if err != nil {
		return err
	}
	body := appendPage(nil, page, '[')
	if !page.More {
		w.Header().Set("ETag", entityTag(page.Version))
		return a.sendJSON(w, r, http.StatusOK, append(body, ']'))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", passingTag(page.Version))
	out := newRolling(w, r, a.IdleTimeout)
	for page.More {
		if _, err := out.Write(body); err != nil {
			a.breakOff(w, r, err)
		}
		if page, err = a.symbolPage(r, id, lastID(page)); err != nil {
			a.breakOff(w, r, err)
		}
		body = appendPage(body[:0], page, ',')
	}
	if _, err := out.Write(append(body, ']')); err != nil {
		a.breakOff(w, r, err)
	}
	out.end()
	return nil
}

func (a *api) symbolPage(r *http.Request, folderID, after int64) (symbols.Page, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	return a.Symbols.ListSymbols(ctx, folderID, after)
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
