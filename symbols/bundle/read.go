package bundle

import (
	"archive/zip"
	"context"
	"errors"
	"slices"
	"strings"

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
