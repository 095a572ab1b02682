package s3_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
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
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/matryer/is"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/s3"
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

// start starts a versitygw.
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
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	is.New(t).NoErr(err)
	defer listener.Close()
	return listener.Addr().String()
}

// do sends a signed request and returns the header and the body of the response.
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

// put stores an object and returns the header of the response.
func (g *gateway) put(t testing.TB, key string, content []byte) http.Header {
	t.Helper()
	response, _ := g.do(t, http.MethodPut, key, "", content, http.Header{
		"Content-Type": {"application/pdf"},
	})
	return response
}

// opener returns an Opener of the bucket. Change may modify its options.
func (g *gateway) opener(t testing.TB, change ...func(*s3.Options)) *s3.Opener {
	t.Helper()
	options := s3.Options{Buckets: []string{g.bucket}, Credentials: g.credentials, Region: g.region, Endpoint: g.url}
	for _, c := range change {
		c(&options)
	}
	opener, err := s3.New(&options)
	is.New(t).NoErr(err)
	t.Cleanup(opener.CloseIdleConnections)
	return opener
}

// objectURL returns the s3 URL of a key.
func (g *gateway) objectURL(key string) *url.URL {
	return &url.URL{Scheme: "s3", Host: g.bucket, Path: "/" + key}
}

// openKey returns the file of a key, and its content.
func openKey(t testing.TB, opener *s3.Opener, u *url.URL) (*exports.File, string) {
	t.Helper()
	file, err := opener.Open(t.Context(), parse(t, u.String()))
	is.New(t).NoErr(err)
	return file, read(t, file.Body)
}

// get returns the status and the body of a URL, as a browser requests it.
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
