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

	"example.com/canvasback/exports/filename"
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

// contentType returns the content type of a file by the extension of its name.
// JSON types come only from package filename, never from the machine's table:
// clients take a JSON response for an error or a list of URLs.
func contentType(name string) string {
	if known := filename.ContentType(name); known != "" {
		return known
	}
	local := mime.TypeByExtension(strings.ToLower(path.Ext(name)))
	if mediaType, _, _ := mime.ParseMediaType(local); strings.HasSuffix(mediaType, "json") {
		return ""
	}
	return local
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
