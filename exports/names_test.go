package exports

import (
	"testing"

	"github.com/matryer/is"
)

func TestDeliveryName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	export := Export{ExportedURL: "https://x.example/a/b%20c.pdf?name=q.exe#f", FileName: "Registered.pdf"}
	is.Equal(deliveryName(export, &File{Name: "upstream.pdf"}), "Registered.pdf")
	export.FileName = ".."
	is.Equal(deliveryName(export, &File{Name: "upstream.pdf"}), "upstream.pdf")
	is.Equal(deliveryName(export, &File{}), "b c.pdf")
	for _, u := range []string{"https://x.example", "https://x.example/", "https://x.example/a/", "https://x.example/%2e%2e"} {
		export.ExportedURL = u
		is.Equal(deliveryName(export, &File{Type: "application/pdf; x=y"}), "canvas-export.pdf")
		is.Equal(deliveryName(export, &File{Type: "application/octet-stream"}), "canvas-export")
		is.Equal(deliveryName(export, &File{}), "canvas-export")
	}
	export.ExportedURL = "https://x.example/a%2Fb.pdf"
	is.Equal(deliveryName(export, &File{}), "a_b.pdf")
}
