package bundle

import (
	"archive/zip"
	"bytes"
	"cmp"
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
	chunkSize = 256 << 10 // bytes per Write call

	// maxRatio is the compression ratio above which a file is stored instead,
	// because readers may reject it as a zip bomb.
	maxRatio = 100

	dosEpoch = 1<<5 | 1 // January 1, 1980: the earliest date of a zip entry
	flagUTF8 = 1 << 11  // the name is in UTF-8
)

// Write writes the symbols of a folder to w as a bundle, page by page. The
// function pages returns the first symbols with ids above after, as
// [symbols.Service.ListSymbols] does. A symbol that is added or removed during
// the call may or may not be in the bundle.
//
// Write needs memory for a page, some copies of its largest symbol, and a few
// hundred bytes per symbol of the folder. It returns the first error of w or
// pages; the bundle is then incomplete.
func Write(w io.Writer, folder string, pages func(after int64) (symbols.Page, error)) error {
	b := &writer{
		zip:       zip.NewWriter(w),
		names:     filename.NewDedup(manifestName),
		file:      newDeflateBuffer(),
		manifest:  newDeflateBuffer(),
		separator: "\n",
	}
	fmt.Fprintf(b.manifest, `{"format":"%s","version":%d,"folder":%s,"symbols":[`, formatName, formatVersion, encodeJSON(folder))
	if err := each(pages, b.addSymbol); err != nil {
		return err
	}
	fmt.Fprint(b.manifest, "\n]}\n")
	b.manifest.deflate.Close()
	if err := b.writeEntry(manifestName, zip.Deflate, b.manifest, b.manifest.out.Bytes()); err != nil {
		return err
	}
	return b.zip.Close()
}

func each(pages func(after int64) (symbols.Page, error), write func(symbols.Symbol) error) error {
	for after, more := int64(0), true; more; {
		page, err := pages(after)
		if err != nil {
			return err
		}
		for _, symbol := range page.Symbols {
			if symbol.ID <= after {
				return fmt.Errorf("bundle: the page after symbol %d has symbol %d", after, symbol.ID)
			}
			if err := write(symbol); err != nil {
				return err
			}
			after = symbol.ID
		}
		more = page.More
	}
	return nil
}

type writer struct {
	zip       *zip.Writer
	names     *filename.Dedup
	file      *deflateBuffer // reused for each file
	manifest  *deflateBuffer // complete up to the current symbol
	separator string         // before the next symbol of the manifest
}

// addSymbol writes the file of a symbol and its manifest entry.
func (b *writer) addSymbol(symbol symbols.Symbol) error {
	if symbol.Meta != "" && !json.Valid([]byte(symbol.Meta)) {
		return fmt.Errorf("bundle: the meta of symbol %d is not JSON", symbol.ID)
	}
	envelope, file := splitData(symbol.Data)
	digest := sha256.Sum256(file)
	name := b.names.Unique("", entryName(symbol, envelope.empty()))
	fmt.Fprintf(b.manifest, "%s%s", b.separator, encodeJSON(manifestEntry{
		File:     name,
		Name:     symbol.Name,
		Type:     symbol.Type,
		Size:     int64(len(file)),
		SHA256:   hex.EncodeToString(digest[:]),
		envelope: envelope,
		Tags:     symbol.Tags.List(),
		Meta:     json.RawMessage(symbol.Meta),
	}))
	b.separator = ",\n"

	const maxKept = 1 << 20
	if b.file.out.Cap() > maxKept {
		b.file.out = bytes.Buffer{} // do not keep the memory of one large file
	}
	b.file.out.Reset()
	b.file.deflate.Reset(&b.file.out)
	b.file.size, b.file.crc = 0, 0
	b.file.Write(file)
	b.file.deflate.Close()
	if n := b.file.out.Len(); n < len(file) && n >= len(file)/maxRatio {
		return b.writeEntry(name, zip.Deflate, b.file, b.file.out.Bytes())
	}
	return b.writeEntry(name, zip.Store, b.file, file)
}

// writeEntry writes an entry whose local header has its sizes and CRC-32.
func (b *writer) writeEntry(name string, method uint16, content *deflateBuffer, body []byte) error {
	header := &zip.FileHeader{
		Name:               name,
		Flags:              flagUTF8,
		Method:             method,
		ReaderVersion:      20, // supports deflate
		CRC32:              content.crc,
		CompressedSize64:   uint64(len(body)),
		UncompressedSize64: content.size,
	}
	header.SetMode(0o644)
	header.ModifiedDate = dosEpoch //nolint:staticcheck // CreateRaw writes this field, not Modified
	w, err := b.zip.CreateRaw(header)
	if err != nil {
		return err
	}
	// A writer to a slow client extends its deadline once per Write call.
	for chunk := range slices.Chunk(body, chunkSize) {
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// entryName returns a clean name for a symbol's file. It need not be unique.
func entryName(symbol symbols.Symbol, isData bool) string {
	// This leaves room for an extension and a counter. If Unique had to truncate names,
	// many could become equal.
	const maxStem = 200
	name := filename.Clean(symbol.Name)
	if len(name) > maxStem {
		name = filename.Clean(name[:maxStem])
	}
	name = cmp.Or(name, "symbol")
	extension := filename.Extension(symbol.Type)
	switch { // the type often describes the image within the data
	case !isData:
	case strings.HasPrefix(symbol.Data, "{") && json.Valid([]byte(symbol.Data)):
		extension = ".json"
	case !strings.HasPrefix(symbol.Data, "<") || !slices.Contains([]string{".svg", ".xml", ".html"}, extension):
		extension = ".txt"
	}
	if strings.EqualFold(path.Ext(name), extension) {
		return name
	}
	return name + extension
}

// deflateBuffer compresses the content of an entry in memory.
type deflateBuffer struct {
	out     bytes.Buffer
	size    uint64 // of the content
	crc     uint32 // of the content
	deflate *flate.Writer
}

func newDeflateBuffer() *deflateBuffer {
	d := new(deflateBuffer)
	d.deflate, _ = flate.NewWriter(&d.out, flate.DefaultCompression) // fails only for an invalid level
	return d
}

// Write implements [io.Writer]. It never fails.
func (d *deflateBuffer) Write(p []byte) (int, error) {
	d.size += uint64(len(p))
	d.crc = crc32.Update(d.crc, crc32.IEEETable, p)
	return d.deflate.Write(p)
}
