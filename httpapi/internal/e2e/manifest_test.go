package e2e_test

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/httpapi/apitest"
)

// tableRows returns the text of the table rows of the screen.
func (b *tab) tableRows() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll("main tbody tr")].map((row) => row.innerText.replace(/\s+/g, " "))`)
}

// TestManifest_ListsSkippedFiles shows the manifest of a zip with a Content-Length
// that lacks a file.
func TestManifest_ListsSkippedFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startSite(t)
	var sources []string
	for _, name := range []string{"plan", "lost", "section"} {
		s.RegisterExport(t, sourceURL(name), name+".bin", strings.Repeat(name, 50_000))
		sources = append(sources, sourceURL(name))
	}
	s.register(sourceURL("lost"), apitest.FilesURL+"nothing.bin")

	b := openWithClientKey(s, "exports")
	b.fill("Sources", strings.Join(sources, "\n"))
	b.click("Download 3 files as a zip")
	b.waitText("is in your browser's downloads.")
	b.waitText("1 file skipped")
	is.Equal(b.tableRows(), []string{sourceURL("lost") + " file cannot be fetched"})
	b.waitNoText("Page error")

	content := b.downloaded("canvas-exports.zip")
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	is.NoErr(err)
	is.Equal(len(archive.File), 3)
	is.Equal(archive.File[2].Name, "manifest.json")
}
