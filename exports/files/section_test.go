package files_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
)

const (
	fileURL     = "https://example.com/a"
	fileContent = "0123456789"
)

// newDir returns a directory with the file of fileURL, and its Opener.
func newDir(t *testing.T) (name string, o *files.Opener) {
	t.Helper()
	dir := t.TempDir()
	name = filepath.Join(dir, "a")
	write(t, name, fileContent, time.Now().Add(-time.Hour))
	return name, newOpener(t, "https://example.com/", os.DirFS(dir))
}

// stat returns the file of fileURL.
func stat(t *testing.T, o *files.Opener) *exports.File {
	t.Helper()
	file, err := o.Stat(t.Context(), parse(t, fileURL))
	is.New(t).NoErr(err)
	return file
}

func rangeOf(file *exports.File, offset, length int64) exports.Part {
	return exports.Part{Validator: file.Validator, Size: file.Size, Offset: offset, Length: length}
}

func TestOpener_Stat(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, o := newDir(t)
	file := stat(t, o)
	opened := must(o.Open(t.Context(), parse(t, fileURL)))(t)
	is.NoErr(opened.Body.Close())
	opened.Body = nil
	is.Equal(file, opened)
	is.Equal(file.Size, int64(len(fileContent)))
	is.True(file.Validator != "") // although the file is new

	_, err := o.Stat(t.Context(), parse(t, "https://example.com/none"))
	is.True(errors.Is(err, exports.ErrGone))
	is.True(errors.Is(err, exports.ErrFailed))
	_, err = o.Stat(t.Context(), parse(t, "https://example.com/"))
	is.True(errors.Is(err, exports.ErrForbidden))
}

func TestOpener_OpenRange(t *testing.T) {
	t.Parallel()
	_, local := newDir(t)
	memory := fstest.MapFS{"a": {Data: []byte(fileContent), ModTime: time.Now().Add(-time.Hour)}}
	for name, o := range map[string]*files.Opener{
		"os.DirFS":     local,
		"fstest.MapFS": newOpener(t, "https://example.com/", memory),
		"no Seeker":    newOpener(t, "https://example.com/", unseekableFS{memory}),
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			file := stat(t, o)
			for offset := range len(fileContent) + 1 {
				for length := range len(fileContent) + 1 - offset {
					body, err := o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, int64(offset), int64(length)))
					is.NoErr(err)
					content := must(io.ReadAll(body))(t)
					is.Equal(string(content), fileContent[offset:offset+length])
					is.NoErr(body.Close())
				}
			}
			for _, r := range []exports.Part{
				{Validator: file.Validator, Size: 9, Length: 1},
				{Validator: file.Validator + "0", Size: 10, Length: 1},
				{Size: 10, Length: 1},
			} {
				_, err := o.OpenRange(t.Context(), parse(t, fileURL), r)
				is.True(errors.Is(err, exports.ErrChanged))
			}
			body, err := o.OpenRange(t.Context(), parse(t, fileURL), exports.Part{Validator: file.Validator, Size: -1, Length: 1})
			is.NoErr(err)
			is.NoErr(body.Close())
			_, err = o.OpenRange(t.Context(), parse(t, "https://example.com/none"), rangeOf(file, 0, 1))
			is.True(errors.Is(err, exports.ErrGone))
		})
	}
}

// unseekableFS hides all methods of its files but those of [fs.File].
type unseekableFS struct{ fs.FS }

func (f unseekableFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	return struct{ fs.File }{file}, err
}

// changes are all ways in which a local file may change. None changes the
// modification time of the directory entry alone.
var changes = map[string]func(name string) error{
	"overwritten": func(name string) error { return overwrite(name, "abcdefghij") },
	"overwritten, same time": func(name string) error {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		return errors.Join(overwrite(name, "abcdefghij"), os.Chtimes(name, info.ModTime(), info.ModTime()))
	},
	"truncated": func(name string) error { return os.Truncate(name, 6) },
	"grown":     func(name string) error { return os.Truncate(name, 20) },
}

// overwrite changes the content of a file to one of the same size.
func overwrite(name, content string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}

