package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"

	"example.com/canvasback/exports"
)

// Opener opens the files of an [fs.FS]. It is safe for concurrent use if the
// file system is.
type Opener struct {
	origin origin
	prefix []string
	fsys   fs.FS
}

var _ exports.Opener = (*Opener)(nil)

// New returns an Opener for the addresses below prefix, which is an absolute
// http or https address without user, query and fragment. Whether its path
// ends in a slash does not matter.
func New(prefix string, fsys fs.FS) (*Opener, error) {
	u, err := url.Parse(prefix)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New("files: the prefix is not an absolute http or https address")
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return nil, errors.New("files: the prefix is more than a host and a path")
	}
	segments := segmentsOf(u)
	if segments[len(segments)-1] == "" { // the path ends in a slash, or there is none
		segments = segments[:len(segments)-1]
	}
	if len(segments) > 0 && join(segments) == "" {
		return nil, errors.New("files: the path of the prefix is not clean")
	}
	return &Opener{origin: originOf(u), prefix: segments, fsys: fsys}, nil
}

// Serves reports whether an address has the origin of the prefix and begins
// with its path, segment by segment. Letter case does not matter in scheme and
// host, nor whether the scheme's own port is given, nor how a path is escaped.
func (o *Opener) Serves(address *url.URL) bool {
	segments := segmentsOf(address)
	return originOf(address) == o.origin && len(segments) >= len(o.prefix) &&
		slices.Equal(segments[:len(o.prefix)], o.prefix)
}

// Check refuses an address that names no file below the prefix: one with a
// segment that is empty or made of dots, or that has a slash, backslash or NUL
// in it once it is unescaped. Its error is an [exports.ForbiddenError]. A query
// and a fragment say nothing about a file and are ignored, as a server of the
// same files would do.
func (o *Opener) Check(address *url.URL) error {
	_, err := o.name(address)
	return err
}

// Open implements [exports.Opener]. What is not a regular file is forbidden.
// If the file system opens an [os.File], that is the Body, and closed when ctx
// ends.
func (o *Opener) Open(ctx context.Context, address *url.URL) (*exports.File, error) {
	name, err := o.name(address)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, failed(context.Cause(ctx))
	}
	// To open a named pipe is to wait for its writer, so this comes first.
	info, err := fs.Stat(o.fsys, name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, errIrregular
	}
	if err != nil {
		return nil, failed(err)
	}
	f, err := o.fsys.Open(name)
	if err != nil {
		return nil, failed(err)
	}
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular // it has been replaced
	}
	if err != nil {
		f.Close()
		return nil, failed(err)
	}
	return &exports.File{
		Body:     bind(ctx, f, info.Size()),
		Size:     info.Size(),
		Type:     contentType(name),
		Name:     path.Base(name),
		Modified: modified(info),
		ETag:     entityTag(info),
	}, nil
}

// name returns the name of the file at an address.
func (o *Opener) name(address *url.URL) (string, error) {
	if !o.Serves(address) || address.User != nil {
		return "", &exports.ForbiddenError{Reason: "it is not below the prefix"}
	}
	name := join(segmentsOf(address)[len(o.prefix):])
	if name == "" {
		return "", &exports.ForbiddenError{Reason: "it names no file"}
	}
	return name, nil
}

var errIrregular = fmt.Errorf("%w: it is not a regular file", exports.ErrForbidden)

// failed wraps exports.ErrFailed around an error unless it says why already.
func failed(err error) error {
	switch {
	case errors.Is(err, exports.ErrForbidden), errors.Is(err, exports.ErrTimeout):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", exports.ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", exports.ErrFailed, err)
}
