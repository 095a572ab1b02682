package filename

import "testing"

func TestExtension(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]string{
		"application/pdf": ".pdf", "Application/PDF": ".pdf", "text/csv": ".csv", "text/csv; charset=iso-8859-1": ".csv",
		"image/jpeg": ".jpg", "image/tiff": ".tiff", "text/html": ".html", "application/xml": ".xml", "text/xml": ".xml", "application/dxf": ".dxf",
		"": "", "application/octet-stream": "", ".pdf": "", "pdf": "",
	} {
		if got := Extension(contentType); got != want {
			t.Errorf("Extension(%q) = %q, want %q", contentType, got, want)
		}
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"plan.pdf": "application/pdf", "plan.v1.PDF": "application/pdf", ".pdf": "application/pdf", "a.jpg": "image/jpeg", "a.jpeg": "image/jpeg",
		"a.tif": "image/tiff", "a.htm": "text/html; charset=utf-8", "a.xml": "text/xml; charset=utf-8", "a.dxf": "image/vnd.dxf", "a.json": "application/json",
		"": "", "pdf": "", "a.": "", "a.bin": "", "a.pdf/b": "",
	} {
		if got := ContentType(name); got != want {
			t.Errorf("ContentType(%q) = %q, want %q", name, got, want)
		}
	}
}
