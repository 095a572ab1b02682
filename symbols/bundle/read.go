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

// Contents are the symbols of an archive.
type Contents struct {
	Files   []File
	Ignored []FileNote // directories and files that operating systems add
}

// File is a symbol and the path of its file in the archive.
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

// Read reads a bundle written by [Write], or a plain zip of SVG and PNG files.
// Each symbol passes [symbols.NewSymbol.Check]. A bundle may be empty, a plain zip
// must have a symbol. Nil options are the defaults.
//
// The error matches [ErrInvalid] or [ErrTooLarge], or is that of ctx. It is a
// [RejectedError] if some files cannot be imported.
func Read(ctx context.Context, data []byte, options *Options) (*Contents, error) {
	archive, err := openArchive(data, options.withDefaults())
	if err != nil {
		return nil, err
	}
	r := &reader{archive: archive, dataRemaining: archive.options.Limits.Total}
	manifest := r.findManifest()
	count := len(r.entries)
	if manifest != nil {
		count--
	}
	switch {
	case count > r.options.Limits.Entries:
		err = tooManyEntries(r.options.Limits.Entries)
	case manifest != nil:
		err = r.readBundle(ctx, manifest)
	default:
		err = r.readPlain(ctx)
	}
	switch {
	case err != nil:
		return nil, err
	case r.rejected.Count > 0:
		return nil, &r.rejected
	case manifest == nil && len(r.contents.Files) == 0:
		return nil, invalid("nothing in the zip can be imported")
	}
	return &r.contents, nil
}

// MemorySize returns how many bytes of memory [Read] with these options, and then a
// store, need for the contents of an archive. It decompresses nothing. The error
// matches [ErrInvalid] or [ErrTooLarge].
func MemorySize(data []byte, options *Options) (int64, error) {
	archive, err := openArchive(data, options.withDefaults())
	if err != nil {
		return 0, err
	}
	return archive.memorySize(), nil
}

// reader collects the symbols of an archive.
type reader struct {
	*archive
	dataRemaining int64 // bytes of data that symbols may still have
	contents      Contents
	rejected      RejectedError
}

// addSymbol adds the symbol that was read from a file. If err is a fileError or
// the symbol is invalid, it rejects the file and returns nil. Any other error
// is returned and ends Read.
func (r *reader) addSymbol(name string, symbol symbols.NewSymbol, err error) error {
	if reason, ok := errors.AsType[fileError](err); ok {
		r.reject(name, string(reason))
		return nil
	}
	if err != nil {
		return err
	}
	if err := symbol.Check(); err != nil {
		r.reject(name, err.Error())
		return nil
	}
	size := int64(len(symbol.Data))
	if size > r.options.Limits.Symbol {
		return fileTooLarge(name)
	}
	if r.dataRemaining -= size; r.dataRemaining < 0 {
		return tooLarge("the zip is too large: its symbols have too much data")
	}
	if r.options.DryRun {
		symbol.Data = ""
	}
	r.contents.Files = append(r.contents.Files, File{Name: printable(name), Symbol: symbol})
	return nil
}

func (r *reader) reject(name, reason string) {
	if r.rejected.Count++; r.rejected.Count <= maxRejected {
		r.rejected.Files = append(r.rejected.Files, FileNote{printable(name), reason})
	}
}

// skipIfSystemFile reports whether an entry is a directory or a file that an
// operating system has added, and adds it to Contents.Ignored.
func (r *reader) skipIfSystemFile(entry *zip.File) bool {
	reason := ""
	base := baseName(entry.Name)
	switch lower := strings.ToLower(base); {
	case base == "":
		reason = "directory"
	case strings.HasPrefix(base, "._"),
		slices.Contains(strings.Split(entry.Name, "/"), "__MACOSX"),
		slices.Contains([]string{".ds_store", ".directory", "thumbs.db", "ehthumbs.db", "desktop.ini"}, lower):
		reason = "operating system file"
	default:
		return false
	}
	r.contents.Ignored = append(r.contents.Ignored, FileNote{printable(entry.Name), reason})
	return true
}

// readPlain reads each file of a zip without a manifest as an image.
func (r *reader) readPlain(ctx context.Context) error {
	seen := make(map[string]bool, len(r.entries))
	for _, entry := range r.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.skipIfSystemFile(entry) {
			continue
		}
		if seen[entry.Name] {
			r.reject(entry.Name, "more than one file has this name")
			continue
		}
		seen[entry.Name] = true
		symbol, err := r.readImage(entry)
		if err := r.addSymbol(entry.Name, symbol, err); err != nil {
			return err
		}
	}
	return nil
}

