package bundle

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"example.com/canvasback/symbols"
)

// Contents are what an archive holds.
type Contents struct {
	Files   []File
	Ignored []Remark // files of which no symbol can have been meant
}

// File is a symbol and the name of its file in the archive.
type File struct {
	Name   string
	Symbol symbols.NewSymbol
}

// Symbols returns the symbols of the files, for
// [symbols.Service.CreateSymbols].
func (c *Contents) Symbols() []symbols.NewSymbol {
	list := make([]symbols.NewSymbol, len(c.Files))
	for i, file := range c.Files {
		list[i] = file.Symbol
	}
	return list
}

// Read reads a zip that [Write] has made, or a plain one of SVG and PNG files.
// It returns at least one symbol, and only such as a [symbols.Service] takes;
// nil limits are the defaults.
//
// The error matches [ErrInvalid] if the archive or any file of it is unusable,
// a [RefusedError] in the latter case; it matches [ErrTooLarge] beyond the
// limits, or is that of ctx.
func Read(ctx context.Context, data []byte, limits *Limits) (*Contents, error) {
	archive, err := openArchive(data, limits.orDefaults())
	if err != nil {
		return nil, err
	}
	r := &reader{archive: archive, dataLeft: archive.limits.Total}
	manifest := r.findManifest()
	count := len(r.entries)
	if manifest != nil {
		count--
	}
	switch {
	case count > r.limits.Entries:
		err = tooManyEntries(r.limits.Entries)
	case manifest != nil:
		err = r.readBundle(ctx, manifest)
	default:
		err = r.readPlain(ctx)
	}
	switch {
	case err != nil:
		return nil, err
	case r.refused.Count > 0:
		return nil, &r.refused
	case len(r.contents.Files) == 0:
		return nil, invalid("nothing in the zip can be imported")
	}
	return &r.contents, nil
}

// reader reads the symbols of an archive.
type reader struct {
	*archive
	dataLeft int64 // bytes that symbols may still have
	contents Contents
	refused  RefusedError
}

// take adds the symbol of a file, or refuses the file. Any other error ends
// the reading.
func (r *reader) take(name string, symbol symbols.NewSymbol, err error) error {
	if reason, ok := errors.AsType[refusal](err); ok {
		r.refuse(name, string(reason))
		return nil
	}
	if err != nil {
		return err
	}
	if err := symbol.Check(); err != nil {
		r.refuse(name, err.Error())
		return nil
	}
	size := int64(len(symbol.Data))
	if size > r.limits.Symbol {
		return fileTooLarge(name)
	}
	if r.dataLeft -= size; r.dataLeft < 0 {
		return tooLarge("the zip is too large: its symbols have too much data")
	}
	r.contents.Files = append(r.contents.Files, File{Name: printable(name), Symbol: symbol})
	return nil
}

func (r *reader) refuse(name, reason string) {
	if r.refused.Count++; r.refused.Count <= maxRefused {
		r.refused.Refused = append(r.refused.Refused, Remark{printable(name), reason})
	}
}

// ignores notes an entry of which no symbol can have been meant.
func (r *reader) ignores(entry *zip.File) bool {
	reason := ""
	base := baseName(entry.Name)
	switch folded := strings.ToLower(base); {
	case base == "":
		reason = "directory"
	case strings.HasPrefix(base, "._"),
		slices.Contains(strings.Split(entry.Name, "/"), "__MACOSX"),
		slices.Contains([]string{".ds_store", ".directory", "thumbs.db", "ehthumbs.db", "desktop.ini"}, folded):
		reason = "made by an operating system for itself"
	default:
		return false
	}
	r.contents.Ignored = append(r.contents.Ignored, Remark{printable(entry.Name), reason})
	return true
}

