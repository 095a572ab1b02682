//go:build unix

package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
)

func TestOpener_OpenRejectsIrregularFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	root := must(os.OpenRoot(dir))(t)
	defer root.Close()
	o := newOpener(t, "https://example.com/", root.FS())

	_, err := o.Open(t.Context(), parse(t, "https://example.com/pipe"))
	is.True(errors.Is(err, exports.ErrForbidden)) // without waiting for a writer
}

// deviceInfo describes a file of a network file system as another machine sees it.
type deviceInfo struct {
	fs.FileInfo
	device int
}

func (i deviceInfo) Sys() any {
	stat := *i.FileInfo.Sys().(*syscall.Stat_t)
	reflect.ValueOf(&stat.Dev).Elem().Set(reflect.ValueOf(i.device).Convert(reflect.TypeOf(stat.Dev)))
	return &stat
}

type deviceFile struct {
	fs.File
	device int
}

func (f deviceFile) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	return deviceInfo{info, f.device}, err
}

type deviceFS struct {
	fs.FS
	device int
}

func (f deviceFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	return deviceFile{file, f.device}, err
}

func TestOpener_ValidatorIsThatOfOtherMachines(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.WriteFile(filepath.Join(dir, "a"), []byte("content"), 0o600))
	first := stat(t, newOpener(t, "https://example.com/", deviceFS{os.DirFS(dir), 1}))
	is.True(first.Validator != "")
	is.Equal(stat(t, newOpener(t, "https://example.com/", deviceFS{os.DirFS(dir), 2})).Validator, first.Validator)
}