func TestOpener_OpenRangeOfChangedFile(t *testing.T) {
	t.Parallel()
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			path, o := newDir(t)
			file := stat(t, o)
			is.NoErr(change(path))
			_, err := o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, 0, 5))
			is.True(errors.Is(err, exports.ErrChanged))
		})
		t.Run(name+" during the read", func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			path, o := newDir(t)
			body := must(o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(stat(t, o), 1, 9)))(t)
			defer body.Close()
			first := make([]byte, 3)
			_, err := io.ReadFull(body, first)
			is.NoErr(err)
			is.Equal(string(first), fileContent[1:4])
			is.NoErr(change(path))
			rest, err := io.ReadAll(body)
			is.True(errors.Is(err, exports.ErrChanged))
			is.Equal(len(rest), 0)
		})
	}
}

func TestOpener_OpenRangeOfReplacedFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path, o := newDir(t)
	file := stat(t, o)
	body := must(o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, 0, 10)))(t)
	defer body.Close()
	replacement := filepath.Join(filepath.Dir(path), "b")
	write(t, replacement, "abcdefghij", file.Modified)
	is.NoErr(os.Rename(replacement, path))
	content, err := io.ReadAll(body) // of the open file, whose link count has changed
	if err == nil {
		is.Equal(string(content), fileContent)
	} else {
		is.True(errors.Is(err, exports.ErrChanged))
	}
	_, err = o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, 0, 10))
	is.True(errors.Is(err, exports.ErrChanged))
	is.NoErr(os.Remove(path))
	_, err = o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, 0, 10))
	is.True(errors.Is(err, exports.ErrGone))
}

// Two changes may get the same timestamps, unless Stat waits for the first one
// to be over.
func TestOpener_StatDuringChanges(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path, o := newDir(t)
	contents := make(map[string]string)
	for i := range 20 {
		content := strings.Repeat(string(rune('A'+i)), 10)
		is.NoErr(overwrite(path, content))
		file := stat(t, o)
		is.True(file.Validator != "")
		is.Equal(contents[file.Validator], "")
		contents[file.Validator] = content
	}
}

func TestOpener_ValidatorWithoutChangeTime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	v := func(modified time.Time, content string) string {
		fsys := fstest.MapFS{"a": {Data: []byte(content), ModTime: modified}}
		return stat(t, newOpener(t, "https://example.com/", fsys)).Validator
	}
	hour := time.Now().Add(-time.Hour)
	is.Equal(v(time.Time{}, "a"), "")
	is.Equal(v(time.Now(), "a"), "") // may change again within the same time
	is.Equal(v(time.Now().Add(time.Hour), "a"), "")
	is.True(v(hour, "a") != "")
	is.Equal(v(hour, "a"), v(hour, "b"))
	is.True(v(hour, "a") != v(hour, "aa"))
	is.True(v(hour, "a") != v(hour.Add(1), "a"))
}

func TestOpener_OpenRangeContextEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, o := newDir(t)
	file := stat(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	body := must(o.OpenRange(ctx, parse(t, fileURL), rangeOf(file, 0, 10)))(t)
	defer body.Close()
	cancel()
	_, err := body.Read(make([]byte, 1))
	is.True(errors.Is(err, context.Canceled))
	is.True(errors.Is(err, exports.ErrFailed))
	_, err = o.OpenRange(ctx, parse(t, fileURL), rangeOf(file, 0, 10))
	is.True(errors.Is(err, context.Canceled))
}

// A file system may state a wrong size.
func TestOpener_OpenRangeOfTruncatedFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	info := &fstest.MapFile{Data: []byte("content"), ModTime: time.Now().Add(-time.Hour)}
	o := newOpener(t, "https://example.com/", truncatedFS{info})
	file := stat(t, o)
	body := must(o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, 1, 6)))(t)
	content, err := io.ReadAll(body)
	is.Equal(string(content), "ont")
	is.True(errors.Is(err, io.ErrUnexpectedEOF))
	is.True(errors.Is(err, exports.ErrFailed))
}
