package exports_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"example.com/canvasback/exports"
)

// errRenewed means that a link has got another plan before the first byte.
var errRenewed = errors.New("the link has another plan")

// sectionWriter is a LinkWriter that writes one section to out.
type sectionWriter struct {
	out    io.Writer
	choose func(l *exports.Link) (exports.Section, error)
	link   *exports.Link // as given to Begin; nil until then
}

func (w *sectionWriter) Select(l *exports.Link) ([]exports.Section, error) {
	s, err := w.choose(l)
	return []exports.Section{s}, err
}

func (w *sectionWriter) Begin(l *exports.Link, _ int) error {
	w.link = l
	return nil
}

func (w *sectionWriter) Write(p []byte) (int, error) { return w.out.Write(p) }

func (w *sectionWriter) Flush() error {
	if w.link == nil {
		panic("Flush before Begin")
	}
	return nil
}

func wholeLink(l *exports.Link) (exports.Section, error) { return exports.Section{Length: l.Size}, nil }

// discard writes a part of a link in its present state. The error is errRenewed if it
// has got another one before the first byte.
func discard(t *testing.T, link *exports.Link, w io.Writer, offset, length int64) error {
	t.Helper()
	return writePart(t.Context(), link, w, offset, length)
}

func writePart(ctx context.Context, link *exports.Link, w io.Writer, offset, length int64) error {
	_, err := link.Serve(ctx, &sectionWriter{out: w, choose: func(l *exports.Link) (exports.Section, error) {
		if l.ETag != link.ETag {
			return exports.Section{}, errRenewed
		}
		return exports.Section{Offset: offset, Length: length}, nil
	}})
	return err
}

// read returns a part of a link in its present state.
func read(ctx context.Context, link *exports.Link, offset, length int64) ([]byte, error) {
	var out bytes.Buffer
	err := writePart(ctx, link, &out, offset, length)
	if err == nil && int64(out.Len()) != length {
		err = fmt.Errorf("%d of %d bytes", out.Len(), length)
	}
	return out.Bytes(), err
}

// readCurrent returns the complete content of a link, and the link as it was delivered.
func readCurrent(ctx context.Context, link *exports.Link) (*exports.Link, []byte, error) {
	var out bytes.Buffer
	w := &sectionWriter{out: &out, choose: wholeLink}
	_, err := link.Serve(ctx, w)
	return w.link, out.Bytes(), err
}

// isLost reports whether a file of a link had changed, before the first byte or later.
func isLost(err error) bool {
	return err == errRenewed || errors.Is(err, exports.ErrChanged) || errors.Is(err, exports.ErrGone)
}
