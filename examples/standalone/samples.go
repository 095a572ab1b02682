package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

const (
	sampleFolder  = "P&ID symbols"
	sampleKeyName = "Sample key"
	sampleSize    = 96 // width and height of the symbols
	svg           = "image/svg+xml"
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
func (p *program) seed(ctx context.Context) (d demo, err error) {
	if p.demo != nil && !*p.demo {
		return demo{}, nil
	}
	list, err := p.api.Symbols.Tenant(p.sampleTenant()).ListFolders(ctx, symbols.Range{})
	if err != nil {
		return demo{}, err
	}
	create := p.demo != nil
	if !create && len(list.Folders) == 0 {
		first, err := p.api.Keys.List(ctx, keys.Filter{}, keys.Range{Limit: 1})
		if err != nil {
			return demo{}, err
		}
		create = len(first.Keys) == 0
	}
	at := slices.IndexFunc(list.Folders, func(f symbols.Folder) bool { return f.Name == sampleFolder })
	switch {
	case at >= 0:
		d.folderID = list.Folders[at].ID
	case !create:
		return demo{}, nil
	default:
		if d.folderID, err = p.seedSymbols(ctx); err != nil {
			return demo{}, err
		}
	}
	if d.seeded, err = p.seedExports(ctx, create); err != nil || !d.seeded {
		return demo{}, err
	}
	if create {
		d.clientKey, err = p.seedKey(ctx)
	}
	return d, err
}

// sampleTenant returns the tenant of the samples.
func (p *program) sampleTenant() string {
	if p.api.Tenant != nil {
		return "demo"
	}
	return ""
}

// seedSymbols creates the sample folder and returns its id.
func (p *program) seedSymbols(ctx context.Context) (int64, error) {
	folder, err := p.api.Symbols.Tenant(p.sampleTenant()).CreateFolder(ctx, sampleFolder)
	if err != nil {
		return 0, err
	}
	files, err := fs.Glob(samples, "samples/symbols/*.svg")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		content, err := samples.ReadFile(file)
		if err != nil {
			return 0, err
		}
		name := symbolName(file)
		data, err := json.Marshal(map[string]any{ // as viewers store it
			"name": name, "type": svg, "content": content, "width": sampleSize, "height": sampleSize,
		})
		if err != nil {
			return 0, err
		}
		symbol := symbols.NewSymbol{Name: name, Type: svg, Data: string(data)}
		if _, err := p.api.Symbols.Tenant(p.sampleTenant()).CreateSymbol(ctx, folder.ID, symbol); err != nil {
			return 0, err
		}
	}
	return folder.ID, nil
}

// symbolName returns "Gate valve" for "samples/symbols/01-gate-valve.svg".
func symbolName(file string) string {
	name := strings.TrimLeft(strings.TrimSuffix(path.Base(file), ".svg"), "0123456789-")
	name = strings.ReplaceAll(name, "-", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}

// seedExports registers the samples if create is set, and those that an earlier version
// has registered under the URL of its process. It reports whether all are registered.
func (p *program) seedExports(ctx context.Context, create bool) (complete bool, err error) {
	for _, drawing := range sampleDrawings {
		export, err := p.api.Exports.Tenant(p.sampleTenant()).Find(ctx, drawing.Source)
		if errors.Is(err, exports.ErrNotFound) && create {
			err = nil
		}
		if err == nil && (create || strings.HasSuffix(export.ExportedURL, "/samples/"+drawing.file)) {
			_, _, err = p.api.Exports.Tenant(p.sampleTenant()).Register(ctx, exports.Registration{
				SourceURL: drawing.Source, ExportedURL: samplesURL + drawing.file, FileName: &drawing.name,
			})
		}
		if errors.Is(err, exports.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// seedKey issues the sample key unless a key of that name exists.
func (p *program) seedKey(ctx context.Context) (keys.RawKey, error) {
	all, err := p.api.Keys.List(ctx, keys.Filter{}, keys.Range{})
	if err != nil || slices.ContainsFunc(all.Keys, func(k keys.Key) bool { return k.Name == sampleKeyName }) {
		return "", err
	}
	issued, err := p.api.Keys.Create(ctx, keys.Fields{Name: new(sampleKeyName), Owner: new(p.sampleTenant())})
	return issued.Raw, err
}
