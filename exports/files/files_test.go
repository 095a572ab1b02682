package files_test

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/files"
	"example.com/canvasback/storage/testflag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

func newOpener(t testing.TB, prefix string, fsys fs.FS) *files.Opener {
	t.Helper()
	return must(files.New(prefix, fsys))(t)
}

func parse(t testing.TB, rawURL string) *url.URL {
	t.Helper()
	return must(url.Parse(rawURL))(t)
}

func TestNew_RejectsInvalidPrefix(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{
		"", "/files", "files", "ftp://example.com/", "http:///files", "http:files", "http://:80/", "http://example.com/%zz", "://",
		"http://user@example.com/", "http://example.com/?a", "http://example.com/?", "http://example.com/#a",
		"http://example.com/a/../b", "http://example.com/./", "http://example.com//", "http://example.com/a//b", "http://example.com/a//",
		"http://example.com/a%2Fb/", `http://example.com/a\b/`, "http://example.com/%00/", "http://example.com/%ff/",
	} {
		if _, err := files.New(prefix, fstest.MapFS{}); err == nil {
			t.Errorf("New accepts %s", prefix)
		}
	}
	if _, err := files.New("http://example.com/", nil); err == nil {
		t.Error("New accepts no file system")
	}
}

func TestOpener_Serves(t *testing.T) {
	t.Parallel()
	const (
		root    = "http://example.com"
		port    = "https://example.com:8443/files/"
		escaped = "https://example.com/my%20files"
	)
	for _, c := range []struct {
		prefix, url string
		want        bool
	}{
		{root, "http://example.com", true},
		{root, "http://example.com/a", true},
		{root, "HTTP://EXAMPLE.com.:80/a?b#c", true},
		{root, "https://example.com/a", false},
		{root, "http://example.com:443/a", false},
		{root, "http://www.example.com/a", false},
		{root, "http://example.com.evil/a", false},
		{root, "//example.com/a", false},
		{root, "http:example.com", false},
		{port, "https://example.com:8443/files/a", true},
		{port, "https://example.com:8443/files/a/../../b", true}, // Check rejects it
		{port, "https://example.com:8443/files", true},
		{port, "https://example.com:8443/f%69les/a", true},
		{port, "https://example.com:8443/files2/a", false},
		{port, "https://example.com:8443/FILES/a", false},
		{port, "https://example.com:8443/a/../files/a", false},
		{port, "https://example.com:8443/files%2Fa", false},
		{port, "https://example.com:8443//files/a", false},
		{port, "https://example.com:8443/", false},
		{port, "https://example.com/files/a", false},
		{escaped, "https://example.com:443/my%20files/a", true},
		{escaped, "https://example.com/my files/a", true},
		{escaped, "https://example.com/my+files/a", false},
	} {
		if got := newOpener(t, c.prefix, fstest.MapFS{}).Serves(parse(t, c.url)); got != c.want {
			t.Errorf("prefix %s: Serves(%s) = %t", c.prefix, c.url, got)
		}
	}
}

func TestOpener_Check(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOpener(t, "https://example.com/files", os.DirFS(t.TempDir()))
	for _, path := range []string{
		"", "/", "/.", "/..", "/./a", "/../a", "/a/.", "/a/..", "/a/../b", "/a//b", "//a", "/a/", "/%2e", "/%2e%2e", "/%2E%2e/a", "/a/%2e%2e/b",
		"/a%2Fb", "/a%2Fb c", "/a%2f..%2fb", "/%2Fetc%2Fpasswd", `/a\b`, "/a%5Cb", "/..%5ca", "/a%00", "/a%00.pdf", "/%ff",
	} {
		u := parse(t, "https://example.com/files"+path)
		is.True(o.Serves(u)) // so that no other Opener opens it
		err := o.Check(u)
		if forbidden, ok := errors.AsType[*exports.ForbiddenError](err); !ok || forbidden.Reason == "" {
			t.Errorf("Check(%s): %v", path, err)
		}
		if _, err := o.Open(t.Context(), u); !errors.Is(err, exports.ErrForbidden) {
			t.Errorf("Open(%s): %v", path, err)
		}
	}
	is.True(errors.Is(o.Check(parse(t, "https://example.com/other/a")), exports.ErrForbidden))
	is.True(errors.Is(o.Check(parse(t, "https://user@example.com/files/a")), exports.ErrForbidden))
	for _, path := range []string{"/a", "/a/b.pdf", "/...", "/a..b", "/..a", "/a%20b", "/%C3%A9", "/a?b=c#d", "/%25", "/a:b", "/a%3Fb", "/%252e%252e"} {
		is.NoErr(o.Check(parse(t, "https://example.com/files"+path)))
	}
}

