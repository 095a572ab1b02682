package exports

import (
	"net/url"
	"strings"

	"example.com/canvasback/exports/filename"
)

const (
	fallbackName = "canvas-export"
	manifestName = "manifest.json"
)

// fileName is the name under which an export is delivered: the registered one,
// else the one its origin proposes, else the end of its address, else a
// fallback with an extension for its content type.
func fileName(export Export, file *File) string {
	for _, name := range []string{export.FileName, file.Name, lastSegment(export.ExportedURL)} {
		if name = filename.Clean(name); name != "" {
			return name
		}
	}
	return fallbackName + filename.Extension(file.Type)
}

// originName is the name of an export's file without regard to the registered
// one.
func originName(export Export, download *Download) string {
	export.FileName = ""
	return fileName(export, &download.File)
}

// lastSegment is the unescaped end of an address's path.
func lastSegment(address string) string {
	u, err := url.Parse(address)
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
