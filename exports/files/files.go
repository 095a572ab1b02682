package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"example.com/canvasback/exports"
)

// Opener opens the files of an [fs.FS]. It is safe for concurrent use if the
// file system is.
type Opener struct {
	origin [3]string // scheme, host name and port
	prefix []string
	fsys   fs.FS
}

var (
	_ exports.RangeOpener   = (*Opener)(nil)
	_ exports.PrivateOpener = (*Opener)(nil)
)

// New returns an Opener for the URLs below prefix, an absolute http or https
// URL without user info, query and fragment. A slash at its end is optional.
func New(prefix string, fsys fs.FS) (*Opener, error) {
	u, err := url.Parse(prefix)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New("files: prefix is not an absolute http or https URL")
	case fsys == nil:
		return nil, errors.New("files: fsys is nil")
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return nil, errors.New("files: prefix has user info, a query or a fragment")
	}
	segments := pathSegments(u)
	if segments[len(segments)-1] == "" { // no path, or a slash at its end
		segments = segments[:len(segments)-1]
	}
	if len(segments) > 0 && joinSegments(segments) == "" {
		return nil, errors.New("files: path of prefix is not clean")
	}
	return &Opener{origin: originOf(u), prefix: segments, fsys: fsys}, nil
}

// Serves reports whether u has the origin of the prefix and its path begins with the
// segments of the prefix. It ignores letter case in scheme and host, an explicit default
// port, and differences in path escaping.
func (o *Opener) Serves(u *url.URL) bool {
	segments := pathSegments(u)
	return originOf(u) == o.origin && len(segments) >= len(o.prefix) &&
		slices.Equal(segments[:len(o.prefix)], o.prefix)
}

// IsPrivate implements [exports.PrivateOpener]: nothing serves the URLs.
func (o *Opener) IsPrivate(*url.URL) bool { return true }

// Check rejects a URL that names no file below the prefix: one with a segment
// that is empty, "." or "..", or that contains a slash, backslash or NUL once it
// is unescaped. It ignores query and fragment, as a file server does. The error
// is an [exports.ForbiddenError].
func (o *Opener) Check(u *url.URL) error {
	_, err := o.name(u)
	return err
}

// Open implements [exports.Opener]. A file that is not regular is forbidden. One whose
// name, or that of a directory above it, begins with a dot does not exist. If the file
// system opens an [os.File], the Body is that file, and it is closed when ctx ends.
func (o *Opener) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	f, err := o.open(ctx, u)
	if err != nil {
		return nil, err
	}
	file := f.describe(ctx)
	if local, ok := f.File.(*os.File); ok {
		context.AfterFunc(ctx, func() { local.Close() })
		file.Body = local
	} else {
		file.Body = &reader{File: f.File, ctx: ctx, remaining: file.Size}
	}
	return file, nil
}

// Stat implements [exports.RangeOpener]. It opens the file, so that it returns an
// error if the file cannot be read.
func (o *Opener) Stat(ctx context.Context, u *url.URL) (*exports.File, error) {
	f, err := o.open(ctx, u)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.describe(ctx), nil
}

// OpenRange implements [exports.RangeOpener]. Each Read checks that the file is
// unchanged before it returns bytes, so the reader is no [os.File]: the kernel
// would send pages that may still change.
func (o *Opener) OpenRange(ctx context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	f, err := o.open(ctx, u)
	if err != nil {
		return nil, err
	}
	if err = checkPart(f.info, r); err == nil {
		err = skip(f.File, r.Offset)
	}
	if err != nil {
		f.Close()
		return nil, wrapError(err)
	}
	return &reader{File: f.File, ctx: ctx, remaining: r.Length, part: &r}, nil
}

func (o *Opener) open(ctx context.Context, u *url.URL) (*localFile, error) {
	name, err := o.name(u)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, wrapError(context.Cause(ctx))
	}
	if strings.HasPrefix(name, ".") || strings.Contains(name, "/.") {
		return nil, wrapError(fs.ErrNotExist)
	}
	// Stat comes first because opening a named pipe blocks until it has a writer.
	info, err := fs.Stat(o.fsys, name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	if err != nil {
		return nil, wrapError(err)
	}
	f, err := o.fsys.Open(name)
	if err != nil {
		return nil, wrapError(err)
	}
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular // replaced since the first Stat
	}
	if err != nil {
		f.Close()
		return nil, wrapError(err)
	}
	if embedded, ok := o.fsys.(embed.FS); ok {
		content, _ := embedded.ReadFile(name) // in memory
		described := embeddedFile{f, info, fmt.Sprintf("%x", sha256.Sum256(content))}
		f, info = described, described
	}
	return &localFile{File: f, name: name, info: info}, nil
}

// name returns the file name that u stands for. The error is an
// [exports.ForbiddenError].
func (o *Opener) name(u *url.URL) (string, error) {
	if !o.Serves(u) || u.User != nil {
		return "", &exports.ForbiddenError{Reason: "the URL is not below the prefix"}
	}
	name := joinSegments(pathSegments(u)[len(o.prefix):])
	if name == "" {
		return "", &exports.ForbiddenError{Reason: "the URL names no file"}
	}
	return name, nil
}

var errNotRegular = fmt.Errorf("%w: not a regular file", exports.ErrForbidden)

// originOf returns the scheme, host and port of a URL in canonical form.
func originOf(u *url.URL) [3]string {
	scheme, host := strings.ToLower(u.Scheme), strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return [3]string{scheme, host, cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[scheme])}
}

// pathSegments splits the escaped path of a URL at its slashes and then unescapes each
// segment, so a segment may contain an escaped slash. It returns at least one.
func pathSegments(u *url.URL) []string {
	path := cmp.Or(u.RawPath, u.EscapedPath()) // EscapedPath ignores a RawPath with a space
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		segments[i], _ = url.PathUnescape(segment) // well-formed
	}
	return segments
}

// joinSegments returns a file name for an [fs.FS], or the empty string if the
// segments are not a valid name.
func joinSegments(segments []string) string {
	for _, segment := range segments {
		if segment == "." || strings.ContainsAny(segment, "/\\\x00") {
			return ""
		}
	}
	name := strings.Join(segments, "/")
	if !fs.ValidPath(name) {
		return ""
	}
	return name
}
