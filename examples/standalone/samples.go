package main

import (
	"context"
	"embed"
	"encoding/base64"
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

//go:embed samples
var samples embed.FS

// sampleExports are the files behind the sample exports.
func sampleExports() fs.FS {
	fsys, err := fs.Sub(samples, "samples/exports")
	if err != nil {
		panic(err) // the name is a constant
	}
	return fsys
}

const (
	sampleFolder  = "P&ID symbols"
	sampleKeyName = "Sample key"
	sampleSize    = 96 // width and height of the symbols
)

// sampleExport is a drawing and the file it has been exported to.
type sampleExport struct{ source, file, name string }

var sampleDrawings = []sampleExport{
	{"https://viewer.example/drawings/pump-skid", "pump-skid.svg", "Pump skid.svg"},
	{"https://viewer.example/drawings/valve-sheet", "valve-sheet.png", "Valve sheet.png"},
	{"https://viewer.example/drawings/datasheet", "datasheet.pdf", "Pump datasheet.pdf"},
}

// demo is what a banner can show of the samples.
type demo struct {
	seeded    bool
	folderID  int64
	clientKey keys.RawKey // empty if none was issued
}

// seed puts the samples into a new database, or whatever of them is missing
// if the mode says so.
func (s services) seed(ctx context.Context, mode demoMode, own string) (demo, error) {
	if mode == demoNever {
		return demo{}, nil
	}
	if mode == demoIfNew {
		if isNew, err := s.isNew(ctx); err != nil || !isNew {
			return demo{}, errors.Join(err, s.moveSampleExports(ctx, own))
		}
	}
	d := demo{seeded: true}
	var err error
	if d.folderID, err = s.seedSymbols(ctx); err != nil {
		return demo{}, err
	}
	for _, drawing := range sampleDrawings {
		if _, _, err := s.exports.Register(ctx, drawing.source, own+samplesPath+drawing.file, drawing.name); err != nil {
			return demo{}, err
		}
	}
	d.clientKey, err = s.seedKey(ctx)
	return d, err
}

// isNew reports whether the database holds neither keys nor folders.
func (s services) isNew(ctx context.Context) (bool, error) {
	list, err := s.keys.List(ctx)
	if err != nil || len(list) > 0 {
		return false, err
	}
	folders, err := s.symbols.ListFolders(ctx)
	return len(folders.Folders) == 0, err
}

// moveSampleExports follows a change of this server's address. Samples that
// are no longer registered are left alone.
func (s services) moveSampleExports(ctx context.Context, own string) error {
	for _, drawing := range sampleDrawings {
		export, err := s.exports.Find(ctx, drawing.source)
		if errors.Is(err, exports.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		address := own + samplesPath + drawing.file
		if export.ExportedURL == address || !strings.HasSuffix(export.ExportedURL, samplesPath+drawing.file) {
			continue
		}
		if _, _, err := s.exports.Register(ctx, drawing.source, address, export.FileName); err != nil {
			return err
		}
	}
	return nil
}

// seedSymbols creates the sample folder, unless there is one of its name, and
// returns its id.
func (s services) seedSymbols(ctx context.Context) (int64, error) {
	folder, err := s.symbols.CreateFolder(ctx, sampleFolder)
	if errors.Is(err, symbols.ErrFolderNameTaken) {
		folders, err := s.symbols.ListFolders(ctx)
		at := slices.IndexFunc(folders.Folders, func(f symbols.Folder) bool { return f.Name == sampleFolder })
		if err != nil || at < 0 {
			return 0, err
		}
		return folders.Folders[at].ID, nil
	}
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
		data, err := json.Marshal(symbolData{
			Name:    name,
			Type:    "image/svg+xml",
			Content: base64.StdEncoding.EncodeToString(content),
			Width:   sampleSize,
			Height:  sampleSize,
		})
		if err != nil {
			return 0, err
		}
		if _, err := s.symbols.CreateSymbol(ctx, folder.ID, name, "image/svg+xml", string(data)); err != nil {
			return 0, err
		}
	}
	return folder.ID, nil
}

// symbolData is what the viewers of this family put into a symbol's data.
type symbolData struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content string `json:"content"` // base64
	Width   int    `json:"width"`
	Height  int    `json:"height"`
}

// symbolName makes "Gate valve" of "samples/symbols/01-gate-valve.svg".
func symbolName(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".svg")
	name = strings.TrimLeft(name, "0123456789-")
	name = strings.ReplaceAll(name, "-", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}

// seedKey issues the sample key, unless there is one.
func (s services) seedKey(ctx context.Context) (keys.RawKey, error) {
	list, err := s.keys.List(ctx)
	if err != nil || slices.ContainsFunc(list, func(k keys.Key) bool { return k.Name == sampleKeyName }) {
		return "", err
	}
	issued, err := s.keys.Create(ctx, keys.Fields{Name: new(sampleKeyName)})
	return issued.Raw, err
}
