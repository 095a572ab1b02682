package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"runtime/debug"
	"time"

	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

// loadIndex reads what the first search would have to read. The store may panic.
func (a *API) loadIndex() {
	defer func() {
		if reason := recover(); reason != nil {
			a.options.Logger.Error("panic in store", "panic", reason, "stack", string(debug.Stack()))
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.options.Symbols.LoadSearchIndex(ctx); err != nil {
		a.options.Logger.Info("search index not loaded, the first search takes longer", "error", err)
	}
}

// searchSymbols responds with the symbols of all folders that match the parameter q.
func (e symbolEndpoints) searchSymbols(c *call) error {
	text, _, err := c.query().get("q")
	if err != nil {
		return err
	}
	page, err := c.page()
	if err != nil {
		return err
	}
	page.Limit = cmp.Or(page.Limit, defaultPageSize)
	fields, err := c.fields()
	if err != nil {
		return err
	}
	fields = cmp.Or(fields, bodies.InfoFields)
	query, err := symbols.ParseQuery(text)
	if err != nil {
		return err
	}
	var found symbols.InfoPage
	err = c.inTurn(page.Limit > defaultPageSize, func() (err error) {
		ctx, cancel := c.storeContext()
		defer cancel()
		found, err = e.all.Tenant(c.tenant).Search(ctx, query, symbols.Range(page))
		return err
	})
	if err != nil {
		return err
	}
	if found.More {
		c.setLink(page.Limit, found.Symbols[len(found.Symbols)-1].ID)
	}
	if !fields.InInfo() {
		return e.sendFoundData(c, query, found.Symbols, fields)
	}
	var body []byte
	separator := byte('[')
	for _, info := range found.Symbols {
		body = bodies.AppendInfo(append(body, separator), info, fields)
		separator = ','
	}
	return c.sendCompressible(closeList(body, separator))
}

// sendFoundData responds with the symbols found, which it reads again completely, one by
// one.
func (e symbolEndpoints) sendFoundData(c *call, query symbols.Query, found []symbols.SymbolInfo, fields bodies.Fields) error {
	size := int64(0)
	for i, info := range found {
		size += info.Size
		found[i] = symbols.SymbolInfo{ID: info.ID, Size: info.Size} // names and tags would take megabytes until the end
	}
	if size > stream.ChunkSize {
		return c.streamJSON(func(w io.Writer) error { return e.writeFound(c, w, query, found, fields) })
	}
	body := countedBuffer{call: c}
	if err := e.writeFound(c, &body, query, found, fields); err != nil {
		return err
	}
	return c.sendCompressible(body.Bytes())
}

// countedBuffer is a buffer that counts as memory of the client.
type countedBuffer struct {
	bytes.Buffer
	call *call
}

func (b *countedBuffer) Write(p []byte) (int, error) {
	const factor = 3 // a full buffer is copied to one of twice the size
	if err := b.call.count(factor * int64(b.Len()+len(p))); err != nil {
		return 0, err
	}
	return b.Buffer.Write(p)
}

// writeFound omits symbols that the search no longer finds.
func (e symbolEndpoints) writeFound(c *call, w io.Writer, query symbols.Query, found []symbols.SymbolInfo, fields bodies.Fields) error {
	var buffer []byte
	separator := byte('[')
	for _, info := range found {
		if err := c.reserve(2 * info.Size); err != nil { // as read, and encoded
			return err
		}
		symbol, err := e.getSymbol(c, info.ID)
		switch {
		case errors.Is(err, symbols.ErrSymbolNotFound), err == nil && !query.Matches(symbol.Name, symbol.Tags):
			continue
		case err != nil:
			return err
		}
		buffer = bodies.AppendFields(append(buffer[:0], separator), symbol, fields)
		if _, err := w.Write(buffer); err != nil {
			return err
		}
		separator = ','
	}
	_, err := w.Write(closeList(nil, separator))
	return err
}

func (e symbolEndpoints) getSymbol(c *call, id int64) (symbols.Symbol, error) {
	ctx, cancel := c.storeContext()
	defer cancel()
	return e.all.Tenant(c.tenant).GetSymbol(ctx, id)
}
