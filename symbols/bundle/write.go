package bundle

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strings"

	"example.com/canvasback/exports/filename"
	"example.com/canvasback/symbols"
)

const (
	pieceSize = 256 << 10 // of what is written at once

	// A reader may take for a bomb what expands too far. A file that shrinks
	// to less than this part of its size is stored.
	leastPart = 100

	firstDay = 1<<5 | 1 // the first of January 1980, where time begins for zips
	flagUTF8 = 1 << 11  // of an entry's name
)

// Write writes the symbols of a folder to w as a bundle, page by page as they
// are read. The function pages returns the first symbols with ids above after,
// as [symbols.Service.ListSymbols] does. A symbol that is added or removed
// meanwhile may be in the bundle or not.
//
// Memory is needed for a page, some copies of its largest symbol, and a few
// hundred bytes for each symbol of the folder. An error, which is that of w or
// of pages, means that the bundle is torn.
func Write(w io.Writer, folder string, pages func(after int64) (symbols.Page, error)) error {
	b := &writer{
		zip:      zip.NewWriter(w),
		names:    filename.NewSet(manifestName),
		file:     newPacked(),
		manifest: newPacked(),
	}
	fmt.Fprintf(b.manifest, `{"format":"%s","version":%d,"folder":%s,"symbols":[`, formatName, formatVersion, encode(folder))
	for after, more := int64(0), true; more; {
		page, err := pages(after)
		if err != nil {
			return err
		}
		for _, symbol := range page.Symbols {
			if err := b.add(symbol); err != nil {
				return err
			}
			after = symbol.ID
		}
		more = page.More
	}
	return b.close()
}

// writer writes a bundle.
type writer struct {
	zip      *zip.Writer
	names    *filename.Set
	count    int
	file     *packed // the one that is being written
	manifest *packed // as far as it goes
}

// add writes the file of a symbol and notes it in the manifest.
func (b *writer) add(symbol symbols.Symbol) error {
	parts, file := takeApart(symbol.Data)
	digest := sha256.Sum256(file)
	name := b.names.Unique(entryName(symbol, parts.empty()))
	separator := "\n"
	if b.count > 0 {
		separator = ",\n"
	}
	b.count++
	fmt.Fprintf(b.manifest, "%s%s", separator, encode(manifestSymbol{
		File:   name,
		Name:   symbol.Name,
		Type:   symbol.Type,
		Size:   int64(len(file)),
		SHA256: hex.EncodeToString(digest[:]),
		parts:  parts,
	}))

	b.file.reset()
	b.file.Write(file)
	b.file.end()
	if n := b.file.buffer.Len(); n < len(file) && n >= len(file)/leastPart {
		return b.entry(name, zip.Deflate, b.file, b.file.buffer.Bytes())
	}
	return b.entry(name, zip.Store, b.file, file)
}

// close writes the manifest and the end of the zip.
func (b *writer) close() error {
	fmt.Fprint(b.manifest, "\n]}\n")
	b.manifest.end()
	if err := b.entry(manifestName, zip.Deflate, b.manifest, b.manifest.buffer.Bytes()); err != nil {
		return err
	}
	return b.zip.Close()
}

// entry writes an entry behind a complete header.
func (b *writer) entry(name string, method uint16, content *packed, body []byte) error {
	header := &zip.FileHeader{
		Name:               name,
		Flags:              flagUTF8,
		Method:             method,
		ReaderVersion:      20, // with deflate
		CRC32:              content.crc,
		CompressedSize64:   uint64(len(body)),
		UncompressedSize64: content.size,
	}
	header.SetMode(0o644)
	header.ModifiedDate = firstDay //lint:ignore SA1019 of a raw entry this is what is written
	w, err := b.zip.CreateRaw(header)
	if err != nil {
		return err
	}
	// A writer to a slow client has a deadline for each piece.
	for piece := range slices.Chunk(body, pieceSize) {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

const (
	fallbackName = "symbol"

	// maxStem leaves room for an extension and a number. Were names cut to
	// make room for a number, many could be cut to the same.
	maxStem = 200
)

// entryName is the name of a symbol's file, clean but not unique.
func entryName(symbol symbols.Symbol, isData bool) string {
	name := filename.Clean(symbol.Name)
	if len(name) > maxStem {
		name = filename.Clean(name[:maxStem])
	}
	if name == "" {
		name = fallbackName
	}
	extension := filename.Extension(symbol.Type)
	if isData {
		extension = textExtension(symbol)
	}
	if strings.EqualFold(path.Ext(name), extension) {
		return name
	}
	return name + extension
}

// textExtension is an extension for a symbol's data as it is. The symbol's type
// is often that of something in it.
func textExtension(symbol symbols.Symbol) string {
	extension := filename.Extension(symbol.Type)
	switch {
	case strings.HasPrefix(symbol.Data, "{") && json.Valid([]byte(symbol.Data)):
		return ".json"
	case strings.HasPrefix(symbol.Data, "<") && slices.Contains([]string{".svg", ".xml", ".html"}, extension):
		return extension
	}
	return ".txt"
}

// packed is the content of an entry, deflated in memory as it is written.
type packed struct {
	buffer  bytes.Buffer
	size    uint64 // of what was written
	crc     uint32 // of that
	deflate *flate.Writer
}

func newPacked() *packed {
	p := &packed{}
	var err error
	if p.deflate, err = flate.NewWriter(&p.buffer, flate.DefaultCompression); err != nil {
		panic(err) // the level is a constant
	}
	return p
}

// Write implements [io.Writer]. It never fails.
func (p *packed) Write(text []byte) (int, error) {
	p.size += uint64(len(text))
	p.crc = crc32.Update(p.crc, crc32.IEEETable, text)
	return p.deflate.Write(text)
}

// end completes what is in the buffer.
func (p *packed) end() { p.deflate.Close() }

// reset begins another content.
func (p *packed) reset() {
	const kept = 1 << 20
	if p.buffer.Cap() > kept {
		p.buffer = bytes.Buffer{} // few files are so large
	}
	p.buffer.Reset()
	p.deflate.Reset(&p.buffer)
	p.size, p.crc = 0, 0
}
