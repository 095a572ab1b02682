package e2e_test

import (
	"archive/zip"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// archive returns a zip of files, given as pairs of name and content.
func archive(t *testing.T, files ...string) []byte {
	t.Helper()
	is := is.New(t)
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		file, err := writer.Create(files[i])
		if err == nil {
			_, err = io.WriteString(file, files[i+1])
		}
		is.NoErr(err)
	}
	is.NoErr(writer.Close())
	return out.Bytes()
}

func TestSymbols_ImportShowsDryRunFirst(t *testing.T) {
	s, b := openValves(t, "Gate valve")
	const chooser = `document.querySelector("input[type=file]:not([multiple])")`

	b.chooseFiles(chooser, b.writeFile("more.zip", archive(t, "set/Ball valve.svg", svgImage, "Check valve.svg", svgImage, "__MACOSX/._x", "x")))
	b.waitText("2 symbols will be added to Valves. Existing symbols are kept.", "__MACOSX/._x")
	b.waitText("operating system file")
	b.wait(`[...document.querySelectorAll("dialog .preview img")].filter((image) => image.naturalWidth === 40).length === 2`)
	s.is.Equal(len(s.symbolsIn(1)), 1) // nothing is stored
	b.wait(`e2e.name(document.activeElement) === "Import 2 symbols"`)
	b.click("Cancel")
	b.wait(`!document.querySelector("dialog")`)
	s.is.Equal(len(s.symbolsIn(1)), 1)

	b.chooseFiles(chooser, b.writeFile("more.zip", archive(t, "set/Ball valve.svg", svgImage, "Check valve.svg", svgImage)))
	b.click("Import 2 symbols")
	b.waitText("2 symbols imported into Valves.", "3 symbols")
	b.wait(`e2e.button("Check valve")`)
	s.is.Equal(len(s.symbolsIn(1)), 3)

	b.chooseFiles(chooser, b.writeFile("bad.zip", archive(t, "empty.svg", "", "Good.svg", svgImage)))
	b.waitText("1 symbol will be added to Valves", "Files that are left out")
	b.waitText("broken SVG: it is not well-formed XML")
	b.click("Cancel")
	b.chooseFiles(chooser, b.writeFile("no.zip", []byte("no archive")))
	b.waitText("The archive is not a zip, a library or a picture.")
	b.click("Close")
	b.chooseFiles(chooser, b.writeFile("nothing.zip", archive(t, "__MACOSX/._x", "x")))
	b.waitText("This file contains no symbols.", "operating system file")
	b.click("Cancel")
	s.is.Equal(len(s.symbolsIn(1)), 3)
}

func TestSymbols_ExportDownloadsZip(t *testing.T) {
	s := startSite(t, unprotected)
	s.folder("Valves ä", "Gate valve", "Ball valve")
	b := openSymbols(s, "2 symbols")
	b.click("Folder actions", "Export as zip")
	b.waitText("Valves ä.zip is in your downloads.")
	s.is.Equal(len(b.downloadedNames("Valves ä.zip")), 3) // two files and the manifest
}

// chooseArchive opens the dialog of an import.
func (b *tab) chooseArchive() {
	b.t.Helper()
	b.chooseFiles(`document.querySelector("[type=file]:not([multiple])")`, b.writeFile("drawings.zip", archive(b.t, "Ball valve.svg", svgImage)))
}

// TestSymbols_ImportIsLeft closes the dialog of an import that the server completes.
func TestSymbols_ImportIsLeft(t *testing.T) {
	s := startLateSite(t, func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/import") && r.FormValue("dryRun") == ""
	}, unprotected)
	s.folder("Valves", "Gate valve")
	b := openSymbols(s.site, "1 symbol")
	s.armed.Store(true)
	b.chooseArchive()
	b.click("Import 1 symbol")
	<-s.reached
	b.click("Close")
	b.waitText("Stopped. drawings.zip may have been imported all the same.")
}

// TestSymbols_ImportWithoutContent has a response that cannot have a body.
func TestSymbols_ImportWithoutContent(t *testing.T) {
	s := startSite(t, unprotected)
	s.folder("Valves", "Gate valve")
	b := openSymbols(s, "1 symbol")
	s.failure.Store(&failure{part: "/import", status: 204})
	b.chooseArchive()
	b.waitText("The response is not JSON.")
}
