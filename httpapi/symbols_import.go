package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// exportSymbols writes the symbols of a folder as a zip, page by page.
func (e symbolEndpoints) exportSymbols(c *call) error {
	id, err := c.id()
	if err != nil {
		return err
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	folder, err := e.service.GetFolder(ctx, id)
	if err != nil {
		return err
	}
	first, err := e.symbolPage(c, id, 0)
	if err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Content-Type", "application/zip")
	header.Set("Content-Disposition", disposition("attachment", bundleFileName(folder)))
	if err := c.reserve(streamMemory); err != nil {
		return err
	}
	return c.stream(func(w io.Writer) error {
		return bundle.Write(w, folder.Name, func(after int64) (page symbols.Page, err error) {
			page, first = first, symbols.Page{}
			if after > 0 {
				if page, err = e.symbolPage(c, id, after); err != nil {
					return page, err
				}
			}
			return page, c.reserve(2 * dataSize(page)) // and what is made of it
		})
	})
}

func (e symbolEndpoints) symbolPage(c *call, folderID, after int64) (symbols.Page, error) {
	ctx, cancel := c.storeContext()
	defer cancel()
	return e.service.ListSymbols(ctx, folderID, symbols.Range{After: after})
}

// dataSize returns how many bytes the data of a page has.
func dataSize(page symbols.Page) int64 {
	size := int64(0)
	for _, symbol := range page.Symbols {
		size += int64(len(symbol.Data))
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
func (e symbolEndpoints) importSymbols(c *call) error {
	id, err := c.id()
	if err != nil {
		return err
	}
	dryRun, err := wantsDryRun(c.r.URL)
	if err != nil {
		return err
	}
	archive, err := c.readBody(isZip, errZipType, 2)
	if err != nil {
		return err
	}
	options := &bundle.Options{Limits: e.limits, DryRun: dryRun}
	size, err := bundle.MemorySize(archive, options)
	if err != nil {
		return err
	}
	if err := c.reserve(int64(len(archive)) + size); err != nil {
		return err
	}
	contents, err := bundle.Read(c.detached(), archive, options)
	if err != nil {
		return err
	}
	// A dry run needs the folder for its status. Otherwise this detects an
	// unavailable store before the longer timeout of the import.
	ctx, cancel := c.storeContext()
	defer cancel()
	if _, err := e.service.GetFolder(ctx, id); err != nil {
		return err
	}
	if dryRun {
		return c.encode(http.StatusOK, newImportResponse(contents, nil, dryRun))
	}
	created, err := e.createSymbols(c, id, contents.Symbols())
	if err != nil {
		return err
	}
	return c.encode(http.StatusCreated, newImportResponse(contents, created, dryRun))
}

// bytesPerStoreTimeout is how much data a store is expected to write within
// StoreTimeout.
const bytesPerStoreTimeout = 16 << 20

func (e symbolEndpoints) createSymbols(c *call, folderID int64, list []symbols.NewSymbol) ([]symbols.Symbol, error) {
	size := 0
	for _, symbol := range list {
		size += len(symbol.Data)
	}
	timeout := c.api.options.Limits.StoreTimeout * time.Duration(1+size/bytesPerStoreTimeout)
	ctx, cancel := context.WithTimeout(c.detached(), timeout)
	defer cancel()
	return e.service.CreateSymbols(ctx, folderID, list)
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
