package s3_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/s3"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/storage/testflag"
)

// gateway is a bucket of a real object store.
type gateway struct {
	url         string // without a slash at its end
	bucket      string
	region      string
	credentials aws.CredentialsProviderFunc
	dir         string // of the bucket's files, empty if it is on another machine
}

// newGateway returns a new bucket at the endpoint in CANVASBACK_TEST_S3, with the
// credentials and the region in the environment variables of AWS, or else of a
// versitygw that it starts.
func newGateway(t testing.TB) *gateway {
	t.Helper()
	g := &gateway{
		url:         strings.TrimRight(os.Getenv("CANVASBACK_TEST_S3"), "/"),
		bucket:      "canvasback-" + strings.ToLower(rand.Text()),
		region:      cmp.Or(os.Getenv("AWS_REGION"), "us-east-1"),
		credentials: static(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")),
	}
	if g.url == "" {
		g.start(t)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	g.do(t, http.MethodPut, "", "", nil, nil)
	return g
}

func (g *gateway) start(t testing.TB) {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		path, _ := exec.Command("go", "env", "GOPATH").Output()
		program, err = exec.LookPath(filepath.Join(strings.TrimSpace(string(path)), "bin", "versitygw"))
	}
	if err != nil {
		message := "versitygw is not installed: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0, or set CANVASBACK_TEST_S3"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	data, versions := t.TempDir(), t.TempDir()
	const access, secret = "test-access", "test-secret"
	g.region, g.credentials, g.dir = "us-east-1", static(access, secret), filepath.Join(data, g.bucket)
	address := freeAddress(t)
	g.url = "http://" + address
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "--port", address, "--access", access, "--secret", secret, "--keep-alive", "--quiet",
		"posix", "--versioning-dir", versions, data)
	command.Env = []string{"HOME=" + data}
	command.Stdout, command.Stderr = &log, &log
	is.New(t).NoErr(command.Start())
	t.Cleanup(func() {
		cancel()
		command.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			cancel()
			command.Wait()
			t.Fatalf("versitygw did not start: %v\n%s", err, &log)
		}
	}
}

// freeAddress returns a loopback address that nothing listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener := must(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}

func (g *gateway) do(t testing.TB, method, key, query string, content []byte, header http.Header) (http.Header, string) {
	t.Helper()
	is := is.New(t)
	escaped := strings.ReplaceAll(url.QueryEscape(key), "+", "%20")
	target := g.url + "/" + g.bucket + "/" + strings.ReplaceAll(escaped, "%2F", "/")
	if key == "" {
		target = strings.TrimSuffix(target, "/")
	}
	request := must(http.NewRequestWithContext(t.Context(), method, target+"?"+query, bytes.NewReader(content)))(t)
	for name, values := range header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	const unsigned = "UNSIGNED-PAYLOAD"
	request.Header.Set("X-Amz-Content-Sha256", unsigned)
	credentials, _ := g.credentials(t.Context())
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	is.NoErr(signer.SignHTTP(t.Context(), credentials, request, unsigned, "s3", g.region, time.Now()))
	response := must(http.DefaultTransport.RoundTrip(request))(t)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %q?%s: %s %s %v", method, key, query, response.Status, body, err)
	}
	return response.Header, string(body)
}

func (g *gateway) put(t testing.TB, key string, content []byte) http.Header {
	t.Helper()
	response, _ := g.do(t, http.MethodPut, key, "", content, http.Header{
		"Content-Type": {"application/pdf"},
	})
	return response
}

func (g *gateway) opener(t testing.TB, change ...func(*s3.Options)) *s3.Opener {
	t.Helper()
	return newOpener(t, s3.Options{
		Buckets: []string{g.bucket}, Credentials: g.credentials, Region: g.region, Endpoint: g.url,
	}, change)
}

func (g *gateway) objectURL(key string) *url.URL {
	return &url.URL{Scheme: "s3", Host: g.bucket, Path: "/" + key}
}