func TestOpener_Open(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	modTime := time.Date(2024, 2, 29, 12, 0, 0, 5, time.UTC)
	dir := t.TempDir()
	is.NoErr(os.MkdirAll(filepath.Join(dir, "2024"), 0o700))
	write(t, filepath.Join(dir, "2024", "plan é?.PDF"), "content", modTime)
	root := must(os.OpenRoot(dir))(t)
	t.Cleanup(func() { root.Close() })
	for name, fsys := range map[string]fs.FS{
		"os.DirFS":     os.DirFS(dir),
		"os.Root":      root.FS(),
		"fstest.MapFS": fstest.MapFS{"2024/plan é?.PDF": {Data: []byte("content"), ModTime: modTime}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			o := newOpener(t, "https://example.com/files/", fsys)
			u := parse(t, "https://example.com/files/2024/plan%20%C3%A9%3F.PDF?v=1")
			described := must(o.Stat(t.Context(), u))(t)
			is.True(described.Validator != "") // although the file is new
			file := must(o.Open(t.Context(), u))(t)
			defer file.Body.Close()
			is.Equal(file.Size, int64(7))
			is.Equal(file.Name, "plan é?.PDF")
			is.Equal(file.Type, "application/pdf")
			is.Equal(file.Modified, modTime)
			is.Equal(file.ETag, fmt.Sprintf(`"%x-7"`, modTime.UnixNano()))
			content := must(io.ReadAll(file.Body))(t)
			is.Equal(string(content), "content")
			_, isFile := file.Body.(*os.File)
			is.Equal(isFile, name != "fstest.MapFS")
			file.Body = nil
			is.Equal(described, file)

			for _, open := range []func(context.Context, *url.URL) (*exports.File, error){o.Open, o.Stat} {
				_, err := open(t.Context(), parse(t, "https://example.com/files/2024"))
				is.True(errors.Is(err, exports.ErrForbidden)) // a directory
				_, err = open(t.Context(), parse(t, "https://example.com/files/2024/none"))
				is.True(errors.Is(err, exports.ErrFailed))
				is.True(errors.Is(err, exports.ErrGone))
				is.True(errors.Is(err, fs.ErrNotExist))
			}
		})
	}
}

func TestOpener_ContextEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "content", time.Now())
	for name, fsys := range map[string]fs.FS{
		"os.DirFS":     os.DirFS(dir),
		"fstest.MapFS": fstest.MapFS{"a": {Data: []byte("content")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				o := newOpener(t, "https://example.com/", fsys)
				ctx, cancel := context.WithCancel(t.Context())
				file := must(o.Open(ctx, parse(t, "https://example.com/a")))(t)
				defer file.Body.Close()
				cancel()
				synctest.Wait() // for the os.File to be closed
				_, err := file.Body.Read(nil)
				is.True(err != nil)

				_, err = o.Open(ctx, parse(t, "https://example.com/a"))
				is.True(errors.Is(err, exports.ErrFailed))
				is.True(errors.Is(err, context.Canceled))
				late, cancel := context.WithTimeout(t.Context(), 0)
				defer cancel()
				_, err = o.Open(late, parse(t, "https://example.com/a"))
				is.True(errors.Is(err, exports.ErrTimeout))
			})
		})
	}
}

func TestOpener_OpenContentType(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	fsys := fstest.MapFS{}
	want := map[string]string{
		"a.svg": "image/svg+xml", "a.JSON": "application/json", "a.dwg": "image/vnd.dwg", "a": "", "a.": "",
		"a.no-such-extension": "", "-.pdf": "application/pdf", "a.tar.zip": "application/zip", "a.geojson": "",
	}
	for name := range want {
		fsys[name] = &fstest.MapFile{}
	}
	o := newOpener(t, "https://example.com/", fsys)
	for name, want := range want {
		t.Log(name)
		file := must(o.Open(t.Context(), parse(t, "https://example.com/"+name)))(t)
		is.Equal(file.Type, want)
		file.Body.Close()
	}
}

