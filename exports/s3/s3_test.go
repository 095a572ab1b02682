package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/matryer/is"
	"go.uber.org/goleak"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/s3"
	"example.com/canvasback/storage/testflag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must is [testflag.Must]: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T { return testflag.Must(value, err) }

func read(t testing.TB, body io.ReadCloser) string {
	t.Helper()
	defer body.Close()
	content := must(io.ReadAll(body))(t)
	return string(content)
}

// readPart returns a part of a file that has been described.
func readPart(t testing.TB, opener *s3.Opener, u *url.URL, file *exports.File, offset, length int64) string {
	t.Helper()
	part := exports.Part{Validator: file.Validator, Size: file.Size, Offset: offset, Length: length}
	return read(t, must(opener.OpenRange(t.Context(), u, part))(t))
}

// oddKeys are keys that URL libraries are known to change.
var oddKeys = []string{
	"a.pdf", "a b.pdf", "a+b.pdf", "a%20b", "100%", "%41", "a?b", "a#b", "a&b=c;d", "Ä/ö 図面.pdf", "e\u0301", "é", "😀",
	"~user/!'()*,:@$", `"quoted"<a>|{}^[]` + "`", "a//b", "/a", "a/", "a..b/...", ".hidden", "..a", strings.Repeat("k", 1024), strings.Repeat("ä", 512),
}

func TestOpener_OpensOddKeys(t *testing.T) {
	t.Parallel()
	store := newFakeStore(t)
	opener := store.opener(t)
	for _, key := range oddKeys {
		is := is.New(t)
		for _, u := range []*url.URL{
			{Scheme: "s3", Host: "plans", Path: "/" + key},
			{Scheme: "http", Host: strings.TrimPrefix(store.URL, "http://"), Path: "/plans/" + key},
		} {
			u = parse(t, u.String()) // as Register does
			before := opener.Stats().Attempts
			is.True(opener.Serves(u))
			is.NoErr(opener.Check(u))
			file := must(opener.Open(t.Context(), u))(t)
			is.Equal(read(t, file.Body), "content of plans/"+key)
			is.Equal(file.Size, int64(len("content of plans/"+key)))
			is.Equal(file.Validator, `"1"`)
			is.Equal(readPart(t, opener, u, file, 2, 5), "ntent")
			file = must(opener.Stat(t.Context(), u))(t)
			is.Equal(file.Size, int64(len("content of plans/"+key)))
			is.Equal(opener.Stats().Attempts, before+3)
			is.Equal(store.taken(), []string{"GET plans/" + key + " ", "GET plans/" + key + " bytes=2-6", "GET plans/" + key + " bytes=0-0"})
		}
	}
}

func TestOpener_OpensVersion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newFakeStore(t)
	versioned := parse(t, "s3://plans/a?versionId=3%2B%20x")
	file := must(store.opener(t, allowVersions).Open(t.Context(), versioned))(t)
	is.Equal(read(t, file.Body), "content of plans/a3+ x")
	is.True(errors.Is(store.opener(t).Check(versioned), exports.ErrForbidden)) // it may have been deleted since
}

func allowVersions(o *s3.Options) { o.AllowVersions = true }

func TestOpener_PublicURLHasTheFileName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	public := must(newFakeStore(t).opener(t).PublicURL(t.Context(), parse(t, "s3://plans/a"), "plan ä.pdf"))(t)
	query := parse(t, public).Query()
	is.Equal(query.Get("response-content-disposition"), `attachment; filename="plan _.pdf"; filename*=UTF-8''plan%20%C3%A4.pdf`)
}

func TestOpener_Probe(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newFakeStore(t)
	is.NoErr(store.opener(t).Probe(t.Context()))
	err := store.opener(t, func(o *s3.Options) { o.Credentials = static(fakeAccess, "another secret") }).Probe(t.Context())
	cause, ok := errors.AsType[*exports.CauseError](err)
	is.True(ok)
	is.Equal(cause.Cause, "the object store rejects the credentials (SignatureDoesNotMatch)")
	unused := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	is.NoErr(unused.Close())
	err = store.opener(t, func(o *s3.Options) { o.Endpoint, o.Fetch.MaxAttempts = "http://"+unused.Addr().String(), 1 }).Probe(t.Context())
	cause, ok = errors.AsType[*exports.CauseError](err)
	is.True(ok)
	is.Equal(cause.Cause, "the connection is refused")
}

