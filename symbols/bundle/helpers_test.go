package bundle_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/storage/testflag"
	"example.com/canvasback/symbols"
	"example.com/canvasback/symbols/bundle"
)

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

// errorOf returns the error of a call that has a result too.
func errorOf[T any](_ T, err error) error { return err }

func readError(t testing.TB, data []byte, options *bundle.Options) error {
	return errorOf(bundle.Read(t.Context(), data, options))
}

// file is a file of a test archive. The function alter, if not nil, changes its
// header.
type file struct {
	name    string
	content string
	alter   func(*zip.FileHeader)
}

// zipOf returns a zip of stored files.
func zipOf(t testing.TB, files ...file) []byte {
	t.Helper()
	is := is.New(t)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{
			Name:               f.name,
			CRC32:              crcOf(f.content),
			CompressedSize64:   uint64(len(f.content)),
			UncompressedSize64: uint64(len(f.content)),
		}
		if f.alter != nil {
			f.alter(header)
		}
		w := must(z.CreateRaw(header))(t)
		must(io.WriteString(w, f.content))(t)
	}
	is.NoErr(z.Close())
	return out.Bytes()
}

func unzip(t testing.TB, archive []byte) []file {
	t.Helper()
	z := must(zip.NewReader(bytes.NewReader(archive), int64(len(archive))))(t)
	var files []file
	for _, entry := range z.File {
		r := must(entry.Open())(t)
		content := must(io.ReadAll(r))(t)
		files = append(files, file{name: entry.Name, content: string(content)})
	}
	return files
}

// writeBundle returns a bundle of symbols, written in pages of three.
func writeBundle(t testing.TB, folder string, list ...symbols.NewSymbol) []byte {
	t.Helper()
	var out bytes.Buffer
	is.New(t).NoErr(bundle.Write(&out, folder, pagesOf(list, 3)))
	return out.Bytes()
}

// pagesOf returns symbols in pages, as a service does.
func pagesOf(list []symbols.NewSymbol, size int) func(int64) (symbols.Page, error) {
	return func(after int64) (symbols.Page, error) {
		rest := list[after:]
		page := symbols.Page{More: len(rest) > size}
		for i, s := range rest[:min(len(rest), size)] {
			page.Symbols = append(page.Symbols, symbols.Symbol{
				ID: after + int64(i) + 1, Name: s.Name, Type: s.Type, Data: s.Data, Tags: s.Tags, Meta: s.Meta,
			})
		}
		return page, nil
	}
}

// viewerData returns data in the JSON form that viewers write.
func viewerData(name, mimeType, content string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"content":"%s","width":96,"height":96}`,
		name, mimeType, base64.StdEncoding.EncodeToString([]byte(content)))
}

const drawing = `<svg xmlns="http://www.w3.org/2000/svg" width="96" height="48"><path d="M0 0h96"/><path d="M0 9h96"/><path d="M0 18h96"/></svg>`

func pngOf(t testing.TB, width, height int) string {
	t.Helper()
	var out bytes.Buffer
	is.New(t).NoErr(png.Encode(&out, image.NewGray(image.Rect(0, 0, width, height))))
	return out.String()
}
