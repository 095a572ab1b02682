package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

const (
	sampleFolder = "P&ID symbols"
	svg          = "image/svg+xml"
)

// sampleExport is the source URL of a drawing, the file it was exported to, and
// the file name of its downloads.
type sampleExport struct{ Source, file, name string }

var sampleDrawings = []sampleExport{
	{"https://viewer.example/drawings/pump-skid", "pump-skid.svg", "Pump skid.svg"},
	{"https://viewer.example/drawings/valve-sheet", "valve-sheet.png", "Valve sheet.png"},
	{"https://viewer.example/drawings/datasheet", "datasheet.pdf", "Pump datasheet.pdf"},
}

// demo describes the sample data for the banner.
type demo struct {
	seeded    bool
	folderID  int64
	clientKey keys.RawKey // empty if none was issued
}

// seed creates the sample data that does not exist yet, if DEMO is true, or in a new
// database if it is unset. In others it finds the samples, unless some have been deleted.
// It issues a client key if there is none.
func (p *program) seed(ctx context.Context) (d demo, err error) {
	if p.demo != nil && !*p.demo {
		return demo{}, nil
	}
	tenant := ""
	if p.api.Tenant != nil {
		tenant = "demo"
	}
	library, registered := p.api.Symbols.Tenant(tenant), p.api.Exports.Tenant(tenant)
	list, err := library.ListFolders(ctx, symbols.Range{})
	if err != nil {
		return demo{}, err
	}
	issued, err := p.api.Keys.List(ctx, keys.Filter{}, keys.Range{Limit: 1})
	if err != nil {
		return demo{}, err
	}
	create := p.demo != nil || len(list.Folders) == 0 && len(issued.Keys) == 0
	at := slices.IndexFunc(list.Folders, func(f symbols.Folder) bool { return f.Name == sampleFolder })
	switch {
	case at >= 0:
		d.folderID = list.Folders[at].ID
	case !create:
		return demo{}, nil
	default:
		d.folderID, err = seedSymbols(ctx, library)
		if errors.Is(err, symbols.ErrFolderNameTaken) { // another process has just begun to create the samples
			return demo{}, nil
		}
		if err != nil {
			return demo{}, err
		}
	}
	for _, drawing := range sampleDrawings {
		if create {
			_, _, err = registered.Register(ctx, exports.Registration{
				SourceURL: drawing.Source, ExportedURL: samplesURL + drawing.file, FileName: &drawing.name,
			})
		} else {
			_, err = registered.Find(ctx, drawing.Source)
		}
		if errors.Is(err, exports.ErrNotFound) {
			return demo{}, nil
		}
		if err != nil {
			return demo{}, err
		}
	}
	d.seeded = true
	if create && len(issued.Keys) == 0 {
		key, err := p.api.Keys.Create(ctx, keys.Fields{Name: new("Sample key"), Owner: &tenant})
		if err != nil {
			return demo{}, err
		}
		d.clientKey = key.Raw
	}
	return d, nil
}

// seedSymbols creates the sample folder and returns its id.
func seedSymbols(ctx context.Context, library *symbols.Service) (int64, error) {
	folder, err := library.CreateFolder(ctx, sampleFolder)
	if err != nil {
		return 0, err
	}
	var list []symbols.NewSymbol
	files, _ := fs.Glob(samples, "samples/symbols/*.svg") // the pattern is valid
	for _, file := range files {
		content, _ := samples.ReadFile(file) // it is embedded
		name := strings.TrimSuffix(path.Base(file), ".svg")[len("01-"):]
		data := fmt.Sprintf(`{"name":%q,"type":%q,"content":%q,"width":96,"height":96}`, // as viewers store it
			name, svg, base64.StdEncoding.EncodeToString(content))
		list = append(list, symbols.NewSymbol{Name: name, Type: svg, Data: data})
	}
	_, err = library.CreateSymbols(ctx, folder.ID, list)
	return folder.ID, err
}
