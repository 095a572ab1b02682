package s3_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/matryer/is"

	"example.com/canvasback/exports/s3"
)

// static returns a provider of credentials that do not change.
func static(accessKey, secretKey string) aws.CredentialsProviderFunc {
	return func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
	}
}

func parse(t testing.TB, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	is.New(t).NoErr(err)
	return u
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