// Nothing but objects below the configured prefixes can be opened.
func TestOpener_RejectsURL(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newFakeStore(t)
	opener := store.opener(t, allowVersions)
	base := store.URL
	for _, rawURL := range []string{ // of no configured bucket
		"s3://other/a", "s3://Plans/a", "s3://plans.example/a", "s3://plans:443/a", "s3://photo/public/a", "s3:///plans/a", "s3:plans/a", "S4://plans/a",
		base + "/other/a", base + "//plans/a", base + "/plan/a", base + "/", base, base + "/plans", base + "/%2e%2e/plans/a", base + "/./plans/a",
		"https" + strings.TrimPrefix(base, "http") + "/plans/a", "http://127.0.0.1/plans/a", "http://127.0.0.1:1/plans/a", "http://plans.127.0.0.1/a",
		"http://localhost" + base[strings.LastIndex(base, ":"):] + "/plans/a", "https://s3.amazonaws.com/plans/a", "http://169.254.169.254/plans/a",
		base + "/plans/a?X-Amz-Signature=0", "s3://plans/a?X-Amz-Signature=0", base + "/plans/a?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature=0",
		base + "/plans/a?AWSAccessKeyId=k&Expires=1&Signature=0", base + "/plans/a?GoogleAccessId=k&Expires=1&Signature=0",
	} {
		t.Log(rawURL)
		u := parse(t, rawURL)
		is.True(!opener.Serves(u))
		_, err := opener.Open(t.Context(), u)
		is.True(errors.Is(err, exports.ErrForbidden))
	}
	for _, rawURL := range []string{
		// not an object
		"s3://plans", "s3://plans/", base + "/plans/", "s3://plans?list-type=2", "s3://plans/?acl", base + "/plans/?list-type=2&prefix=a",
		// something else of an object, or of the bucket
		"s3://plans/a?acl", "s3://plans/a?tagging", "s3://plans/a?uploads", "s3://plans/a?torrent", "s3://plans/a?partNumber=1", "s3://plans/a?",
		"s3://plans/a?versionId=1&acl", "s3://plans/a?versionId=1&versionId=2", "s3://plans/a?versionId=", "s3://plans/a?versionid=1", "s3://plans/a?%zz", "s3://plans/a?a;b",
		"s3://plans/a?response-content-type=text/html", base + "/plans/a?X-Amz-Credential=x", base + "/plans/a?x-id=GetObject",
		// outside of the prefix
		"s3://photos/a", "s3://photos/public", "s3://photos/publi/a", "s3://photos/Public/a", "s3://photos//public/a", "s3://photos/private/a", base + "/photos/a",
		// segments that a gateway or proxy may resolve
		"s3://photos/public/../private/a", "s3://photos/public/%2e%2e/private/a", "s3://photos/public/%2E./private/a", "s3://photos/public/..%2Fprivate/a", "s3://plans/../other/a",
		"s3://plans/..", "s3://plans/a/..", "s3://plans/./a", "s3://plans/a/.", base + "/plans/../other/a", base + "/plans/..%2fother/a", base + "/plans/%2e%2e/other/a",
		`s3://plans/..\other\a`, `s3://plans/a%5c..%5cb`,
		// fragments, user info, characters
		"s3://plans/a#b", "s3://user:password@plans/a", "s3://user@plans/a", strings.Replace(base, "//", "//user:password@", 1) + "/plans/a",
		"s3://plans/a%00b", "s3://plans/a%0d%0aX-Amz-Acl:%20public", "s3://plans/a%7f", "s3://plans/a%ffb", "s3://plans/" + strings.Repeat("k", 1025), "s3://plans/" + strings.Repeat("ä", 513),
	} {
		t.Log(rawURL)
		u := parse(t, rawURL)
		is.True(opener.Serves(u))
		err := opener.Check(u)
		if forbidden, ok := errors.AsType[*exports.ForbiddenError](err); !ok || forbidden.Reason == "" {
			t.Errorf("Check(%q): %v", rawURL, err)
		}
		_, errOpen := opener.Open(t.Context(), u)
		_, errStat := opener.Stat(t.Context(), u)
		_, errRange := opener.OpenRange(t.Context(), u, exports.Part{Validator: `"1"`, Size: 1, Length: 1})
		_, errPublic := opener.PublicURL(t.Context(), u, "")
		for _, err := range []error{errOpen, errStat, errRange, errPublic} {
			t.Log(rawURL, err)
			is.True(errors.Is(err, exports.ErrForbidden))
		}
	}
	if taken := store.taken(); len(taken) > 0 {
		t.Errorf("requests %q", taken)
	}
}

