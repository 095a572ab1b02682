package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

type importResponse struct {
	Message  string         `json:"message"`
	DryRun   bool           `json:"dryRun"`
	Imported int            `json:"imported"`
	Files    []importedFile `json:"files"`
	Ignored  []fileNote     `json:"ignored"`
}

type importedFile struct {
	File     string `json:"file"`
	SymbolID int64  `json:"symbolId,omitzero"` // of a dry run there is none
	Name     string `json:"name"`
	Type     string `json:"type"`
}

type fileNote struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

func fileNotes(list []bundle.FileNote) []fileNote {
	notes := make([]fileNote, len(list))
	for i, note := range list {
		notes[i] = fileNote(note)
	}
	return notes
}

// exportSymbols writes a folder's symbols as a zip, page by page like
// listSymbols.
func (a *API) exportSymbols(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	ctx, cancel := a.storeContext(r)
	defer cancel()
	folder, err := a.symbols.GetFolder(ctx, id)
	if err != nil {
		return err
	}
	first, err := a.symbolPage(r, id, 0)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", disposition(bundleFileName(folder)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := stream.New(w, r, a.options.IdleTimeout)
	err = bundle.Write(out, folder.Name, func(after int64) (symbols.Page, error) {
		if after == 0 {
			return first, nil
		}
		return a.symbolPage(r, id, after)
	})
	if err != nil {
		a.abort(w, r, err)
	}
	out.Finish()
	return nil
}

func bundleFileName(folder symbols.Folder) string {
	name := filename.Clean(folder.Name)
	if name == "" {
		name = "symbols"
	}
	return filename.Clean(name + ".zip")
}

// importSymbols creates the symbols of a zip, all or none.
func (a *API) importSymbols(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	dryRun, err := wantsDryRun(r.URL)
	if err != nil {
		return err
	}
	archive, err := readBody(r, isZip, errZipType)
	if err != nil {
		return err
	}
	contents, err := bundle.Read(context.WithoutCancel(r.Context()), archive, &a.options.Import) // see storeContext
	if err != nil {
		return err
	}
	// In a dry run this is for its answer. Otherwise it is for a store that
	// does not answer, which the time for a large import would hide.
	ctx, cancel := a.storeContext(r)
	defer cancel()
	if _, err := a.symbols.GetFolder(ctx, id); err != nil {
		return err
	}
	if dryRun {
		return encode(w, http.StatusOK, newImportResponse(contents, nil))
	}
	created, err := a.createSymbols(r, id, contents.Symbols())
	if err != nil {
		return err
	}
	return encode(w, http.StatusCreated, newImportResponse(contents, created))
}

// storedAtOnce is how many bytes of data a store should store in the time that
// it has for a request.
const storedAtOnce = 16 << 20

func (a *API) createSymbols(r *http.Request, folderID int64, list []symbols.NewSymbol) ([]symbols.Symbol, error) {
	size := 0
	for _, symbol := range list {
		size += len(symbol.Data)
	}
	timeout := a.options.StoreTimeout * time.Duration(1+size/storedAtOnce)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timeout)
	defer cancel()
	return a.symbols.CreateSymbols(ctx, folderID, list)
}

// newImportResponse is the answer to an import that has created symbols, or to
// a dry run, which has not.
func newImportResponse(contents *bundle.Contents, created []symbols.Symbol) importResponse {
	count := len(contents.Files)
	response := importResponse{
		Message:  fmt.Sprintf("Symbols imported: %d.", count),
		Imported: count,
		Files:    make([]importedFile, count),
		Ignored:  fileNotes(contents.Ignored),
	}
	for i, file := range contents.Files {
		response.Files[i] = importedFile{File: file.Name, Name: file.Symbol.Name, Type: file.Symbol.Type}
	}
	if created == nil {
		response.DryRun = true
		response.Message = fmt.Sprintf("Symbols that can be imported: %d. Nothing was changed.", count)
		return response
	}
	for i, symbol := range created {
		response.Files[i].SymbolID = symbol.ID
	}
	return response
}

// isZip reports whether browsers and other programs give zips this media type.
func isZip(mediaType string) bool {
	switch mediaType {
	case "application/zip", "application/x-zip-compressed", "application/octet-stream":
		return true
	}
	return false
}

// wantsDryRun reads the query parameter dryRun.
func wantsDryRun(u *url.URL) (bool, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return false, invalidRequest("query is malformed")
	}
	switch values := query["dryRun"]; {
	case len(values) == 0, len(values) == 1 && (values[0] == "" || values[0] == "false"):
		return false, nil
	case len(values) == 1 && values[0] == "true":
		return true, nil
	}
	return false, invalidRequest(`dryRun must be "true", "false" or absent`)
}
