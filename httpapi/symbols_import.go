package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/httpapi/internal/stream"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// exportSymbols writes the symbols of a folder as a zip or a draw.io library, page by page.
func (e symbolEndpoints) exportSymbols(c *call) error {
	format, err := c.query().choice("format", "zip", "drawio")
	if err != nil {
		return err
	}
	ctx, cancel := c.storeContext()
	defer cancel()
	folder, err := e.all.Tenant(c.tenant).GetFolder(ctx, c.id)
	if err != nil {
		return err
	}
	if err := c.reserve(streamMemory); err != nil {
		return err
	}
	held := int64(streamMemory)
	read := func(after int64) (symbols.Page, error) {
		page, err := e.symbolPage(c, after, held)
		if err == nil && format != "drawio" { // a zip ends with a manifest, which is kept until then
			held += manifestSize(page)
			err = c.reserve(held)
		}
		return page, err
	}
	first, err := read(0)
	if err != nil {
		return err
	}
	pages := func(after int64) (page symbols.Page, err error) {
		page, first = first, symbols.Page{}
		if after > 0 {
			page, err = read(after)
		}
		return page, err
	}
	name := cmp.Or(filename.Clean(folder.Name), "symbols")
	if format == "drawio" {
		return c.sendAttachment("application/xml", filename.Clean(name+".xml"), -1, func(out *stream.Writer) error {
			return bundle.WriteDrawio(out, pages)
		})
	}
	return c.sendAttachment("application/zip", filename.Clean(name+".zip"), -1, func(out *stream.Writer) error {
		return bundle.Write(out, folder.Name, pages)
	})
}

// symbolPage returns a page of a request that holds as much memory beside it.
func (e symbolEndpoints) symbolPage(c *call, after, held int64) (page symbols.Page, err error) {
	err = c.inTurn(true, func() (err error) {
		ctx, cancel := c.storeContext()
		defer cancel()
		page, err = e.all.Tenant(c.tenant).ListSymbolsFunc(ctx, c.id, symbols.Range{After: after}, func(size int64) error {
			return c.reserve(held + 2*size) // and what is made of it
		}, true)
		return err
	})
	return page, err
}

func manifestSize(page symbols.Page) (size int64) {
	const perSymbol = 512 // without meta and tags
	for _, symbol := range page.Symbols {
		size += int64(perSymbol + len(symbol.Meta) + len(symbol.Tags.String()))
	}
	return size
}

type importResponse struct {
	Message  string         `json:"message"`
	DryRun   bool           `json:"dryRun"`
	Imported int            `json:"imported"`
	Files    []importedFile `json:"files"`
	Ignored  []fileNote     `json:"ignored"`
	Skipped  *[]fileNote    `json:"skipped,omitzero"` // absent without skip
}

type importedFile struct {
	File     string `json:"file"`
	SymbolID int64  `json:"symbolId,omitzero"` // absent in a dry run
	Name     string `json:"name"`
	Type     string `json:"type"`
}

// importSymbols creates the symbols of a zip, a library or a picture, or none of them.
func (e symbolEndpoints) importSymbols(c *call) (err error) {
	options := &bundle.Options{Limits: e.limits}
	q := c.query()
	if options.DryRun, err = q.flag("dryRun"); err != nil {
		return err
	}
	if options.Skip, err = q.flag("skip"); err != nil {
		return err
	}
	if options.Name, _, err = q.get("name"); err != nil {
		return err
	}
	anyType := func(string) bool { return true } // the bytes tell the format
	archive, err := c.readBody(anyType, nil, 2)
	if err != nil {
		return err
	}
	out, err := e.importArchive(c, options, archive)
	if err != nil {
		return err
	}
	if options.DryRun {
		return c.encode(http.StatusOK, out)
	}
	return c.encode(http.StatusCreated, out)
}

func (e symbolEndpoints) importArchive(c *call, options *bundle.Options, archive []byte) (out importResponse, err error) {
	// This detects an unavailable store before the longer timeout of the import.
	ctx, cancel := c.storeContext()
	defer cancel()
	folder, missing := e.all.Tenant(c.tenant).GetFolder(ctx, c.id)
	if missing != nil && !errors.Is(missing, symbols.ErrFolderNotFound) { // an invalid archive comes first
		return out, missing
	}
	options.Folder = folder.Name
	var size int64
	err = c.inTurn(true, func() (err error) {
		size, err = bundle.MemorySize(archive, options)
		return err
	})
	if err == nil {
		err = c.reserveForTurn(int64(len(archive)) + size)
	}
	if err != nil {
		return out, err
	}
	var contents *bundle.Contents
	var created []symbols.Symbol
	err = c.inTurn(true, func() (err error) {
		contents, err = bundle.Read(c.detached(), archive, options)
		if err = cmp.Or(err, missing); err == nil && !options.DryRun {
			created, err = e.createSymbols(c, contents.Symbols())
		}
		return err
	})
	if err != nil {
		return out, err
	}
	for _, symbol := range created {
		c.touch("symbol", symbol.ID)
	}
	return newImportResponse(contents, created, options), nil
}

func (e symbolEndpoints) createSymbols(c *call, list []symbols.NewSymbol) ([]symbols.Symbol, error) {
	const perTimeout = 16 << 20 // bytes that a store is expected to write within StoreTimeout
	size := 0
	for i := range list {
		list[i].By = c.keyID
		size += len(list[i].Data) + len(list[i].Meta) + symbols.PageOverhead
	}
	timeout := c.api.options.Limits.StoreTimeout * time.Duration(1+size/perTimeout)
	ctx, cancel := context.WithTimeout(c.detached(), timeout)
	defer cancel()
	return e.all.Tenant(c.tenant).CreateSymbols(ctx, c.id, list)
}

// newImportResponse returns the response to an import. A dry run has created none.
func newImportResponse(contents *bundle.Contents, created []symbols.Symbol, options *bundle.Options) importResponse {
	count := len(contents.Files)
	out := importResponse{
		Message:  fmt.Sprintf("Symbols imported: %d.", count),
		DryRun:   options.DryRun,
		Imported: count,
		Files:    make([]importedFile, count),
		Ignored:  fileNotes(contents.Ignored),
		Skipped:  orNull(fileNotes(contents.Skipped), options.Skip),
	}
	for i, file := range contents.Files {
		out.Files[i] = importedFile{File: file.Name, Name: file.Symbol.Name, Type: file.Symbol.Type}
	}
	if options.DryRun {
		out.Message = fmt.Sprintf("Symbols that can be imported: %d. Nothing was changed.", count)
	}
	for i, symbol := range created {
		out.Files[i].SymbolID = symbol.ID
	}
	return out
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
