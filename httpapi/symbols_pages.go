package httpapi

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"example.com/canvasback/symbols"
)

// selection returns the range of a page.
func (p page) selection() symbols.Range { return symbols.Range{After: p.after, Limit: p.limit} }

// listedPage is a [symbols.Page] or a [symbols.InfoPage].
type listedPage struct {
	symbols []listedSymbol
	version symbols.Version
	more    bool
}

type listedSymbol struct {
	symbols.SymbolInfo
	data string // if it was read
}

// last returns the id after which the next page begins.
func (p listedPage) last() int64 {
	if len(p.symbols) == 0 {
		return 0 // no page follows
	}
	return p.symbols[len(p.symbols)-1].ID
}

// readPage reads symbols of a folder, with their data if that is among the fields. A
// page has StoreTimeout to itself, because lists have many.
func (a *API) readPage(r *http.Request, folderID int64, rows symbols.Range, fields fieldSet) (listedPage, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	if fields&dataField == 0 {
		page, err := a.symbols.ListSymbolInfos(ctx, folderID, rows)
		out := listedPage{make([]listedSymbol, len(page.Symbols)), page.Version, page.More}
		for i, info := range page.Symbols {
			out.symbols[i] = listedSymbol{info, ""}
		}
		return out, err
	}
	page, err := a.symbols.ListSymbols(ctx, folderID, rows)
	out := listedPage{make([]listedSymbol, len(page.Symbols)), page.Version, page.More}
	for i, symbol := range page.Symbols {
		out.symbols[i] = listedSymbol{symbol.Info(), symbol.Data}
	}
	return out, err
}

// writePages writes a list and then the pages that follow it, as they are read. A
// long list takes no more memory than a short one, and a slow client holds no
// connection of the store.
func (a *API) writePages(w io.Writer, r *http.Request, key bodyKey, list encodedBody) error {
	separator, after := byte(','), list.after
	if list.parts == nil {
		separator, after = '[', key.page.after
	}
	if err := writeParts(w, list.parts); err != nil {
		return err
	}
	var buffer []byte
	for more := true; more; separator = ',' {
		page, err := a.readPage(r, key.id, symbols.Range{After: after}, key.fields)
		if err != nil {
			return err
		}
		buffer = appendPage(buffer[:0], page, separator, key.fields)
		if !page.more {
			buffer = append(buffer, ']')
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
		after, more = max(after, page.last()), page.more
	}
	return nil
}

// writeEach writes a list of symbols with their data, which it reads one by one. It
// omits those that keep rejects, and those that are deleted.
func (a *API) writeEach(w io.Writer, r *http.Request, list []symbols.SymbolInfo, fields fieldSet, keep func(symbols.Symbol) bool) error {
	var buffer []byte
	separator := byte('[')
	for _, info := range list {
		symbol, err := a.readSymbol(r, info.ID)
		switch {
		case errors.Is(err, symbols.ErrSymbolNotFound), err == nil && !keep(symbol):
			continue
		case err != nil:
			return err
		}
		buffer = appendFields(append(buffer[:0], separator), symbol.Info(), symbol.Data, fields)
		if _, err := w.Write(buffer); err != nil {
			return err
		}
		separator = ','
	}
	end := "]"
	if separator == '[' {
		end = "[]"
	}
	_, err := io.WriteString(w, end)
	return err
}

func (a *API) readSymbol(r *http.Request, id int64) (symbols.Symbol, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	return a.symbols.GetSymbol(ctx, id)
}

// appendPage appends the symbols of a page as JSON: each after a separator, which
// is the given one and then a comma. A page after the first may be empty, because
// symbols may have been deleted.
func appendPage(dst []byte, page listedPage, separator byte, fields fieldSet) []byte {
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
