package httpapi

import (
	"bytes"
	"cmp"
	"io"
	"net/http"

	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

// searchSymbols responds with the symbols of all folders whose name contains the
// parameter q.
func (a *API) searchSymbols(w http.ResponseWriter, r *http.Request) error {
	query := parseQuery(r.URL)
	text, _, err := query.get("q")
	if err != nil {
		return err
	}
	p, err := query.page()
	if err != nil {
		return err
	}
	p.limit = cmp.Or(p.limit, defaultPageSize)
	fields, err := query.fields()
	if err != nil {
		return err
	}
	fields = cmp.Or(fields, infoFields)
	ctx, cancel := a.storeContext(r)
	defer cancel()
	found, more, err := a.symbols.Search(ctx, text, p.selection())
	if err != nil {
		return err
	}
	if more {
		query.setLink(w.Header(), p, found[len(found)-1].ID)
	}
	return a.sendFound(w, r, text, found, fields)
}

// sendFound responds with the symbols whose names contain text. Those found are read
// again if their data is among the fields.
func (a *API) sendFound(w http.ResponseWriter, r *http.Request, text string, found []symbols.SymbolInfo, fields fieldSet) error {
	if fields&dataField == 0 {
		body := []byte{'['}
		for i, info := range found {
			if i > 0 {
				body = append(body, ',')
			}
			body = appendFields(body, info, "", fields)
		}
		return a.sendCompressible(w, r, append(body, ']'))
	}
	size := int64(0)
	for _, info := range found {
		size += info.Size
	}
	write := func(out io.Writer) error {
		return a.writeEach(out, r, found, fields, func(s symbols.Symbol) bool { return symbols.Contains(s.Name, text) })
	}
	if size > stream.ChunkSize {
		return a.streamJSON(w, r, compressible(w, r), 0, write)
	}
	var body bytes.Buffer
	if err := write(&body); err != nil {
		return err
	}
	return a.sendCompressible(w, r, body.Bytes())
}