//go:embed doc.go
var embedded embed.FS

func TestOpener_EmbeddedFileHasValidator(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOpener(t, "http://program.internal/", embedded)
	u := parse(t, "http://program.internal/doc.go")
	file := must(o.Stat(t.Context(), u))(t)
	is.True(file.Validator != "")
	content := must(embedded.ReadFile("doc.go"))(t)
	body, err := o.OpenRange(t.Context(), u, exports.Part{Validator: file.Validator, Size: file.Size, Offset: 100, Length: 50})
	is.NoErr(err)
	is.Equal(must(io.ReadAll(body))(t), content[100:150])
	_, err = o.OpenRange(t.Context(), u, exports.Part{Validator: "other", Size: file.Size, Length: 50})
	is.True(errors.Is(err, exports.ErrChanged))
}

func TestOpener_HiddenNamesDoNotExist(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	o := newOpener(t, "https://example.com/", fstest.MapFS{".env": {}, ".git/config": {}, "a/.git/config": {}, "a/.env": {}, "a..b": {}})
	for path, visible := range map[string]bool{".env": false, ".git/config": false, "a/.git/config": false, "a/%2eenv": false, "a..b": true} {
		_, err := o.Stat(t.Context(), parse(t, "https://example.com/"+path))
		is.Equal(err == nil, visible)
		is.Equal(errors.Is(err, exports.ErrGone), !visible)
	}
}

func TestOpener_OpenEntityTag(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	tag := func(file *fstest.MapFile) string {
		o := newOpener(t, "https://example.com/", fstest.MapFS{"a": file})
		f := must(o.Open(t.Context(), parse(t, "https://example.com/a")))(t)
		is.True(f.Modified.Equal(file.ModTime))
		is.NoErr(f.Body.Close())
		return f.ETag
	}
	hour := time.Now().Add(-time.Hour)
	is.Equal(tag(&fstest.MapFile{}), "") // no modification time
	strong := tag(&fstest.MapFile{ModTime: hour})
	is.True(strings.HasPrefix(strong, `"`))
	is.Equal(tag(&fstest.MapFile{ModTime: hour}), strong)
	is.True(tag(&fstest.MapFile{ModTime: hour.Add(1)}) != strong)
	is.True(tag(&fstest.MapFile{ModTime: hour, Data: []byte("1")}) != strong)
	for _, d := range []time.Duration{0, -time.Second, time.Hour} {
		weak := tag(&fstest.MapFile{ModTime: time.Now().Add(d)})
		is.True(strings.HasPrefix(weak, `W/"`)) // another change could have the same time
	}
}

// A file system may state a wrong size.
func TestOpener_OpenTruncatedFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	info := &fstest.MapFile{Data: []byte("content"), ModTime: time.Now().Add(-time.Hour)}
	o := newOpener(t, "https://example.com/", truncatedFS{info})
	file := must(o.Open(t.Context(), parse(t, fileURL)))(t)
	part := must(o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, 1, 6)))(t)
	for want, body := range map[string]io.Reader{"cont": file.Body, "ont": part} {
		content, err := io.ReadAll(body)
		is.Equal(string(content), want)
		is.True(errors.Is(err, io.ErrUnexpectedEOF))
		is.True(errors.Is(err, exports.ErrFailed))
	}
}

// truncatedFS has one file, which has only the first four bytes of its content.
type truncatedFS struct{ file *fstest.MapFile }

func (f truncatedFS) Open(string) (fs.File, error) {
	return truncatedFile{strings.NewReader(string(f.file.Data[:4])), f.file}, nil
}

type truncatedFile struct {
	*strings.Reader
	file *fstest.MapFile
}

func (f truncatedFile) Stat() (fs.FileInfo, error) { return fs.Stat(fstest.MapFS{"a": f.file}, "a") }
func (truncatedFile) Close() error                 { return nil }

func write(t testing.TB, name, content string, modTime time.Time) {
	t.Helper()
	is := is.New(t)
	is.NoErr(os.WriteFile(name, []byte(content), 0o600))
	is.NoErr(os.Chtimes(name, modTime, modTime))
}

