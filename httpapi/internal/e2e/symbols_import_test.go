package e2e_test

import (
	"archive/zip"
	"bytes"
	"io"
	"testing"

	"github.com/matryer/is"
)

// archive makes a zip of files, given as pairs of name and content.
func archive(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		file, err := writer.Create(files[i])
		if err == nil {
			_, err = io.WriteString(file, files[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBundle_isImportedAfterALook(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSite(t)
	s.listen(s.handler(unprotected))
	folder := s.folder("Valves", "Gate valve")
	b := open(t, s.url+"#/symbols")
	b.sees("1 symbol")
	const chooser = `document.querySelector("input[type=file]:not([multiple])")`

	b.choose(chooser, b.write("more.zip", archive(t, "set/Ball valve.svg", drawing, "Check valve.svg", drawing, "__MACOSX/._x", "x")))
	b.sees("2 symbols will be added to Valves. Existing symbols are kept.")
	b.sees("__MACOSX/._x")
	b.sees("operating system file")
	is.Equal(len(s.in(folder.ID)), 1) // so far
	b.wait(`e2e.name(document.activeElement) === "Import 2 symbols"`)
	b.press("Cancel")
	b.wait(`!document.querySelector("dialog")`)
	is.Equal(len(s.in(folder.ID)), 1)

	b.choose(chooser, b.write("more.zip", archive(t, "set/Ball valve.svg", drawing, "Check valve.svg", drawing)))
	b.press("Import 2 symbols")
	b.sees("2 symbols imported into Valves.")
	b.sees("3 symbols")
	b.wait(`e2e.button("Check valve")`)
	is.Equal(len(s.in(folder.ID)), 3)

	b.choose(chooser, b.write("bad.zip", archive(t, "empty.svg", "", "Good.svg", drawing)))
	b.sees("1 file of the zip cannot be imported")
	b.sees("Rejected files")
	b.sees("broken SVG: it is not well-formed XML")
	b.press("Close")
	b.choose(chooser, b.write("no.zip", []byte("no archive")))
	b.sees("The archive is not a zip.")
	b.press("Close")
	b.choose(chooser, b.write("nothing.zip", archive(t, "__MACOSX/._x", "x")))
	b.sees("Nothing in the zip can be imported.")
	b.press("Close")
	is.Equal(len(s.in(folder.ID)), 3)
}

func TestBundle_isExported(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSite(t)
	s.listen(s.handler(unprotected))
	s.folder("Valves ä", "Gate valve", "Ball valve")
	b := open(t, s.url+"#/symbols")
	b.sees("2 symbols")
	b.press("Folder actions")
	b.press("Export as zip")
	b.sees("Valves ä.zip is in your downloads.")
	content := b.downloaded("Valves ä.zip")
	reader, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	is.NoErr(err)
	is.Equal(len(reader.File), 3) // two files and the manifest
}