func TestNew_RejectsOptions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	valid := s3.Options{Buckets: []string{"plans"}, Credentials: static("a", "b")}
	_, err := s3.New(nil)
	is.True(err != nil)
	must(s3.New(&valid))(t)
	for field, change := range map[string]func(*s3.Options){
		"Credentials":    func(o *s3.Options) { o.Credentials = nil },
		"Buckets":        func(o *s3.Options) { o.Buckets = nil },
		"Endpoint":       func(o *s3.Options) { o.Endpoint = "s3.example" },
		"PublicEndpoint": func(o *s3.Options) { o.PublicEndpoint = "https://user@s3.example" },
		"Region":         func(o *s3.Options) { o.Region = "a b" },
	} {
		options := valid
		change(&options)
		if _, err := s3.New(&options); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, entry := range []string{"", "/", "a", "a/b", "..", "pl ans", "plans..x", "plans?", "-plans", "plans/../x", "plans/./", "plans/\xff", "s3://plans", "https://s3.example/plans", "*"} {
		options := valid
		options.Buckets = []string{"ok-bucket", entry}
		if _, err := s3.New(&options); err == nil || !strings.Contains(err.Error(), "Buckets") {
			t.Errorf("bucket %q: %v", entry, err)
		}
	}
	for _, endpoint := range []string{"ftp://x.example", "//x.example", "https://", "https://x.example?a", "https://x.example#a", "https://x y", "https://a_b.example:0"} {
		options := valid
		options.Endpoint = endpoint
		if _, err := s3.New(&options); err == nil {
			t.Errorf("endpoint %q: no error", endpoint)
		}
	}
}

// The error of each failure has the code of the store, and no credentials.
func TestOpener_Errors(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("redirect followed: %v", r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	for _, c := range []struct {
		status   int
		code     string
		gone     bool
		attempts int
	}{
		{400, "ExpiredToken", false, 1},
		{400, "AuthorizationHeaderMalformed", false, 1},
		{403, "AccessDenied", false, 1},
		{403, "InvalidAccessKeyId", false, 1},
		{403, "InvalidObjectState", false, 1},
		{403, "RequestTimeTooSkewed", false, 1},
		{403, "SignatureDoesNotMatch", false, 1},
		{404, "NoSuchBucket", false, 1},
		{404, "NoSuchKey", true, 1},
		{404, "NoSuchVersion", true, 1},
		{301, "PermanentRedirect", false, 1},
		{307, "TemporaryRedirect", false, 1},
		{500, "InternalError", false, 2},
		{503, "SlowDown", false, 2},
	} {
		is := is.New(t)
		store := newFakeStore(t)
		attempts := 0
		store.handle = func(w http.ResponseWriter, r *http.Request) bool {
			attempts++
			if c.status < 400 {
				w.Header().Set("Location", elsewhere.URL)
			}
			writeError(w, c.status, c.code)
			return true
		}
		var log bytes.Buffer
		opener := store.opener(t, func(o *s3.Options) {
			o.Fetch.MaxAttempts = 2
			o.Fetch.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: fakeAccess, SecretAccessKey: fakeSecret, SessionToken: "session-token"}, nil
			})
		})
		_, err := opener.Open(t.Context(), parse(t, "s3://plans/a"))
		is.Equal(attempts, c.attempts)
		_, statErr := opener.Stat(t.Context(), parse(t, "s3://plans/a"))
		for _, err := range []error{err, statErr} {
			is.True(errors.Is(err, exports.ErrFailed))
			is.Equal(errors.Is(err, exports.ErrGone), c.gone)
			fmt.Fprintln(&log, err)
		}
		is.True(strings.Contains(err.Error(), fmt.Sprint(c.status)))
		is.True(strings.HasSuffix(err.Error(), ": "+c.code))
		for _, secret := range []string{fakeAccess, fakeSecret, "session-token", "Signature="} {
			is.True(!strings.Contains(log.String(), secret))
		}
	}
}

