package httpapi

import (
	"cmp"
	"io"
	"net/http"

	"example.com/canvasback/symbols"
)

// listSymbols responds with symbols of a folder.
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
	key := bodyKey{versionKey{contentsVersion, id}, p, cmp.Or(fields, allFields), false, compressible(w, r)}
	return a.sendList(w, r, q, key, viewOf(q, p, fields), func(maxSize int64) (encodedBody, error) { return a.encodeList(r, key, maxSize) })
}

// sendList responds with a list. The function encode returns it, or the first part of
// a list of symbols that exceeds maxSize bytes. Each request reads the current version,
// so the cache never returns a stale list.
func (a *API) sendList(w http.ResponseWriter, r *http.Request, q query, key bodyKey, view string, encode func(maxSize int64) (encodedBody, error)) error {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	version, err := a.versions.get(ctx, key.versionKey)
	if err != nil {
		return err
	}
	if etag, ok := notModified(r.Header, version, view); ok {
		return sendNotModified(w, etag)
	}
	list, err := a.bodies.get(key, version, func() (encodedBody, error) { return encode(a.bodies.maxBody) })
	if err == nil && list.parts == nil && list.after == 0 { // too long for the cache
		list, err = encode(0)
	}
	switch {
	case err != nil:
		return err
	case list.after > 0 && key.page.limit > 0:
		return a.streamRange(w, r, q, key, view)
	case list.after > 0:
		setTag(w, tag{list.version, view, key.gzip}.volatile())
		return a.streamJSON(w, r, key.gzip, size(list.parts), func(out io.Writer) error { return a.writePages(out, r, key, list) })
	case list.next > 0:
		q.setLink(w.Header(), key.page, list.next)
	}
	return a.sendTaggedBody(w, r, list, view)
}

// streamRange responds with a page of a long list. Its Link precedes the data, so it
// first reads which symbols the page has.
func (a *API) streamRange(w http.ResponseWriter, r *http.Request, q query, key bodyKey, view string) error {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	infos, err := a.symbols.ListSymbolInfos(ctx, key.id, key.page.selection())
	if err != nil {
		return err
	}
	if infos.More {
		q.setLink(w.Header(), key.page, infos.Symbols[len(infos.Symbols)-1].ID)
	}
	setTag(w, tag{infos.Version, view, key.gzip}.volatile())
	return a.streamJSON(w, r, key.gzip, 0, func(out io.Writer) error {
		return a.writeEach(out, r, infos.Symbols, key.fields, func(s symbols.Symbol) bool { return s.FolderID == key.id })
	})
}
