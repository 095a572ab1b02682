package files

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"strings"
	"time"
)

// bind makes reading a file fail once ctx has ended.
func bind(ctx context.Context, f fs.File, size int64) io.ReadCloser {
	if f, ok := f.(*os.File); ok {
		context.AfterFunc(ctx, func() { f.Close() })
		return f
	}
	return &bound{File: f, ctx: ctx, left: size}
}

// bound is a file that cannot be closed while it is read.
type bound struct {
	fs.File
	ctx  context.Context
	left int64
}

func (b *bound) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, failed(context.Cause(b.ctx))
	}
	n, err := b.File.Read(p)
	b.left -= int64(n)
	switch {
	case err == io.EOF && b.left > 0:
		err = failed(io.ErrUnexpectedEOF)
	case err != nil && err != io.EOF:
		err = failed(err)
	}
	return n, err
}

// types are those of what a viewer exports, the same on every machine.
var types = map[string]string{
	".bmp":  "image/bmp",
	".csv":  "text/csv; charset=utf-8",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".dwg":  "image/vnd.dwg",
	".dxf":  "image/vnd.dxf",
	".gif":  "image/gif",
	".htm":  "text/html; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".jpeg": "image/jpeg",
	".jpg":  "image/jpeg",
	".json": "application/json",
	".pdf":  "application/pdf",
	".png":  "image/png",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".svg":  "image/svg+xml",
	".tif":  "image/tiff",
	".tiff": "image/tiff",
	".txt":  "text/plain; charset=utf-8",
	".webp": "image/webp",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".xml":  "text/xml; charset=utf-8",
	".zip":  "application/zip",
}

// contentType goes by the extension. What is not in the table is for the
// machine to say, but that a file is JSON is not left to it: such a type
// changes how an answer is read.
func contentType(name string) string {
	ext := strings.ToLower(path.Ext(name))
	if known, ok := types[ext]; ok {
		return known
	}
	guess := mime.TypeByExtension(ext)
	if mediaType, _, _ := mime.ParseMediaType(guess); strings.HasSuffix(mediaType, "json") {
		return ""
	}
	return guess
}

// modified is zero if the file system does not know.
func modified(info fs.FileInfo) time.Time {
	if info.ModTime().IsZero() {
		return time.Time{}
	}
	return info.ModTime().UTC()
}

// coarsest is the resolution of the times of the file systems in use: FAT
// counts in steps of two seconds.
const coarsest = 2 * time.Second

// entityTag is made of a file's size and time of modification. It is strong
// (RFC 9110, section 8.8.1) as soon as another change could not have the same
// time, and empty if there is no time.
func entityTag(info fs.FileInfo) string {
	t := info.ModTime()
	if t.IsZero() {
		return ""
	}
	tag := fmt.Sprintf(`"%x-%x"`, t.UnixNano(), info.Size())
	if time.Since(t) <= coarsest {
		return "W/" + tag
	}
	return tag
}
