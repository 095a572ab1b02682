package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"path"
	"strings"
	"syscall"
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
		Modified:  f.info.ModTime().UTC(), // zero if the file system has none
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

const (
	// fineResolution is twice the resolution of timestamps on Linux, which is
	// that of the timer interrupt: 10 ms or less.
	fineResolution = 20 * time.Millisecond

	// coarseResolution is that of file systems without fractions of a second.
	// FAT stores steps of two seconds.
	coarseResolution = 2 * time.Second
)

// embeddedFile is a file of an [embed.FS], which has no modification time, and describes
// itself. Its digest is that of the content.
type embeddedFile struct {
	fs.File
	fs.FileInfo
	digest string
}

func (f embeddedFile) Stat() (fs.FileInfo, error) { return f, nil }

// validator returns the Validator of a file: inode, size, modification time and change
// time, or else size and modification time; or the digest of an embeddedFile. It is empty
// if there are no times. It must not be used before the returned time has passed, because
// another change could still get the same timestamps. The number of the device is not part
// of it: that of a network file system is another one on each machine.
func validator(info fs.FileInfo) (v string, wait time.Duration) {
	if embedded, ok := info.(embeddedFile); ok {
		return embedded.digest, 0
	}
	modified, resolution := info.ModTime(), coarseResolution
	if modified.IsZero() {
		return "", 0
	}
	v = fmt.Sprintf("%x-%x", info.Size(), modified.UnixNano())
	if inode, changed, ok := statOf(info); ok {
		v = fmt.Sprintf("%x-%s-%x", inode, v, changed.UnixNano())
		modified = changed // also after the modification time was set
		if changed.Nanosecond() != 0 {
			resolution = fineResolution
		}
	}
	return v, max(0, resolution-time.Since(modified))
}

// reader reads a file, or a part of one, until its context ends. It checks the context
// before each Read, because an [fs.File] need not support Close during Read.
type reader struct {
	fs.File
	ctx       context.Context
	remaining int64
	part      *exports.Part // unless nil, the file must not change
}

// Read implements [io.Reader]. It returns bytes of a part only if the file was unchanged
// after they were read: the kernel sets the change time before it writes.
func (r *reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, wrapError(context.Cause(r.ctx))
	}
	if r.remaining == 0 {
		return 0, io.EOF
	}
	n, err := r.File.Read(p[:min(int64(len(p)), r.remaining)])
	if r.part != nil {
		info, err := r.Stat()
		if err == nil {
			err = checkPart(info, *r.part)
		}
		if err != nil {
			return 0, wrapError(err)
		}
	}
	r.remaining -= int64(n)
	switch {
	case n > 0:
		return n, nil // an error occurs again if it matters
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return 0, wrapError(err)
}

// checkPart returns an error unless info is that of the file that a part describes.
func checkPart(info fs.FileInfo, part exports.Part) error {
	v, _ := validator(info)
	if v == "" || v != part.Validator || part.Size >= 0 && part.Size != info.Size() {
		return exports.ErrChanged
	}
	return nil
}

func skip(f fs.File, offset int64) error {
	if seeker, ok := f.(io.Seeker); ok {
		_, err := seeker.Seek(offset, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, f, offset)
	return err
}

// wrapError wraps err in an error that [exports.Opener] documents, unless it
// already wraps one or is nil.
func wrapError(err error) error {
	switch {
	case err == nil, errors.Is(err, exports.ErrForbidden), errors.Is(err, exports.ErrTimeout), errors.Is(err, exports.ErrFailed):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", exports.ErrTimeout, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR),
		strings.HasSuffix(err.Error(), "path escapes from parent"): // os.Root exports no error for it
		return fmt.Errorf("%w: %w", exports.ErrGone, err)
	}
	return fmt.Errorf("%w: %w", exports.ErrFailed, err)
}
