package zipstream

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/matryer/is"
)

func TestWriter_AddStoredEqualsAddBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	content := bytes.Repeat([]byte("canvasback "), 20_000)
	e := file{"x", content, false}.entry()
	var stored, added bytes.Buffer
	z := NewWriter(&stored)
	is.NoErr(z.AddStored(e, bytes.NewReader(content[:100]), iotest.HalfReader(bytes.NewReader(content[100:])), bytes.NewReader(content)))
	is.NoErr(z.Close())
	z = NewWriter(&added)
	is.NoErr(z.AddBytes(e, content))
	is.NoErr(z.Close())
	is.True(bytes.Equal(stored.Bytes(), added.Bytes()))
}

func TestWriter_AddStoredReturnsErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	e := Entry{Name: "x", Size: 10}
	content := bytes.NewReader(make([]byte, 9))
	is.Equal(NewWriter(io.Discard).AddStored(e, content), io.ErrUnexpectedEOF)
	is.Equal(NewWriter(io.Discard).AddStored(e, iotest.ErrReader(io.ErrClosedPipe)), io.ErrClosedPipe)
	is.True(NewWriter(io.Discard).AddStored(Entry{Size: -1}) != nil)
	is.True(NewWriter(io.Discard).AddStored(Entry{Streamed: true}) != nil)
}

// kernelWriter records files that the kernel could copy to a connection.
type kernelWriter struct {
	io.Writer
	copied int64
}

func (w *kernelWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.Writer, r)
	if limited, ok := r.(*io.LimitedReader); ok {
		if _, ok := limited.R.(*os.File); ok {
			w.copied += n
		}
	}
	return n, err
}

func TestWriter_AddStoredLetsKernelCopy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "x")
	is.NoErr(os.WriteFile(path, make([]byte, 100_000), 0o600))
	f, err := os.Open(path)
	is.NoErr(err)
	defer f.Close()
	w := &kernelWriter{Writer: io.Discard}
	is.NoErr(NewWriter(w).AddStored(Entry{Name: "x", Size: 90_010}, bytes.NewReader(make([]byte, 10)), f))
	is.Equal(w.copied, int64(90_000))
}
