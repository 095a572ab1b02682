package files

import (
	"context"
	"fmt"
	"io/fs"
	"mime"
	"path"
	"strings"
	"time"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/filename"
)

type localFile struct {
	fs.File
	name string
	info fs.FileInfo
}

// describe returns the file without its Body. If the file has just changed, it
// waits until another change would get another time, 20 ms at most.
func (f *localFile) describe(ctx context.Context) *exports.File {
	v, wait := validator(f.info)
	if 0 < wait && wait <= fineResolution {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		if info, err := f.Stat(); err == nil {
			f.info = info
		}
		v, wait = validator(f.info)
	}
	if wait > 0 {
		v = ""
	}
	return &exports.File{
		Size:      f.info.Size(),
		Type:      contentType(f.name),
		Name:      path.Base(f.name),
		Modified:  modTime(f.info),
		ETag:      entityTag(f.info),
		Validator: v,
	}
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

// modTime returns the zero Time if the file system has no modification time.
func modTime(info fs.FileInfo) time.Time {
	if info.ModTime().IsZero() {
		return time.Time{}
	}
	return info.ModTime().UTC()
}

// entityTag derives an entity tag from size and modification time. The tag is
// weak (RFC 9110, section 8.8.1) while another change could still get the same
// time, and empty if there is no time.
func entityTag(info fs.FileInfo) string {
	t := info.ModTime()
	if t.IsZero() {
		return ""
	}
	tag := fmt.Sprintf(`"%x-%x"`, t.UnixNano(), info.Size())
	if time.Since(t) <= coarseResolution {
		return "W/" + tag
	}
	return tag
}
