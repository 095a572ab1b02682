package s3_test

import (
	"archive/zip"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/s3"
	"example.com/canvasback/storage/memory"
)

func TestGateway_OddKeys(t *testing.T) {
	g := newGateway(t)
	opener := g.opener(t)
	// Keys that a gateway over a file system cannot store are left to the fake
	// store: they end with a slash, have empty segments or more than 255 bytes in one.
	keys := slices.DeleteFunc(slices.Clone(oddKeys), func(key string) bool {
		return strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") || strings.Contains(key, "//") || len(key) > 255
	})
	segment := strings.Repeat("ä", 127) + "/"
	keys = append(keys, strings.Repeat(segment, 4)+"bcdf") // 1,024 bytes
	for _, key := range keys {
		is := is.New(t)
		content := "content of " + key
		g.put(t, key, []byte(content))
		file, got := openKey(t, opener, g.objectURL(key))
		is.Equal(got, content)
		is.Equal(file.Size, int64(len(content)))
		is.Equal(file.Type, "application/pdf")
		stat := must(opener.Stat(t.Context(), g.objectURL(key)))(t)
		is.Equal(stat.Validator, file.Validator)
		_, got = openKey(t, opener, parse(t, g.url+"/"+g.bucket+(&url.URL{Path: "/" + key}).EscapedPath()))
		is.Equal(got, content)
		part, err := opener.OpenRange(t.Context(), g.objectURL(key), exports.Part{Validator: file.Validator, Size: file.Size, Offset: 3, Length: 4})
		is.NoErr(err)
		is.Equal(read(t, part), "tent")
		public := must(opener.PublicURL(t.Context(), g.objectURL(key), ""))(t)
		status, got := get(t, public)
		is.Equal(status, http.StatusOK)
		is.Equal(got, content)
	}
}

func TestGateway_PublicURLIsLimited(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	g.put(t, "a", []byte("content"))
	g.put(t, "b", []byte("content"))
	public := must(g.opener(t).PublicURL(t.Context(), g.objectURL("a"), ""))(t)
	status, _ := get(t, strings.Replace(public, "/a?", "/b?", 1))
	is.Equal(status, http.StatusForbidden)
	expired := g.opener(t, func(o *s3.Options) { o.Now = func() time.Time { return time.Now().Add(-16 * time.Minute) } })
	public = must(expired.PublicURL(t.Context(), g.objectURL("a"), ""))(t)
	status, _ = get(t, public)
	is.Equal(status, http.StatusForbidden)
}

func TestGateway_EmptyObject(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	opener := g.opener(t)
	g.put(t, "empty", nil)
	file, content := openKey(t, opener, g.objectURL("empty"))
	is.Equal(content, "")
	is.Equal(file.Size, int64(0))
	file = must(opener.Stat(t.Context(), g.objectURL("empty")))(t)
	is.Equal(file.Size, int64(0))
	part := must(opener.OpenRange(t.Context(), g.objectURL("empty"), exports.Part{Validator: file.Validator}))(t)
	is.Equal(read(t, part), "")
}

func TestGateway_ChangedObject(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	opener := g.opener(t)
	g.put(t, "a", []byte("first"))
	file := must(opener.Stat(t.Context(), g.objectURL("a")))(t)
	g.put(t, "a", []byte("other"))
	_, err := opener.OpenRange(t.Context(), g.objectURL("a"), exports.Part{Validator: file.Validator, Size: 5, Offset: 1, Length: 2})
	is.True(errors.Is(err, exports.ErrChanged))
}

