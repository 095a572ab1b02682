package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"example.com/canvasback/exports"
)

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
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", exports.ErrGone, err)
	}
	return fmt.Errorf("%w: %w", exports.ErrFailed, err)
}
