package exports

import (
	"testing"

	"github.com/matryer/is"
)

func TestFileName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	export := Export{ExportedURL: "https://x.example/a/b%20c.pdf?name=q.exe#f", FileName: "Registered.pdf"}
	is.Equal(fileName(export, &File{Name: "origin.pdf"}), "Registered.pdf")
	export.FileName = ".."
	is.Equal(fileName(export, &File{Name: "origin.pdf"}), "origin.pdf") // nothing is left of the registered one
	is.Equal(fileName(export, &File{}), "b c.pdf")
	for _, address := range []string{"https://x.example", "https://x.example/", "https://x.example/a/", "https://x.example/%2e%2e"} {
		export.ExportedURL = address
		is.Equal(fileName(export, &File{Type: "application/pdf; x=y"}), "canvas-export.pdf")
		is.Equal(fileName(export, &File{Type: "application/octet-stream"}), "canvas-export")
		is.Equal(fileName(export, &File{}), "canvas-export")
	}
	export.ExportedURL = "https://x.example/a%2Fb.pdf"
	is.Equal(fileName(export, &File{}), "a_b.pdf")
}
