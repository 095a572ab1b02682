package httpapi

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"

	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
)

// defaultPageSize is the limit of lists that always have one.
const defaultPageSize = 100

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
	size := int64(0)
	for _, info := range found {
		size += info.Size
	}
	if fields&dataField != 0 && size > stream.ChunkSize {
		a.streamSymbols(w, r, text, found, fields)
		return nil
	}
	var body bytes.Buffer
	if err := a.writeSymbols(&body, r, text, found, fields); err != nil {
		return err
	}
	a.sendCompressible(w, r, body.Bytes())
	return nil
}

// writeSymbols writes symbols as JSON. It reads their data if that is among the
// fields, and then omits symbols whose name no longer contains text.
func (a *API) writeSymbols(w io.Writer, r *http.Request, text string, list []symbols.SymbolInfo, fields fieldSet) error {
	var buffer []byte
	start, separator := []byte{'['}, []byte(nil)
	for _, info := range list {
		data := ""
		if fields&dataField != 0 {
			symbol, err := a.readSymbol(r, info.ID)
			switch {
			case errors.Is(err, symbols.ErrSymbolNotFound):
				continue
			case err != nil:
				return err
			case !symbols.Contains(symbol.Name, text):
				continue
			}
			info, data = symbol.Info(), symbol.Data
		}
		buffer = append(append(buffer[:0], start...), separator...)
		buffer = appendFields(buffer, info, data, fields)
		if _, err := w.Write(buffer); err != nil {
			return err
		}
		start, separator = nil, []byte{','}
	}
	_, err := w.Write(append(start, ']'))
	return err
}

// streamSymbols responds like writeSymbols while it reads data.
func (a *API) streamSymbols(w http.ResponseWriter, r *http.Request, text string, list []symbols.SymbolInfo, fields fieldSet) {
	compressed := compressible(w, r)
	w.Header().Set("Content-Type", "application/json")
	if compressed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := stream.New(w, r, a.options.IdleTimeout)
	body, finish := io.Writer(out), func() error { return nil }
	if compressed {
		zipped, release := newGzipWriter(out)
		defer release()
		body, finish = zipped, zipped.Close
	}
	err := a.writeSymbols(body, r, text, list, fields)
	if err == nil {
		err = finish()
	}
	if err != nil {
		a.abort(w, r, err)
	}
	out.Finish()
}

func (a *API) readSymbol(r *http.Request, id int64) (symbols.Symbol, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	return a.symbols.GetSymbol(ctx, id)
}