func FuzzOpener_Check(f *testing.F) {
	for _, path := range []string{"a", "../a", "%2e%2e/a", "a%2Fb", "a//b", `a\b`, "a?b#c"} {
		f.Add(path)
	}
	o := newOpener(f, "https://example.com/files/", fstest.MapFS{})
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.Parse("https://example.com/files/" + path)
		if err != nil || o.Check(u) != nil {
			return
		}
		if _, err := o.Open(t.Context(), u); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Check accepts %q, but Open: %v", path, err)
		}
	})
}

func TestOpener_EscapingFileIsGone(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(outside, []byte("content"), 0o600))
	is.NoErr(os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600))
	if err := os.Symlink(outside, filepath.Join(dir, "escaping")); err != nil {
		t.Skip("cannot create symbolic links:", err)
	}
	is.NoErr(os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	root := must(os.OpenRoot(dir))(t)
	defer root.Close()
	opener := newOpener(t, "http://files.internal/", root.FS())
	for _, name := range []string{"missing", "escaping", "dangling", "file/below"} {
		_, err := opener.Open(t.Context(), parse(t, "http://files.internal/"+name))
		is.True(errors.Is(err, exports.ErrGone))
		is.True(errors.Is(err, exports.ErrFailed))
	}
}

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

func stat(t *testing.T, o *files.Opener) *exports.File {
	t.Helper()
	return must(o.Stat(t.Context(), parse(t, fileURL)))(t)
}

func rangeOf(file *exports.File, offset, length int64) exports.Part {
	return exports.Part{Validator: file.Validator, Size: file.Size, Offset: offset, Length: length}
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
					is.Equal(string(must(io.ReadAll(body))(t)), fileContent[offset:offset+length])
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

			ctx, cancel := context.WithCancel(t.Context())
			body = must(o.OpenRange(ctx, parse(t, fileURL), rangeOf(file, 0, 10)))(t)
			defer body.Close()
			cancel()
			_, err = body.Read(make([]byte, 1))
			is.True(errors.Is(err, context.Canceled))
			is.True(errors.Is(err, exports.ErrFailed))
		})
	}
}

// unseekableFS hides all methods of its files but those of [fs.File].
type unseekableFS struct{ fs.FS }

func (f unseekableFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	return struct{ fs.File }{file}, err
}

// changes are all ways in which a local file may change, given its modification time.
var changes = map[string]func(name string, modified time.Time) error{
	"overwritten": func(name string, _ time.Time) error { return overwrite(name, "abcdefghij") },
	"overwritten, same time": func(name string, modified time.Time) error {
		return errors.Join(overwrite(name, "abcdefghij"), os.Chtimes(name, modified, modified))
	},
	"replaced, same time": func(name string, modified time.Time) error {
		other := name + "2"
		return errors.Join(os.WriteFile(other, []byte("abcdefghij"), 0o600), os.Chtimes(other, modified, modified), os.Rename(other, name))
	},
	"truncated": func(name string, _ time.Time) error { return os.Truncate(name, 6) },
	"grown":     func(name string, _ time.Time) error { return os.Truncate(name, 20) },
}

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
			body := must(o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, 1, 9)))(t)
			defer body.Close()
			first := make([]byte, 3)
			must(io.ReadFull(body, first))(t)
			is.Equal(string(first), fileContent[1:4])
			is.NoErr(change(path, file.Modified))
			rest, err := io.ReadAll(body) // a file that was replaced has another link count
			is.True(errors.Is(err, exports.ErrChanged))
			is.Equal(len(rest), 0)
			_, err = o.OpenRange(t.Context(), parse(t, fileURL), rangeOf(file, 0, 5))
			is.True(errors.Is(err, exports.ErrChanged))
		})
	}
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

// growingFS has one file, which is longer each time it is described.
type growingFS struct{ size *int }

func (f growingFS) Open(string) (fs.File, error) { return f, nil }
func (growingFS) Read([]byte) (int, error)       { return 0, io.EOF }
func (growingFS) Close() error                   { return nil }

func (f growingFS) Stat() (fs.FileInfo, error) {
	*f.size++
	file := &fstest.MapFile{Data: make([]byte, *f.size), ModTime: time.Now().Add(-1990 * time.Millisecond)}
	return fs.Stat(fstest.MapFS{"a": file}, "a")
}

func TestOpener_StatAgainAfterWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := new(int)
		is.New(t).Equal(stat(t, newOpener(t, "https://example.com/", growingFS{size})).Size, int64(3))
	})
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
