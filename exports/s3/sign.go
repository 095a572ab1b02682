package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"example.com/canvasback/exports/filename"
)

const (
	service = "s3"

	// emptyPayload is the SHA-256 of a request without a body.
	emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

	// unsignedPayload stands for any body. Presigned URLs require it.
	unsignedPayload = "UNSIGNED-PAYLOAD"
)

// signer signs requests with the credentials of [Options].
type signer struct {
	credentials aws.CredentialsProvider
	region      string
	lifetime    time.Duration // of presigned URLs
	now         func() time.Time
}

// sign signs Host, Range and X-Amz-*. Proxies may change other header fields.
func (s *signer) sign(r *http.Request) error {
	credentials, err := s.retrieve(r.Context())
	if err != nil {
		return err
	}
	signed := &http.Request{Method: r.Method, URL: r.URL, Header: http.Header{"X-Amz-Content-Sha256": {emptyPayload}}}
	if value := r.Header.Get("Range"); value != "" {
		signed.Header.Set("Range", value)
	}
	if err := newSigner().SignHTTP(r.Context(), credentials, signed, emptyPayload, service, s.region, s.now()); err != nil {
		return err
	}
	maps.Copy(r.Header, signed.Header)
	return nil
}

// newSigner returns a signer for one request. Its cache of keys would ignore a
// change of the secret alone.
func newSigner() *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
}

func (s *signer) retrieve(ctx context.Context) (aws.Credentials, error) {
	credentials, err := s.credentials.Retrieve(ctx)
	if err == nil && !credentials.HasKeys() {
		err = errors.New("the provider has none")
	}
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("retrieve credentials: %w", err)
	}
	return credentials, nil
}

func (s *signer) presign(ctx context.Context, u *url.URL, fileName string) (string, error) {
	credentials, err := s.retrieve(ctx)
	if err != nil {
		return "", err
	}
	now := s.now()
	lifetime := s.lifetime
	if credentials.CanExpire {
		lifetime = min(lifetime, credentials.Expires.Sub(now))
	}
	if lifetime < time.Second {
		return "", errors.New("the credentials have expired")
	}
	query := u.Query()
	query.Set("X-Amz-Expires", strconv.FormatInt(int64(lifetime/time.Second), 10))
	if fileName != "" {
		query.Set("response-content-disposition", filename.Disposition("attachment", fileName))
	}
	u.RawQuery = query.Encode()
	request := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}
	signed, _, err := newSigner().PresignHTTP(ctx, credentials, request, unsignedPayload, service, s.region, now)
	return signed, err
}
