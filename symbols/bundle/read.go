package bundle

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/picture"
)

// Contents are the symbols of an archive.
type Contents struct {
	Files   []File
	Ignored []FileNote // directories, documentation, hidden icons, and files that operating systems add
	Skipped []FileNote // files that cannot be imported, with [Options.Skip]
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

// Read reads a bundle written by [Write], a draw.io library, an icon set in the JSON of
// Iconify, a picture (SVG, PNG, JPEG, GIF or WebP), or a zip of any of the last three.
// Each symbol passes [symbols.NewSymbol.Check]. A bundle may be empty, a plain zip
// must have a symbol unless [Options.Skip] is set. Nil options are the defaults.
//
// The error matches [ErrInvalid] or [ErrTooLarge], or is that of ctx, which is checked for
// each file of a zip. It is a [RejectedError] if some files cannot be imported.
func Read(ctx context.Context, data []byte, options *Options) (*Contents, error) {
	archive, err := openArchive(data, options.withDefaults())
	if err != nil {
		return nil, err
	}
	r := &reader{archive: archive, dataRemaining: min(archive.options.Limits.Total, archive.memorySize(false)+freeData)}
	if isZip(data) {
		err = r.readZip(ctx)
	} else {
		err = r.readUnpacked(data)
	}
	switch {
	case err != nil:
		return nil, err
	case r.rejected.Count > 0:
		return nil, &r.rejected
	}
	return &r.contents, nil
}

func isZip(data []byte) bool { return bytes.HasPrefix(data, []byte("PK")) }

// MemorySize returns how many bytes of memory [Read] with these options, and then a
// store, need for the contents of an archive. It decompresses nothing. The error
// matches [ErrInvalid] or [ErrTooLarge].
func MemorySize(data []byte, options *Options) (int64, error) {
	archive, err := openArchive(data, options.withDefaults())
	if err != nil {
		return 0, err
	}
	return archive.memorySize(archive.options.DryRun), nil
}

// reader collects the symbols of an archive.
type reader struct {
	*archive
	dataRemaining int64 // bytes that the contents may still have
	contents      Contents
	rejected      RejectedError
	listed        bool // by a manifest
}

// addSymbol adds the symbol that was read from a file. If err is a fileError or
// the symbol is invalid, it rejects the file and returns nil. Any other error
// is returned and ends Read.
func (r *reader) addSymbol(name string, symbol symbols.NewSymbol, err error) error {
	if err := r.checkEntries(); err != nil {
		return err
	}
	size := int64(len(symbol.Data))
	if size > r.options.Limits.Symbol {
		err = r.fileTooLarge(name)
	}
	if err == nil {
		err = symbol.Check()
	}
	if _, ok := errors.AsType[fileError](err); ok || errors.Is(err, symbols.ErrInvalid) {
		r.reject(name, err.Error())
		return r.charge(int64(len(name)))
	}
	if err != nil {
		return err
	}
	if err := r.charge(size + int64(len(symbol.Meta)+len(symbol.Tags.String()))); err != nil {
		return err
	}
	if r.options.DryRun {
		symbol.Data = ""
	}
	r.contents.Files = append(r.contents.Files, File{Name: printable(name), Symbol: symbol})
	return nil
}

// charge counts n bytes of the contents. What an archive has once, such as a path or an
// author, each symbol may repeat.
func (r *reader) charge(n int64) error {
	if r.dataRemaining -= n; r.dataRemaining < 0 {
		return tooLarge("too large: the symbols have too much data")
	}
	return nil
}

// checkEntries returns an error if there may be no further entry.
func (r *reader) checkEntries() error {
	limit := r.options.Limits.Entries
	if len(r.contents.Files)+len(r.contents.Ignored)+len(r.contents.Skipped)+r.rejected.Count >= limit {
		return tooManyEntries(limit)
	}
	return nil
}

func (r *reader) reject(name, reason string) {
	if r.options.Skip {
		r.contents.Skipped = append(r.contents.Skipped, FileNote{printable(name), reason})
		return
	}
	if r.rejected.Count++; r.rejected.Count <= maxRejected {
		r.rejected.Files = append(r.rejected.Files, FileNote{printable(name), reason})
	}
}

// skipIfSystemFile reports whether an entry is a directory, documentation, or a file that
// an operating system has added, and adds it to Contents.Ignored.
func (r *reader) skipIfSystemFile(name string) bool {
	reason := ""
	folders, base := splitPath(name)
	lower := strings.ToLower(base)
	extension := path.Ext(lower)
	_, importable := pictureTypes[extension]
	importable = importable || extension == ".xml" || extension == ".json"
	switch {
	case base == "":
		reason = "directory"
	case strings.HasPrefix(base, "._"), slices.Contains(folders, "__MACOSX"),
		slices.Contains([]string{".ds_store", ".directory", "icon\r", "thumbs.db", "ehthumbs.db", "desktop.ini"}, lower):
		reason = "operating system file"
	case r.listed:
		return false
	case strings.HasSuffix(lower, ".md"), strings.HasSuffix(lower, ".txt"), !importable &&
		(strings.HasPrefix(lower, "readme") || strings.HasPrefix(lower, "license") || strings.HasPrefix(lower, "copying")):
		reason = "documentation"
	default:
		return false
	}
	r.contents.Ignored = append(r.contents.Ignored, FileNote{printable(name), reason})
	return true
}

func (r *reader) readZip(ctx context.Context) error {
	manifest := r.findManifest()
	r.listed = manifest != nil
	switch count, limit := len(r.entries), r.options.Limits.Entries; {
	case count > limit+1, count > limit && !r.listed:
		return tooManyEntries(limit)
	case r.listed:
		return r.readBundle(ctx, manifest)
	}
	return r.readPlain(ctx)
}

// readPlain reads each file of a zip without a manifest as a picture or a library.
func (r *reader) readPlain(ctx context.Context) error {
	seen := make(map[string]bool, len(r.entries))
	for _, entry := range r.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := entry.Name
		if r.skipIfSystemFile(name) {
			continue
		}
		var content []byte
		var err error
		switch {
		case seen[name]:
			err = fileError("more than one file has this name")
		case !utf8.ValidString(name):
			err = fileError("name is not in UTF-8")
		default:
			content, err = r.decompress(entry, r.options.Limits.Symbol)
		}
		seen[name] = true
		if err := r.readFile(name, content, err); err != nil {
			return err
		}
	}
	if len(r.contents.Files) == 0 && r.rejected.Count == 0 && !r.options.Skip {
		return invalid("nothing in the zip can be imported")
	}
	return nil
}