func openKey(t testing.TB, opener *s3.Opener, u *url.URL) (*exports.File, string) {
	t.Helper()
	file := must(opener.Open(t.Context(), parse(t, u.String())))(t)
	return file, read(t, file.Body)
}

func get(t testing.TB, rawURL string) (int, string) {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, rawURL, nil))(t)
	response := must(http.DefaultTransport.RoundTrip(request))(t)
	return response.StatusCode, read(t, response.Body)
}

// putParts stores an object with a multipart upload, and returns its CRC-32.
func (g *gateway) putParts(t testing.TB, key string, parts iter.Seq[[]byte]) (sum uint32) {
	t.Helper()
	_, body := g.do(t, http.MethodPost, key, "uploads=", nil, nil)
	_, id, _ := strings.Cut(body, "<UploadId>")
	id, _, _ = strings.Cut(id, "<")
	var list strings.Builder
	number := 0
	for part := range parts {
		number++
		sum = crc32.Update(sum, crc32.IEEETable, part)
		response, _ := g.do(t, http.MethodPut, key, fmt.Sprintf("partNumber=%d&uploadId=%s", number, id), part, nil)
		fmt.Fprintf(&list, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", number, response.Get("ETag"))
	}
	g.do(t, http.MethodPost, key, "uploadId="+id, []byte("<CompleteMultipartUpload>"+list.String()+"</CompleteMultipartUpload>"), nil)
	return sum
}

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
		is.Equal(must(opener.Stat(t.Context(), g.objectURL(key)))(t).Validator, file.Validator)
		_, got = openKey(t, opener, parse(t, g.url+"/"+g.bucket+(&url.URL{Path: "/" + key}).EscapedPath()))
		is.Equal(got, content)
		is.Equal(readPart(t, opener, g.objectURL(key), file, 3, 4), "tent")
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
	is.Equal(readPart(t, opener, g.objectURL("empty"), file, 0, 0), "")
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
	is.Equal(must(opener.Stat(t.Context(), previous))(t).Validator, file.Validator)
	is.Equal(readPart(t, opener, previous, file, 1, 2), "ir")
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
	valid := must(g.credentials(t.Context()))(t)
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

// link returns a download link of objects.
func (g *gateway) link(t testing.TB, opener *s3.Opener, keys ...string) *exports.Link {
	t.Helper()
	service := must(exports.NewService(memory.New().Exports(), &exports.Options{Openers: []exports.Opener{opener}}))(t)
	t.Cleanup(func() { is.New(t).NoErr(service.Flush(context.Background())) })
	for _, key := range keys {
		_, _, err := service.Register(t.Context(), exports.Registration{SourceURL: key, ExportedURL: g.objectURL(key).String()})
		is.New(t).NoErr(err)
	}
	items := must(service.FindBatch(t.Context(), exports.BatchOf(keys...)))(t)
	return must(service.CreateLink(t.Context(), exports.LinkRequest{Items: items}))(t)
}

// A link to objects is complete before any of them is read.
func TestGateway_Link(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	var keys []string
	want := make(map[string]string)
	for i, size := range []int{0, 1, 1 << 10, 3 << 20} {
		name := fmt.Sprintf("plan %d.pdf", i)
		content := make([]byte, size)
		rand.Read(content)
		want[name] = string(content)
		g.put(t, name, content)
		keys = append(keys, name)
	}
	link := g.link(t, g.opener(t), keys...)
	is.True(link.Resumable())
	got := must(zip.NewReader(linkReaderAt{t, link}, link.Size))(t)
	is.Equal(len(got.File), len(want))
	for _, f := range got.File {
		is.True(read(t, must(f.Open())(t)) == want[f.Name])
	}
}

func TestGateway_MultipartObject(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	opener := g.opener(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	content = append(content, "the second part"...)
	g.putParts(t, "a", slices.Values([][]byte{content[:5<<20], content[5<<20:]}))
	file, got := openKey(t, opener, g.objectURL("a"))
	is.True(got == string(content))
	is.True(strings.HasSuffix(file.Validator, `-2"`))
	is.Equal(readPart(t, opener, g.objectURL("a"), file, 5<<20-3, 6), "defthe")
}

// An object of 5 GiB in 80 parts is downloaded completely, and in a zip by a link.
// Its upload takes half a minute and 5 GiB of disk.
func TestGateway_LargeMultipartObject(t *testing.T) {
	if !*testflag.Long {
		t.Skip("run with -long")
	}
	is := is.New(t)
	g := newGateway(t)
	opener := g.opener(t)
	const partSize, size = 64 << 20, 5 << 30
	start := time.Now()
	step := func(name string) {
		t.Logf("%s: %v", name, time.Since(start).Round(time.Millisecond))
		start = time.Now()
	}
	sum := g.putParts(t, "large", func(yield func([]byte) bool) {
		for i := range size / partSize {
			if !yield(bytes.Repeat([]byte{byte(i)}, partSize)) {
				return
			}
		}
	})
	step("upload")
	file := must(opener.Stat(t.Context(), g.objectURL("large")))(t)
	is.Equal(file.Size, int64(size))
	is.Equal(readPart(t, opener, g.objectURL("large"), file, 4<<30-2, 4), "\x3f\x3f\x40\x40")
	step("stat and range")
	file = must(opener.Open(t.Context(), g.objectURL("large")))(t)
	hash := crc32.NewIEEE()
	n := must(io.Copy(hash, file.Body))(t)
	is.NoErr(file.Body.Close())
	is.Equal(n, int64(size))
	is.Equal(hash.Sum32(), sum)
	step("download")

	link := g.link(t, opener, "large", "large")
	is.True(link.Resumable() && link.Size > 2*size)
	archive := must(zip.NewReader(linkReaderAt{t, link}, link.Size))(t)
	is.Equal(archive.File[1].CRC32, sum)
	is.Equal(archive.File[1].UncompressedSize64, uint64(size))
	step("directory of the link")
}

// sectionBuffer is an [exports.LinkWriter] of one section.
type sectionBuffer struct {
	bytes.Buffer
	section exports.Section
}

func (b *sectionBuffer) Select(*exports.Link) ([]exports.Section, error) {
	return []exports.Section{b.section}, nil
}
func (b *sectionBuffer) Begin(*exports.Link, int) error { return nil }
func (b *sectionBuffer) Flush() error                   { return nil }

// linkReaderAt reads a link in ranges, as a resumed download.
type linkReaderAt struct {
	t    *testing.T
	link *exports.Link
}

func (l linkReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	n := min(int64(len(p)), l.link.Size-offset)
	part := sectionBuffer{section: exports.Section{Offset: offset, Length: n}}
	if _, err := l.link.Serve(l.t.Context(), &part); err != nil {
		return 0, err
	}
	copy(p, part.Bytes())
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// An object of 5 GiB is a sparse file of the gateway.
func TestGateway_LargeObject(t *testing.T) {
	is := is.New(t)
	g := newGateway(t)
	if g.dir == "" {
		t.Skip("the files of the endpoint in CANVASBACK_TEST_S3 are on another machine")
	}
	const size = 5 << 30
	f := must(os.Create(filepath.Join(g.dir, "large")))(t)
	defer f.Close()
	is.NoErr(f.Truncate(size))
	must(f.WriteAt([]byte("the end"), size-7))(t)
	is.NoErr(os.Chtimes(f.Name(), time.Time{}, time.Now().Add(-time.Minute)))
	file := must(g.opener(t).Stat(t.Context(), g.objectURL("large")))(t)
	is.Equal(file.Size, int64(size))
	is.Equal(readPart(t, g.opener(t), g.objectURL("large"), file, size-8, 8), "\x00the end")
}
