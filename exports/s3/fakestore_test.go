package s3_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/canvasback/exports/s3"
)

const (
	fakeAccess = "AKIDEXAMPLE"
	fakeSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// fakeStore is an object store with one object of any key in any bucket. It
// computes signatures without the AWS SDK.
type fakeStore struct {
	*httptest.Server
	handle func(w http.ResponseWriter, r *http.Request) bool // it has responded if it returns true

	mu       sync.Mutex
	secret   string
	requests []string // method, bucket/key and query of those with a valid signature
}

func newFakeStore(t testing.TB) *fakeStore {
	t.Helper()
	s := &fakeStore{secret: fakeSecret}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *fakeStore) setSecret(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret = secret
}

// taken returns the requests since the previous call.
func (s *fakeStore) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.requests
	s.requests = nil
	return taken
}

func (s *fakeStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handle != nil && s.handle(w, r) {
		return
	}
	if code := verify(r, s.secret); code != "" {
		writeError(w, http.StatusForbidden, code)
		return
	}
	s.requests = append(s.requests, r.Method+" "+r.URL.Path[1:]+" "+r.Header.Get("Range"))
	w.Header().Set("Content-Type", "application/pdf")
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader("content of "+r.URL.Path[1:]+r.URL.Query().Get("versionId")))
}

func writeError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><AWSAccessKeyId>%s</AWSAccessKeyId></Error>`, code, fakeAccess)
}

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=` + fakeAccess + `/(\d{8})/([a-z0-9-]+)/s3/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$`)

// canonicalPath matches the only path that is signed for a key.
var canonicalPath = regexp.MustCompile(`^/([A-Za-z0-9/._~-]|%[0-9A-F]{2})*$`)

// verify returns the code of the error of a request, or the empty string if its
// signature is valid ("Signature Calculations for the Authorization Header" in the
// API Reference of Amazon S3).
func verify(r *http.Request, secret string) string {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	match := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	switch {
	case match == nil:
		return "AccessDenied"
	case !canonicalPath.MatchString(path):
		return "InvalidURI"
	case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sha256.New().Sum(nil)):
		return "XAmzContentSHA256Mismatch"
	case strings.HasPrefix(query, "X-Amz"):
		return "AuthorizationQueryParametersError"
	}
	day, region, names, signature := match[1], match[2], strings.Split(match[3], ";"), match[4]
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || at.Format("20060102") != day || time.Since(at).Abs() > 15*time.Minute {
		return "RequestTimeTooSkewed"
	}
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") && !slices.Contains(names, name) {
			return "AccessDenied" // every x-amz field must be signed
		}
	}
	parameters, _ := url.ParseQuery(query)
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, path, strings.ReplaceAll(parameters.Encode(), "+", "%20"))
	for _, name := range names {
		fmt.Fprintf(&canonical, "%s:%s\n", name, cmp.Or(map[string]string{"host": r.Host}[name], r.Header.Get(name)))
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", match[3], r.Header.Get("X-Amz-Content-Sha256"))
	digest := sha256.Sum256([]byte(canonical.String()))
	text := fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%x", r.Header.Get("X-Amz-Date"), day, region, digest)
	key := []byte("AWS4" + secret)
	for _, part := range []string{day, region, "s3", "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		io.WriteString(mac, part)
		key = mac.Sum(nil)
	}
	if hex.EncodeToString(key) != signature {
		return "SignatureDoesNotMatch"
	}
	return ""
}

// opener returns an Opener of the buckets plans and photos/public/.
func (s *fakeStore) opener(t testing.TB, change ...func(*s3.Options)) *s3.Opener {
	t.Helper()
	return newOpener(t, s3.Options{
		Buckets: []string{"plans", "photos/public/"}, Endpoint: s.URL, Credentials: static(fakeAccess, fakeSecret),
	}, change)
}

func newOpener(t testing.TB, options s3.Options, change []func(*s3.Options)) *s3.Opener {
	t.Helper()
	for _, c := range change {
		c(&options)
	}
	opener := must(s3.New(&options))(t)
	t.Cleanup(opener.CloseIdleConnections)
	return opener
}