// imageData is the JSON form of a symbol's data that viewers write.
type imageData struct {
	Name    string  `json:"name"`
	Type    string  `json:"type"`
	Content []byte  `json:"content"` // base64
	Width   float64 `json:"width"`
	Height  float64 `json:"height"`
}

// readImage returns the symbol for an SVG or PNG file.
func (r *reader) readImage(entry *zip.File) (symbols.NewSymbol, error) {
	if !utf8.ValidString(entry.Name) {
		return symbols.NewSymbol{}, fileError("name is not in UTF-8")
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
		return symbols.NewSymbol{}, fileError("neither SVG nor PNG")
	}
	content, err := r.decompress(entry, r.options.Limits.Symbol)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	width, height, err := sizeOf(content)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	name := strings.TrimSuffix(base, extension)
	// The JSON is not encoded at once, because that takes three times its size.
	before, after, _ := strings.Cut(string(encodeJSON(imageData{name, mimeType, []byte{}, width, height})), `"content":""`)
	data := envelope{before + `"content":"`, `"` + after}.join(content)
	return symbols.NewSymbol{Name: name, Type: mimeType, Data: data}, nil
}

// findManifest returns the manifest of a bundle, which may be in a top-level
// directory, or nil for a plain zip.
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

// readBundle reads the files that a manifest lists.
func (r *reader) readBundle(ctx context.Context, manifest *zip.File) error {
	list, err := r.readManifest(manifest)
	if err != nil {
		return r.addSymbol(manifest.Name, symbols.NewSymbol{}, err)
	}
	unread := make(map[string]*zip.File, len(r.entries)) // nil after reading
	for _, entry := range r.entries {
		if _, seen := unread[entry.Name]; seen || entry != manifest && entry.Name == manifest.Name {
			r.reject(entry.Name, "more than one file has this name")
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
		symbol, err := r.readListed(unread, name, listed)
		if err := r.addSymbol(name, symbol, err); err != nil {
			return err
		}
	}
	for _, entry := range r.entries {
		if unread[entry.Name] == entry && !r.skipIfSystemFile(entry) {
			r.reject(entry.Name, "not listed in "+manifestName)
		}
	}
	return nil
}

// readManifest returns the entries of a manifest.
func (r *reader) readManifest(manifest *zip.File) ([]manifestEntry, error) {
	text, err := r.decompress(manifest, int64(r.options.Limits.Entries+1)*maxManifestEntry)
	if err != nil {
		return nil, err
	}
	list, err := parseManifest(text, r.options.Limits.Entries)
	if err == nil && len(list) > r.options.Limits.Entries {
		err = tooManyEntries(r.options.Limits.Entries)
	}
	return list, err
}

// readListed returns the symbol of a file that a manifest lists. The file must
// have the size and digest in the manifest.
func (r *reader) readListed(unread map[string]*zip.File, name string, listed manifestEntry) (symbols.NewSymbol, error) {
	entry, exists := unread[name]
	switch {
	case !exists:
		return symbols.NewSymbol{}, fileError("listed in " + manifestName + " but not in the zip")
	case entry == nil:
		return symbols.NewSymbol{}, fileError("listed more than once in " + manifestName)
	}
	unread[name] = nil
	file, err := r.decompress(entry, r.options.Limits.Symbol)
	if err != nil {
		return symbols.NewSymbol{}, err
	}
	digest := sha256.Sum256(file)
	switch {
	case int64(len(file)) != listed.Size:
		return symbols.NewSymbol{}, fileError("changed: size differs from " + manifestName)
	case hex.EncodeToString(digest[:]) != listed.SHA256:
		return symbols.NewSymbol{}, fileError("changed: SHA-256 differs from " + manifestName)
	}
	return symbols.NewSymbol{Name: listed.Name, Type: listed.Type, Data: listed.join(file)}, nil
}

// baseName returns the last element of a path. Some programs separate elements
// with a backslash.
func baseName(name string) string {
	return name[strings.LastIndexAny(name, `/\`)+1:]
}

// printable returns name with invalid UTF-8 replaced.
func printable(name string) string { return strings.ToValidUTF8(name, "\ufffd") }