func TestGateway_VersionedObject(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	opener := g.opener(t, allowVersions)
	g.do(t, http.MethodPut, "", "versioning=", []byte(`<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>`), nil)
	first := g.put(t, "a", []byte("first")).Get("X-Amz-Version-Id")
	g.put(t, "a", []byte("second"))
	previous := g.objectURL("a")
	previous.RawQuery = "versionId=" + first
	_, content := openKey(t, opener, g.objectURL("a"))
	is.Equal(content, "second")
	current := must(opener.Stat(t.Context(), g.objectURL("a")))(t)
	g.do(t, http.MethodDelete, "a", "", nil, nil)
	_, err := opener.Open(t.Context(), g.objectURL("a"))
	is.True(errors.Is(err, exports.ErrGone))
	_, err = opener.OpenRange(t.Context(), g.objectURL("a"), exports.Part{Validator: current.Validator, Size: current.Size, Length: 1})
	is.True(errors.Is(err, exports.ErrGone))

	// The version stays, in each way to open it.
	file, content := openKey(t, opener, previous)
	is.Equal(content, "first")
	stat := must(opener.Stat(t.Context(), previous))(t)
	is.Equal(stat.Validator, file.Validator)
	part, err := opener.OpenRange(t.Context(), previous, exports.Part{Validator: file.Validator, Size: 5, Offset: 1, Length: 2})
	is.NoErr(err)
	is.Equal(read(t, part), "ir")
	public := must(opener.PublicURL(t.Context(), previous, ""))(t)
	status, content := get(t, public)
	is.Equal(status, http.StatusOK)
	is.Equal(content, "first")

	g.do(t, http.MethodDelete, "a", previous.RawQuery, nil, nil)
	_, err = opener.Open(t.Context(), previous)
	is.True(errors.Is(err, exports.ErrFailed))
	t.Log(err)
}

func TestGateway_Errors(t *testing.T) {
	g := newGateway(t)
	g.put(t, "a", []byte("content"))
	valid, err := g.credentials(t.Context())
	is.New(t).NoErr(err)
	other := g.bucket + "x"
	for _, c := range []struct {
		url    *url.URL
		change func(*s3.Options)
		gone   bool
		text   string
	}{
		{g.objectURL("b"), func(*s3.Options) {}, true, "404 Not Found"},
		{&url.URL{Scheme: "s3", Host: other, Path: "/a"}, func(o *s3.Options) { o.Buckets = []string{other} }, false, "NoSuchBucket"},
		{g.objectURL("a"), func(o *s3.Options) { o.Credentials = static("unknown", "unknown") }, false, "unexpected status 40"},
		{g.objectURL("a"), func(o *s3.Options) { o.Credentials = static(valid.AccessKeyID, "wrong") }, false, "SignatureDoesNotMatch"},
		{g.objectURL("a"), func(o *s3.Options) { o.Now = func() time.Time { return time.Now().Add(-time.Hour) } }, false, "RequestTimeTooSkewed"},
		{g.objectURL("a"), func(o *s3.Options) { o.Now = func() time.Time { return time.Now().Add(time.Hour) } }, false, "RequestTimeTooSkewed"},
		{g.objectURL("a"), func(o *s3.Options) { o.Region = "elsewhere-1" }, false, "AuthorizationHeaderMalformed"},
	} {
		opener := g.opener(t, c.change)
		_, errOpen := opener.Open(t.Context(), c.url)
		_, errStat := opener.Stat(t.Context(), c.url)
		for _, err := range []error{errOpen, errStat} {
			if !errors.Is(err, exports.ErrFailed) || errors.Is(err, exports.ErrGone) != c.gone || !strings.Contains(err.Error(), c.text) {
				t.Errorf("want %s, got %v", c.text, err)
			}
			if strings.Contains(err.Error(), valid.SecretAccessKey) || strings.Contains(err.Error(), "Signature=") {
				t.Errorf("credentials in %v", err)
			}
		}
	}
}

// A link to objects is complete before any of them is read.
func TestGateway_Link(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	service, err := exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{g.opener(t)}})
	is.NoErr(err)
	var sources []string
	want := make(map[string]string)
	for i, size := range []int{0, 1, 1 << 10, 3 << 20} {
		name := fmt.Sprintf("plan %d.pdf", i)
		content := make([]byte, size)
		rand.Read(content)
		want[name] = string(content)
		g.put(t, name, content)
		_, _, err := service.Register(t.Context(), exports.Registration{SourceURL: name, ExportedURL: g.objectURL(name).String()})
		is.NoErr(err)
		sources = append(sources, name)
	}
	items := must(service.FindBatch(t.Context(), exports.BatchOf(sources...)))(t)
	link := must(service.CreateLink(t.Context(), exports.LinkRequest{Items: items}))(t)
	is.True(link.Resumable())
	got := must(zip.NewReader(linkReaderAt{t, link}, link.Size))(t)
	is.Equal(len(got.File), len(want))
	for _, f := range got.File {
		body := must(f.Open())(t)
		is.True(read(t, body) == want[f.Name])
	}
	is.NoErr(service.Flush(t.Context()))
}
