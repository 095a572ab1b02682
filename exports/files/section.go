package files

import (
	"context"
	"io"
	"io/fs"

	"example.com/canvasback/exports"
)

// sectionReader reads a part of a file that must not change.
type sectionReader struct {
	fs.File
	ctx       context.Context
	want      exports.Part
	remaining int64
}

// Read implements [io.Reader]. It returns bytes only if the file was unchanged
// after they were read: the kernel sets the change time before it writes.
func (r *sectionReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, wrapError(context.Cause(r.ctx))
	}
	if r.remaining == 0 {
		return 0, io.EOF
	}
	n, err := r.File.Read(p[:min(int64(len(p)), r.remaining)])
	info, statErr := r.Stat()
	if statErr == nil {
		statErr = r.check(info)
	}
	if statErr != nil {
		return 0, wrapError(statErr)
	}
	r.remaining -= int64(n)
	switch {
	case n > 0:
		err = nil // it occurs again if it matters
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = wrapError(err)
	}
	return n, err
}

// check returns an error unless info is that of the expected file.
func (r *sectionReader) check(info fs.FileInfo) error {
	v, _ := validator(info)
	if v == "" || v != r.want.Validator || r.want.Size >= 0 && r.want.Size != info.Size() {
		return exports.ErrChanged
	}
	return nil
}

// skip moves to an offset from the start of a file.
func skip(f fs.File, offset int64) error {
	if seeker, ok := f.(io.Seeker); ok {
		_, err := seeker.Seek(offset, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, f, offset)
	return err
}
