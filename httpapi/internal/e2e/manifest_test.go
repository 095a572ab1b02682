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

// rows is what the tables of the screen say, line by line.
func (b *tab) rows() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll("main tbody tr")].map((row) => row.innerText.replace(/\s+/g, " "))`)
}

// TestManifest_ListsSkippedFiles shows the manifest of a zip with a Content-Length
// that lacks a file.
func TestManifest_ListsSkippedFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSite(t)
	s.listen(s.handler())
	var sources []string
	for _, name := range []string{"plan", "lost", "section"} {
		s.export(source(name), name+".bin", bytes.Repeat([]byte(name), 50_000))
		sources = append(sources, source(name))
	}
	delete(s.files, "lost.bin")

	b := openWithClientKey(s, "exports")
	b.fill("Sources", strings.Join(sources, "\n"))
	b.press("Download 3 files as a zip")
	b.sees("is in your downloads.")
	b.sees("1 file skipped")
	is.Equal(b.rows(), []string{source("lost") + " file cannot be fetched"})
	b.lacks("Page error")

	content := b.downloaded("canvas-exports.zip")
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	is.NoErr(err)
	is.Equal(len(archive.File), 3)
	is.Equal(archive.File[2].Name, "manifest.json")
}

// TestManifest_thatCannotBeRead has a zip in the downloads all the same.
func TestManifest_thatCannotBeRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	entry, err := archive.CreateHeader(&zip.FileHeader{Name: "manifest.json", Method: zip.Store})
	is.NoErr(err)
	_, err = io.WriteString(entry, "no JSON")
	is.NoErr(err)
	is.NoErr(archive.Close())
	s := newSite(t)
	handler := s.handler()
	s.listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/download-batch") {
			w.Write(out.Bytes())
			return
		}
		handler.ServeHTTP(w, r)
	}))
	b := openWithClientKey(s, "exports")
	b.fill("Sources", source("plan")+"\n"+source("section"))
	b.press("Download 2 files as a zip")
	b.sees("canvas-exports.zip, ")
	b.sees("Its manifest.json, which lists skipped files, cannot be read.")
	b.lacks("Page error")
	is.Equal(b.downloaded("canvas-exports.zip"), out.Bytes())
}
