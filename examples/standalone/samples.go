package main

import (
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/keys"
	"example.com/canvasback/symbols"
)

//go:embed samples
var samples embed.FS

// sampleExports returns the files of the sample exports.
func sampleExports() fs.FS {
	fsys, err := fs.Sub(samples, "samples/exports")
	if err != nil {
		panic(err) // the path is a constant
	}
	return datedFS{fsys}
}

// samplesModified is when the sample exports were last changed.
var samplesModified = time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)

// datedFS gives embedded files a modification time. Without one, downloads of them
// could not be resumed.
type datedFS struct{ fs.FS }

func (d datedFS) Open(name string) (fs.File, error) {
	file, err := d.FS.Open(name)
	if embedded, ok := file.(embeddedFile); ok {
		return datedFile{embedded}, nil
	}
	return file, err
}

// embeddedFile is a file, but not a directory, of an embed.FS.
type embeddedFile interface {
	fs.File
	io.ReadSeeker
	io.ReaderAt
}

type datedFile struct{ embeddedFile }

func (f datedFile) Stat() (fs.FileInfo, error) {
	info, err := f.embeddedFile.Stat()
	return datedInfo{info}, err
}

type datedInfo struct{ fs.FileInfo }

func (datedInfo) ModTime() time.Time { return samplesModified }

const (
	sampleFolder  = "P&ID symbols"
	sampleKeyName = "Sample key"
	sampleSize    = 96 // width and height of the symbols
)

// sampleExport is the source URL of a drawing, the file it was exported to, and
// the file name of its downloads.
type sampleExport struct{ source, file, name string }

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

// samplesURL returns the URL of the directory of the sample exports. Processes that
// share a database without PUBLIC_URL keep the one under which they are registered:
// all have the same files, but each has another URL. On one machine it is replaced
// after its process has ended, so that it follows a change of ADDR.
func samplesURL(ctx context.Context, c config, db *database, baseURL string) (string, error) {
	own := baseURL + samplesPath
	if c.publicURL != "" || c.tls.enabled() {
		return own, nil
	}
	found, err := db.Exports().Find(ctx, sampleDrawings[0].source)
	if err != nil || len(found) == 0 {
		return own, err
	}
	registered := found[0].ExportedURL
	dir, ok := strings.CutSuffix(registered, sampleDrawings[0].file)
	if ok && strings.HasSuffix(dir, samplesPath) && (db.shared || dir == own || serves(ctx, registered, baseURL)) {
		return dir, nil
	}
	return own, nil
}

// serves reports whether another process serves a URL. Hosts other than that of
// baseURL are not asked, since clients choose the URL.
func serves(ctx context.Context, sampleURL, baseURL string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, sampleURL, nil)
	if err != nil {
		return false
	}
	if own, err := url.Parse(baseURL); err != nil || request.URL.Hostname() != own.Hostname() {
		return false
	}
	request.Close = true
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// seed creates the sample data that does not exist yet, as mode selects. The
// sample files are served below samplesURL.
func (s services) seed(ctx context.Context, mode demoMode, samplesURL string) (demo, error) {
	if mode == demoNever {
		return demo{}, nil
	}
	if mode == demoIfNew {
		if isNew, err := s.isNew(ctx); err != nil || !isNew {
			if err == nil {
				err = s.updateSampleURLs(ctx, samplesURL)
			}
			if err != nil {
				return demo{}, err
			}
			return s.findSamples(ctx)
		}
	}
	d := demo{seeded: true}
	var err error
	if d.folderID, err = s.seedSymbols(ctx); err != nil {
		return demo{}, err
	}
	for _, drawing := range sampleDrawings {
		if _, _, err := s.exports.Register(ctx, exports.Registration{
			SourceURL: drawing.source, ExportedURL: samplesURL + drawing.file, FileName: &drawing.name,
		}); err != nil {
			return demo{}, err
		}
	}
	d.clientKey, err = s.seedKey(ctx)
	return d, err
}

// findSamples returns the samples that an earlier start created, or none if some have
// been deleted.
func (s services) findSamples(ctx context.Context) (demo, error) {
	for _, drawing := range sampleDrawings {
		if _, err := s.exports.Find(ctx, drawing.source); err != nil {
			if errors.Is(err, exports.ErrNotFound) {
				err = nil
			}
			return demo{}, err
		}
	}
	id, err := s.findSampleFolder(ctx)
	return demo{seeded: id > 0, folderID: id}, err
}

// findSampleFolder returns the id of the sample folder, or 0 if there is none.
func (s services) findSampleFolder(ctx context.Context) (int64, error) {
	folders, err := s.symbols.ListFolders(ctx, symbols.Range{})
	at := slices.IndexFunc(folders.Folders, func(f symbols.Folder) bool { return f.Name == sampleFolder })
	if err != nil || at < 0 {
		return 0, err
	}
	return folders.Folders[at].ID, nil
}

// isNew reports whether the database has neither keys nor folders.
func (s services) isNew(ctx context.Context) (bool, error) {
	page, err := s.keys.List(ctx, keys.Filter{}, keys.Range{Limit: 1})
	if err != nil || len(page.Keys) > 0 {
		return false, err
	}
	folders, err := s.symbols.ListFolders(ctx, symbols.Range{})
	return len(folders.Folders) == 0, err
}

// updateSampleURLs replaces the URLs of registered samples after the URL of this
// server has changed.
func (s services) updateSampleURLs(ctx context.Context, samplesURL string) error {
	for _, drawing := range sampleDrawings {
		export, err := s.exports.Find(ctx, drawing.source)
		if errors.Is(err, exports.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		url := samplesURL + drawing.file
		if export.ExportedURL == url || !strings.HasSuffix(export.ExportedURL, samplesPath+drawing.file) {
			continue
		}
		if _, _, err := s.exports.Register(ctx, exports.Registration{
			SourceURL: drawing.source, ExportedURL: url, FileName: &export.FileName,
		}); err != nil {
			return err
		}
	}
	return nil
}

// seedSymbols creates the sample folder unless a folder of that name exists. It
// returns the id of the folder.
func (s services) seedSymbols(ctx context.Context) (int64, error) {
	folder, err := s.symbols.CreateFolder(ctx, sampleFolder)
	if errors.Is(err, symbols.ErrFolderNameTaken) {
		return s.findSampleFolder(ctx)
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

// symbolData is the JSON that viewers store as the data of a symbol.
type symbolData struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content string `json:"content"` // base64
	Width   int    `json:"width"`
	Height  int    `json:"height"`
}

// symbolName returns "Gate valve" for "samples/symbols/01-gate-valve.svg".
func symbolName(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".svg")
	name = strings.TrimLeft(name, "0123456789-")
	name = strings.ReplaceAll(name, "-", " ")
	return strings.ToUpper(name[:1]) + name[1:]
}

// seedKey issues the sample key unless a key of that name exists.
func (s services) seedKey(ctx context.Context) (keys.RawKey, error) {
	all, err := s.keys.List(ctx, keys.Filter{}, keys.Range{})
	if err != nil || slices.ContainsFunc(all.Keys, func(k keys.Key) bool { return k.Name == sampleKeyName }) {
		return "", err
	}
	issued, err := s.keys.Create(ctx, keys.Fields{Name: new(sampleKeyName)})
	return issued.Raw, err
}
