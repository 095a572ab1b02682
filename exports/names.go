package exports

import (
	"net/url"
	"strings"

	"example.com/canvasback/exports/filename"
)

// BatchName is the file name of a batch.
const BatchName = "canvas-exports.zip"

const (
	fallbackName = "canvas-export"
	manifestName = "manifest.json"
)

// deliveryName returns the name under which an export is delivered: the
// registered one, the one its upstream proposes, the last path segment of its
// URL, or a fallback with an extension for its content type.
func deliveryName(export Export, file *File) string {
	for _, name := range []string{export.FileName, file.Name, lastSegment(export.ExportedURL)} {
		if name = filename.Clean(name); name != "" {
			return name
		}
	}
	return fallbackName + filename.Extension(file.Type)
}

// lastSegment returns the last path segment of a URL, unescaped.
func lastSegment(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	escaped := u.EscapedPath()
	segment, err := url.PathUnescape(escaped[strings.LastIndexByte(escaped, '/')+1:])
	if err != nil {
		return ""
	}
	return segment
}
