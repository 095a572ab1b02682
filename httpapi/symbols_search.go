package httpapi

import (
	"bytes"
	"cmp"
	"errors"
	"io"

	"example.com/canvasback/httpapi/internal/bodies"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

// searchSymbols responds with the symbols of all folders whose name contains the
// parameter q.
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
	ctx, cancel := c.storeContext()
	defer cancel()
	found, err := e.service.Search(ctx, text, symbols.Range(page))
	if err != nil {
		return err
	}
	if found.More {
		c.setLink(page.Limit, found.Symbols[len(found.Symbols)-1].ID)
	}
	if fields.HasData() {
		return e.sendFoundData(c, text, found.Symbols, fields)
	}
	body := []byte{'['}
	for i, info := range found.Symbols {
		if i > 0 {
			body = append(body, ',')
		}
		body = bodies.AppendFields(body, info, "", fields)
	}
	return c.sendCompressible(append(body, ']'))
}

// sendFoundData responds with the symbols whose names contain text. Those found are
// read again with their data, one by one.
func (e symbolEndpoints) sendFoundData(c *call, text string, found []symbols.SymbolInfo, fields bodies.Fields) error {
	size := int64(0)
	for _, info := range found {
		size += info.Size
	}
	if size > stream.ChunkSize {
		return c.streamJSON(func(w io.Writer) error { return e.writeFound(c, w, text, found, fields) })
	}
	var body bytes.Buffer
	if err := e.writeFound(c, &body, text, found, fields); err != nil {
		return err
	}
	return c.sendCompressible(body.Bytes())
}

// writeFound omits symbols that the search no longer finds.
func (e symbolEndpoints) writeFound(c *call, w io.Writer, text string, found []symbols.SymbolInfo, fields bodies.Fields) error {
	var buffer []byte
	separator := byte('[')
	for _, info := range found {
		symbol, err := e.readFound(c, text, info)
		switch {
		case errors.Is(err, symbols.ErrSymbolNotFound):
			continue
		case err != nil:
			return err
		}
		if err := c.reserve(2 * int64(len(symbol.Data))); err != nil { // as read, and encoded
			return err
		}
		buffer = bodies.AppendFields(append(buffer[:0], separator), symbol.Info(), symbol.Data, fields)
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

// readFound reads a symbol that a search has found. The error is
// [symbols.ErrSymbolNotFound] if it has changed and the search no longer finds it.
func (e symbolEndpoints) readFound(c *call, text string, found symbols.SymbolInfo) (symbols.Symbol, error) {
	ctx, cancel := c.storeContext()
	defer cancel()
	symbol, err := e.service.GetSymbol(ctx, found.ID)
	if err != nil || symbol.Version == found.Version {
		return symbol, err
	}
	page, err := e.service.Search(ctx, text, symbols.Range{After: symbol.ID - 1, Limit: 1})
	if err == nil && (len(page.Symbols) == 0 || page.Symbols[0] != symbol.Info()) {
		err = symbols.ErrSymbolNotFound
	}
	return symbol, err
}
