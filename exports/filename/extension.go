package filename

import "mime"

// Extension returns a file name extension for a content type, dot included,
// or the empty string. It knows what a viewer exports, and does not depend on
// the machine it runs on.
func Extension(contentType string) string {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	return extensions[mediaType]
}

var extensions = map[string]string{
	"application/dxf":  ".dxf",
	"application/json": ".json",
	"application/pdf":  ".pdf",
	"application/xml":  ".xml",
	"application/zip":  ".zip",
	"image/bmp":        ".bmp",
	"image/gif":        ".gif",
	"image/jpeg":       ".jpg",
	"image/png":        ".png",
	"image/svg+xml":    ".svg",
	"image/tiff":       ".tiff",
	"image/vnd.dwg":    ".dwg",
	"image/vnd.dxf":    ".dxf",
	"image/webp":       ".webp",
	"text/csv":         ".csv",
	"text/html":        ".html",
	"text/plain":       ".txt",
	"text/xml":         ".xml",
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         ".xlsx",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   ".docx",
}