// Credentials are retrieved for each attempt, so a rotated secret is used at once.
func TestOpener_UsesRotatedCredentials(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	store := newFakeStore(t)
	current := aws.Credentials{AccessKeyID: fakeAccess, SecretAccessKey: fakeSecret}
	var failure error
	opener := store.opener(t, func(o *s3.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return current, failure })
	})
	open := func() error {
		file, err := opener.Open(t.Context(), parse(t, "s3://plans/a"))
		if err == nil {
			read(t, file.Body)
		}
		return err
	}
	is.NoErr(open())
	current.SecretAccessKey = "another secret of the same access key"
	is.True(errors.Is(open(), exports.ErrFailed))
	store.setSecret(current.SecretAccessKey)
	is.NoErr(open())
	current.SessionToken = "session-token" // is signed too
	is.NoErr(open())

	failure = errors.New("role cannot be assumed")
	is.True(errors.Is(open(), exports.ErrFailed))
	is.True(errors.Is(open(), failure))
	_, err := opener.PublicURL(t.Context(), parse(t, "s3://plans/a"), "")
	is.True(errors.Is(err, exports.ErrFailed))
	failure, current = nil, aws.Credentials{}
	is.True(errors.Is(open(), exports.ErrFailed))
}

func TestOpener_PublicURL(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC)
	expiring := func(in time.Duration) aws.CredentialsProvider {
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b", SessionToken: "c", CanExpire: true, Expires: now.Add(in)}, nil
		})
	}
	for name, c := range map[string]struct {
		change func(*s3.Options)
		open   string
		base   string
		expire string
	}{
		"default":           {func(*s3.Options) {}, "s3://plans/a b+c", "http://store.example:9000/plans/a%20b%2Bc", "900"},
		"default port":      {func(o *s3.Options) { o.Endpoint = "https://STORE.example:443/" }, "https://store.example/plans/a", "https://store.example/plans/a", "900"},
		"AWS":               {func(o *s3.Options) { o.Endpoint, o.Region = "", "eu-central-1" }, "s3://plans/a", "https://plans.s3.eu-central-1.amazonaws.com/a", "900"},
		"AWS, https URL":    {func(o *s3.Options) { o.Endpoint, o.Region = "", "eu-central-1" }, "https://plans.s3.eu-central-1.amazonaws.com/a", "https://plans.s3.eu-central-1.amazonaws.com/a", "900"},
		"bucket with dots":  {func(o *s3.Options) { o.Endpoint, o.Buckets = "", []string{"a.b.example"} }, "s3://a.b.example/a", "https://s3.us-east-1.amazonaws.com/a.b.example/a", "900"},
		"virtual host":      {func(o *s3.Options) { o.VirtualHost = true }, "http://store.example:9000/plans/a", "http://plans.store.example:9000/a", "900"},
		"endpoint path":     {func(o *s3.Options) { o.Endpoint = "https://store.example/storage/v1/s3/" }, "https://store.example/storage/v1/s3/plans/a", "https://store.example/storage/v1/s3/plans/a", "900"},
		"IPv6":              {func(o *s3.Options) { o.Endpoint = "http://[::1]:9000" }, "s3://plans/a", "http://[::1]:9000/plans/a", "900"},
		"public endpoint":   {func(o *s3.Options) { o.PublicEndpoint = "https://files.example" }, "https://files.example/plans/a", "https://files.example/plans/a", "900"},
		"lifetime":          {func(o *s3.Options) { o.PresignLifetime = time.Hour }, "s3://plans/a", "http://store.example:9000/plans/a", "3600"},
		"shortest lifetime": {func(o *s3.Options) { o.PresignLifetime = time.Millisecond }, "s3://plans/a", "http://store.example:9000/plans/a", "1"},
		"longest lifetime":  {func(o *s3.Options) { o.PresignLifetime = 1000 * time.Hour }, "s3://plans/a", "http://store.example:9000/plans/a", "604800"},
		"until credentials": {func(o *s3.Options) { o.Credentials = expiring(90500 * time.Millisecond) }, "s3://plans/a", "http://store.example:9000/plans/a", "90"},
		"expired":           {func(o *s3.Options) { o.Credentials = expiring(-time.Second) }, "s3://plans/a", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			options := s3.Options{Endpoint: "http://store.example:9000", Buckets: []string{"plans"}, Credentials: static("a", "b"), Now: func() time.Time { return now }}
			c.change(&options)
			opener := must(s3.New(&options))(t)
			public, err := opener.PublicURL(t.Context(), parse(t, c.open), "")
			if c.base == "" {
				is.True(errors.Is(err, exports.ErrFailed))
				return
			}
			is.NoErr(err)
			base, query, _ := strings.Cut(public, "?")
			is.Equal(base, c.base)
			is.Equal(parse(t, "?"+query).Query().Get("X-Amz-Expires"), c.expire)
			is.True(!opener.Serves(parse(t, public)))
		})
	}
}

