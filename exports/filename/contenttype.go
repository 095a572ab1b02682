package filename

import (
	"mime"
	"path"
	"strings"
)

// contentTypes lists the types of exported files, so that they do not depend on
// the machine. If a type has several extensions, or an extension several types,
// the first is used.
var contentTypes = []struct{ contentType, extensions string }{
	{"application/json", ".json"},
	{"application/pdf", ".pdf"},
	{"application/vnd.openxmlformats-officedocument.presentationml.presentation", ".pptx"},
	{"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"},
	{"application/vnd.openxmlformats-officedocument.wordprocessingml.document", ".docx"},
	{"application/zip", ".zip"},
	{"image/bmp", ".bmp"},
	{"image/gif", ".gif"},
	{"image/jpeg", ".jpg .jpeg"},
	{"image/png", ".png"},
	{"image/svg+xml", ".svg"},
	{"image/tiff", ".tiff .tif"},
	{"image/vnd.dwg", ".dwg"},
	{"image/vnd.dxf", ".dxf"},
	{"application/dxf", ".dxf"},
	{"image/webp", ".webp"},
	{"text/csv; charset=utf-8", ".csv"},
	{"text/html; charset=utf-8", ".html .htm"},
	{"text/plain; charset=utf-8", ".txt"},
	{"text/xml; charset=utf-8", ".xml"},
	{"application/xml", ".xml"},
}

var typeByExtension, extensionByType = indexContentTypes()

func indexContentTypes() (byExtension, byType map[string]string) {
	byExtension, byType = make(map[string]string), make(map[string]string)
	for _, t := range contentTypes {
		extensions := strings.Fields(t.extensions)
		mediaType, _, _ := strings.Cut(t.contentType, ";")
		byType[mediaType] = extensions[0]
		for _, ext := range extensions {
			if byExtension[ext] == "" {
				byExtension[ext] = t.contentType
			}
		}
	}
	return byExtension, byType
}

// Extension returns the extension of files of a content type, with its dot. It
// returns the empty string for an unknown type.
func Extension(contentType string) string {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	return extensionByType[mediaType]
}

// ContentType returns the content type of a file by the extension of its name. It
// returns the empty string for an unknown extension.
func ContentType(name string) string {
	return typeByExtension[strings.ToLower(path.Ext(name))]
}
