package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// exportSymbols writes the symbols of a folder as a zip, page by page.
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
	counted, err := a.newCountedWriter(w, r, 0)
	if err != nil {
		return err
	}
	defer counted.memory.Release()
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", disposition("attachment", bundleFileName(folder)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := a.newStream(w, r)
	err = bundle.Write(out, folder.Name, func(after int64) (page symbols.Page, err error) {
		page, first = first, symbols.Page{}
		if after > 0 {
			if page, err = a.symbolPage(r, id, after); err != nil {
				return page, err
			}
		}
		return page, counted.growTo(2 * dataSize(page)) // and what is made of it
	})
	if err != nil {
		a.abort(w, r, err)
	}
	out.Finish()
	return nil
}

func (a *API) symbolPage(r *http.Request, folderID, after int64) (symbols.Page, error) {
	ctx, cancel := a.storeContext(r)
	defer cancel()
	return a.symbols.ListSymbols(ctx, folderID, symbols.Range{After: after})
}

// dataSize returns how many bytes the data of a page has.
func dataSize(page symbols.Page) int {
	size := 0
	for _, symbol := range page.Symbols {
		size += len(symbol.Data)
	}
	return size
}

func bundleFileName(folder symbols.Folder) string {
	name := filename.Clean(folder.Name)
	if name == "" {
		name = "symbols"
	}
	return filename.Clean(name + ".zip")
}

type importResponse struct {
	Message  string         `json:"message"`
	DryRun   bool           `json:"dryRun"`
	Imported int            `json:"imported"`
	Files    []importedFile `json:"files"`
	Ignored  []fileNote     `json:"ignored"`
}

type importedFile struct {
	File     string `json:"file"`
	SymbolID int64  `json:"symbolId,omitzero"` // absent in a dry run
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

// importSymbols creates the symbols of a zip, or none of them.
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
	contents, err := bundle.Read(context.WithoutCancel(r.Context()), archive, &bundle.Options{ // see storeContext
		Limits:  a.options.Import,
		DryRun:  dryRun,
		Reserve: func(size int64) error { return reserve(r, int64(len(archive))+size) },
		Pause:   a.pause(),
	})
	if err != nil {
		return err
	}
	// A dry run needs the folder for its status. Otherwise this detects an
	// unavailable store before the longer timeout of the import.
	ctx, cancel := a.storeContext(r)
	defer cancel()
	if _, err := a.symbols.GetFolder(ctx, id); err != nil {
		return err
	}
	if dryRun {
		return encode(w, http.StatusOK, newImportResponse(contents, nil, dryRun))
	}
	created, err := a.createSymbols(r, id, contents.Symbols())
	if err != nil {
		return err
	}
	return encode(w, http.StatusCreated, newImportResponse(contents, created, dryRun))
}

// pause returns a function for a request that may use a processor for long. While other
// requests arrive, it sleeps for three quarters of the time.
func (a *API) pause() func() {
	arrived, start := a.arrived.Load(), time.Now()
	return func() {
		worked := time.Since(start)
		if worked < time.Millisecond {
			return // too short to sleep precisely
		}
		if now := a.arrived.Load(); now != arrived {
			arrived = now
			time.Sleep(3 * worked)
		}
		start = time.Now()
	}
}

// bytesPerStoreTimeout is how much data a store is expected to write within
// StoreTimeout.
const bytesPerStoreTimeout = 16 << 20

func (a *API) createSymbols(r *http.Request, folderID int64, list []symbols.NewSymbol) ([]symbols.Symbol, error) {
	size := 0
	for _, symbol := range list {
		size += len(symbol.Data)
	}
	timeout := a.options.StoreTimeout * time.Duration(1+size/bytesPerStoreTimeout)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timeout)
	defer cancel()
	return a.symbols.CreateSymbols(ctx, folderID, list)
}

// newImportResponse returns the response to an import. A dry run has created none.
func newImportResponse(contents *bundle.Contents, created []symbols.Symbol, dryRun bool) importResponse {
	count := len(contents.Files)
	out := importResponse{
		Message:  fmt.Sprintf("Symbols imported: %d.", count),
		Imported: count,
		Files:    make([]importedFile, count),
		Ignored:  fileNotes(contents.Ignored),
	}
	for i, file := range contents.Files {
		out.Files[i] = importedFile{File: file.Name, Name: file.Symbol.Name, Type: file.Symbol.Type}
	}
	if dryRun {
		out.DryRun = true
		out.Message = fmt.Sprintf("Symbols that can be imported: %d. Nothing was changed.", count)
		return out
	}
	for i, symbol := range created {
		out.Files[i].SymbolID = symbol.ID
	}
	return out
}

// isZip accepts the media types that browsers and other programs use for zips.
func isZip(mediaType string) bool {
	switch mediaType {
	case "application/zip", "application/x-zip-compressed", "application/octet-stream":
		return true
	}
	return false
}

// wantsDryRun parses the query parameter dryRun.
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
