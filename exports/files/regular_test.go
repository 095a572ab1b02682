//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

func TestOpener_OpenRejectsIrregularFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	outside, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret", time.Now())
	is.NoErr(os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")))
	is.NoErr(os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	is.NoErr(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	root, err := os.OpenRoot(dir)
	is.NoErr(err)
	defer root.Close()
	o := newOpener(t, "https://example.com/", root.FS())

	_, err = o.Open(t.Context(), parse(t, "https://example.com/pipe"))
	is.True(errors.Is(err, exports.ErrForbidden)) // without waiting for a writer
	_, err = o.Open(t.Context(), parse(t, "https://example.com/link"))
	is.True(errors.Is(err, exports.ErrFailed)) // os.Root follows no link out of it
	_, err = o.Open(t.Context(), parse(t, "https://example.com/dangling"))
	is.True(errors.Is(err, exports.ErrFailed))
}