// readFile adds the symbols of a file in a zip, which the error says nothing against: a
// picture, or a library. The folders that it is in become tags.
func (r *reader) readFile(name string, content []byte, err error) error {
	folders, base := splitPath(name)
	folders = distinct(folders) // once for all symbols of a library
	mimeType, isPicture := pictureTypes[strings.ToLower(path.Ext(base))]
	switch {
	case err != nil:
	case isPicture:
		return r.addPicture(name, image{name: stem(base), mimeType: mimeType, content: content, tags: folders}, nil)
	case isDrawio(content):
		return r.readDrawio(name, content, folders)
	case beginsWith(content, "{"):
		return r.readIconify(name, content, folders)
	default:
		err = fileError("neither a picture nor a library")
	}
	return r.addSymbol(name, symbols.NewSymbol{}, err)
}

// readUnpacked adds the symbols of a picture or a library. What is neither is not a zip
// either.
func (r *reader) readUnpacked(content []byte) error {
	switch mimeType, _ := picture.Sniff(content); {
	case isDrawio(content):
		return r.readDrawio("", content, nil)
	case beginsWith(content, "{"):
		return r.readIconify("", content, nil)
	case mimeType != "":
		name := cmp.Or(r.options.Name, "symbol")
		return r.addPicture(name, image{name: name, content: content}, nil)
	}
	return invalid("the archive is not a zip, a library or a picture")
}

// addPicture adds the symbol of a picture that was read from a file, as addSymbol does.
func (r *reader) addPicture(file string, picture image, err error) error {
	var symbol symbols.NewSymbol
	if err == nil {
		symbol, err = picture.symbol()
	}
	return r.addSymbol(file, symbol, err)
}

// beginsWith reports whether content begins with text after white space.
func beginsWith(content []byte, text string) bool {
	return bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n\ufeff"), []byte(text))
}

// splitPath returns the folders and the last element of a path.
func splitPath(name string) (folders []string, base string) {
	directory, base := path.Split(name)
	return slices.DeleteFunc(strings.Split(directory, "/"), func(folder string) bool {
		return folder == "" || folder == "." || folder == ".."
	}), base
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
	if _, ok := errors.AsType[fileError](err); ok && r.options.Skip { // it may be that of another program
		r.listed = false
		return r.readPlain(ctx)
	}
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
		name := directory + normalPath(listed.File)
		symbol, err := r.readListed(unread, name, listed)
		if err := r.addSymbol(name, symbol, err); err != nil {
			return err
		}
	}
	for _, entry := range r.entries {
		if unread[entry.Name] == entry && !r.skipIfSystemFile(entry.Name) {
			r.reject(entry.Name, "not listed in "+manifestName)
		}
	}
	return nil
}

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
	symbol := symbols.NewSymbol{Name: listed.Name, Type: listed.Type, Data: listed.join(file)}
	if symbol.Tags, err = symbols.NewTags(listed.Tags...); err == nil && listed.Meta != nil {
		symbol.Meta, err = symbols.ParseMeta(listed.Meta)
	}
	if err != nil {
		return symbols.NewSymbol{}, fileError(err.Error())
	}
	return symbol, nil
}