func TestOpener_EndsWithContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	file := must(newFakeStore(t).opener(t).Open(ctx, parse(t, "s3://plans/a")))(t)
	defer file.Body.Close()
	cancel()
	_, err := io.ReadAll(file.Body)
	is.True(err != nil)
}

// plainCredentials are credentials that package fmt prints.
type plainCredentials aws.Credentials

func (c plainCredentials) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials(c), nil
}

func TestFormat_PrintsNoCredentials(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	options := s3.Options{Buckets: []string{"plans"}, Credentials: plainCredentials{SecretAccessKey: "a secret"}}
	opener := must(s3.New(&options))(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, value := range []any{options, &options, opener, exports.Options{Openers: []exports.Opener{opener}}} {
			is.True(!strings.Contains(fmt.Sprintf(verb, value), "secret"))
		}
	}
}

// static returns a provider of credentials that do not change.
func static(accessKey, secretKey string) aws.CredentialsProviderFunc {
	return func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
	}
}

func parse(t testing.TB, rawURL string) *url.URL {
	t.Helper()
	return must(url.Parse(rawURL))(t)
}

// The vectors are the examples "GET Object" of "Signature Calculations for the
// Authorization Header" and "Authenticating Requests: Using Query Parameters" in the
// API Reference of Amazon S3.
func TestOpener_SignatureVectors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	opener, err := s3.New(&s3.Options{
		Buckets:         []string{"examplebucket"},
		Credentials:     static("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
		Endpoint:        "https://s3.amazonaws.com",
		VirtualHost:     true,
		PresignLifetime: 24 * time.Hour,
		Now:             func() time.Time { return time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC) },
	})
	is.NoErr(err)
	request := must(http.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com/test.txt", nil))(t)
	request.Header.Set("Range", "bytes=0-9")
	request.Header.Set("User-Agent", "not signed")
	request.Header.Set("Accept-Encoding", "identity") // not signed
	is.NoErr(opener.Sign(request))
	is.Equal(request.Header.Get("X-Amz-Date"), "20130524T000000Z")
	is.Equal(request.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "+
		"SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")

	public := must(opener.PublicURL(t.Context(), parse(t, "s3://examplebucket/test.txt"), ""))(t)
	is.Equal(public, "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"+
		"&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"+
		"&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")
}