// baseName is the part of a path behind its last separator, which some
// programs write as a backslash.
func baseName(name string) string {
	return name[strings.LastIndexAny(name, `/\`)+1:]
}

// printable is a name as it can be shown.
func printable(name string) string { return strings.ToValidUTF8(name, "\ufffd") }

// imageData is the data of a symbol that is made of an image, as viewers write
// it.
type imageData struct {
	Name    string  `json:"name"`
	Type    string  `json:"type"`
	Content []byte  `json:"content"` // in base64
	Width   float64 `json:"width"`
	Height  float64 `json:"height"`
}

// readPlain makes a symbol of every file.
func (r *reader) readPlain(ctx context.Context) error {
	read := make(map[string]bool, len(r.entries))
	for _, entry := range r.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.ignores(entry) {
			continue
		}
		if read[entry.Name] {
			r.refuse(entry.Name, "more than one file has this name")
			continue
		}
		read[entry.Name] = true
		symbol, err := r.image(entry)
		if err := r.take(entry.Name, symbol, err); err != nil {
			return err
		}
	}
	return nil
}

// image makes a symbol of an SVG or PNG file.
func (r *reader) image(entry *zip.File) (symbols.NewSymbol, error) {
	if !utf8.ValidString(entry.Name) {
		return symbols.NewSymbol{}, refusal("name is not in UTF-8")
	}
	base := baseName(entry.Name)
	extension := path.Ext(base)
	mimeType, sizeOf := "", pngSize
	switch strings.ToLower(extension) {
	case ".png":
		mimeType = "image/png"
	case ".svg":
		mimeType, sizeOf = "image/svg+xml", svgSize
	default:
		return symbols.NewSymbol{}, refusal("neither SVG nor PNG")
	}
	content, err := r.expand(entry, r.limits.Symbol)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	width, height, err := sizeOf(content)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	name := strings.TrimSuffix(base, extension)
	data := encode(imageData{name, mimeType, content, width, height})
	return symbols.NewSymbol{Name: name, Type: mimeType, Data: string(data)}, nil
}

// findManifest returns the manifest of a bundle, or nil for a plain zip.
func (r *reader) findManifest() *zip.File {
	var inDirectory *zip.File
	for _, entry := range r.entries {
		directory, base := path.Split(entry.Name)
		switch {
		case base != manifestName:
		case directory == "":
			return entry
		case inDirectory == nil && strings.Count(directory, "/") == 1:
			inDirectory = entry
		}
	}
	return inDirectory
}

// readBundle takes the files that a manifest lists.
func (r *reader) readBundle(ctx context.Context, manifest *zip.File) error {
	list, err := r.listOf(manifest)
	if err != nil {
		return r.take(manifest.Name, symbols.NewSymbol{}, err)
	}
	unread := make(map[string]*zip.File, len(r.entries)) // nil once they are read
	for _, entry := range r.entries {
		if _, known := unread[entry.Name]; known || entry != manifest && entry.Name == manifest.Name {
			r.refuse(entry.Name, "more than one file has this name")
		} else if entry != manifest {
			unread[entry.Name] = entry
		}
	}
	directory := strings.TrimSuffix(manifest.Name, manifestName)
	for _, listed := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := directory + listed.File
		symbol, err := r.listed(unread, name, listed)
		if err := r.take(name, symbol, err); err != nil {
			return err
		}
	}
	for _, entry := range r.entries {
		if unread[entry.Name] == entry && !r.ignores(entry) {
			r.refuse(entry.Name, "not listed in "+manifestName)
		}
	}
	return nil
}

// listOf returns the list of a manifest.
func (r *reader) listOf(manifest *zip.File) ([]manifestSymbol, error) {
	text, err := r.expand(manifest, int64(r.limits.Entries+1)*maxManifest)
	if err != nil {
		return nil, err
	}
	list, err := readManifest(text, r.limits.Entries)
	if err == nil && len(list) > r.limits.Entries {
		err = tooManyEntries(r.limits.Entries)
	}
	return list, err
}

// listed returns the symbol of a file if that is as the manifest says.
func (r *reader) listed(unread map[string]*zip.File, name string, listed manifestSymbol) (symbols.NewSymbol, error) {
	entry, known := unread[name]
	switch {
	case !known:
		return symbols.NewSymbol{}, refusal("not in the zip, but listed in " + manifestName)
	case entry == nil:
		return symbols.NewSymbol{}, refusal("listed more than once in " + manifestName)
	}
	unread[name] = nil
	file, err := r.expand(entry, r.limits.Symbol)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	digest := sha256.Sum256(file)
	switch {
	case int64(len(file)) != listed.Size:
		return symbols.NewSymbol{}, refusal("changed: its size is not the one in " + manifestName)
	case hex.EncodeToString(digest[:]) != listed.SHA256:
		return symbols.NewSymbol{}, refusal("changed: its SHA-256 is not the one in " + manifestName)
	}
	return symbols.NewSymbol{Name: listed.Name, Type: listed.Type, Data: string(listed.around(file))}, nil
}
