package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
)

const maxPresignLifetime = 7 * 24 * time.Hour // limit of Signature Version 4

// Opener opens objects. It is safe for concurrent use if the credentials provider
// is, and should be reused, because it pools connections.
type Opener struct {
	locations []location
	versions  bool // are allowed
	endpoint  endpoint
	public    endpoint // of presigned URLs
	signer    signer
	fetcher   *fetch.Opener
}

var (
	_ exports.RangeOpener    = (*Opener)(nil)
	_ exports.AdaptiveOpener = (*Opener)(nil)
	_ exports.Presigner      = (*Opener)(nil)
)

// New returns an Opener. It returns an error if options are missing or malformed.
func New(options *Options) (*Opener, error) {
	options = cmp.Or(options, new(Options))
	o := &Opener{
		versions: options.AllowVersions,
		signer: signer{
			credentials: options.Credentials,
			region:      cmp.Or(options.Region, "us-east-1"),
			lifetime:    min(max(cmp.Or(options.PresignLifetime, 15*time.Minute), time.Second), maxPresignLifetime),
			now:         options.Now,
		},
	}
	if options.Now == nil {
		o.signer.now = time.Now
	}
	if options.Credentials == nil {
		return nil, errors.New("s3: Credentials is nil")
	}
	if len(options.Buckets) == 0 {
		return nil, errors.New("s3: Buckets is empty")
	}
	for _, entry := range options.Buckets {
		location, err := parseLocation(entry)
		if err != nil {
			return nil, err
		}
		o.locations = append(o.locations, location)
	}
	base, virtualHost := options.Endpoint, options.VirtualHost
	if base == "" {
		base, virtualHost = "https://s3."+o.signer.region+".amazonaws.com", true
	}
	var err error
	if o.endpoint, err = parseEndpoint(base, virtualHost); err != nil {
		return nil, fmt.Errorf("s3: invalid Endpoint or Region: %w", err)
	}
	if o.public, err = parseEndpoint(cmp.Or(options.PublicEndpoint, base), virtualHost); err != nil {
		return nil, fmt.Errorf("s3: invalid PublicEndpoint: %w", err)
	}

	fetching := options.Fetch
	fetching.OnlyAllowed, fetching.AllowedHosts = true, nil
	for _, location := range o.locations {
		u := o.endpoint.objectURL(object{bucket: location.bucket})
		port := cmp.Or(u.Port(), defaultPorts[u.Scheme])
		fetching.AllowedHosts = append(fetching.AllowedHosts, net.JoinHostPort(u.Hostname(), port))
	}
	fetching.MaxRedirects = -1
	fetching.Sign = o.signer.sign
	if o.fetcher, err = fetch.New(&fetching); err != nil {
		return nil, fmt.Errorf("s3: invalid Endpoint: %w", err)
	}
	return o, nil
}

// Stats counts the requests to the object store.
func (o *Opener) Stats() fetch.Stats { return o.fetcher.Stats() }

// Probe opens an object that need not exist in each of [Options.Buckets]. Its error tells
// which cannot be used, such as with wrong credentials; permissions alone are not seen.
func (o *Opener) Probe(ctx context.Context) error {
	var failed []error
	for _, location := range o.locations {
		file, err := o.fetcher.Open(ctx, o.endpoint.objectURL(object{bucket: location.bucket, key: location.prefix + "canvasback-probe"}))
		if err == nil {
			file.Body.Close()
			continue
		}
		cause, ok := errors.AsType[*exports.CauseError](err)
		if !errors.Is(err, exports.ErrGone) && !(ok && cause.Code == "AccessDenied") { // of an absent object, without the right to list
			failed = append(failed, fmt.Errorf("bucket %s: %w", location.bucket, err))
		}
	}
	return errors.Join(failed...)
}

// Serves reports whether u is the URL of an object in one of [Options.Buckets], and
// not presigned.
func (o *Opener) Serves(u *url.URL) bool {
	_, ok := o.findObject(u)
	return ok
}

// Check rejects URLs that name no object or one outside of the prefixes. The error
// is an [exports.ForbiddenError].
func (o *Opener) Check(u *url.URL) error {
	_, err := o.checkObject(u)
	return err
}

// Open implements [exports.Opener]. Its errors are those of [fetch.Opener.Open],
// with the error code of the object store in their text.
func (o *Opener) Open(ctx context.Context, u *url.URL) (*exports.File, error) {
	target, err := o.target(u)
	if err != nil {
		return nil, err
	}
	return o.fetcher.Open(ctx, target)
}

// Stat implements [exports.RangeOpener].
func (o *Opener) Stat(ctx context.Context, u *url.URL) (*exports.File, error) {
	target, err := o.target(u)
	if err != nil {
		return nil, err
	}
	return o.fetcher.Stat(ctx, target)
}

// OpenRange implements [exports.RangeOpener].
func (o *Opener) OpenRange(ctx context.Context, u *url.URL, r exports.Part) (io.ReadCloser, error) {
	target, err := o.target(u)
	if err != nil {
		return nil, err
	}
	return o.fetcher.OpenRange(ctx, target, r)
}

func (o *Opener) target(u *url.URL) (*url.URL, error) {
	found, err := o.checkObject(u)
	if err != nil {
		return nil, err
	}
	return o.endpoint.objectURL(found), nil
}

// Concurrency implements [exports.AdaptiveOpener].
func (o *Opener) Concurrency(u *url.URL) int {
	if target, err := o.target(u); err == nil {
		u = target
	}
	return o.fetcher.Concurrency(u)
}

// CloseIdleConnections closes pooled connections that are not in use.
func (o *Opener) CloseIdleConnections() { o.fetcher.CloseIdleConnections() }

// findObject returns the object at a URL. It reports false if the URL is not one of
// a bucket in [Options.Buckets]. The object may still not be allowed.
func (o *Opener) findObject(u *url.URL) (object, bool) {
	if q := u.Query(); q.Has("X-Amz-Signature") || q.Has("X-Goog-Signature") || q.Has("Signature") {
		return object{}, false
	}
	version := u.Query().Get(versionID)
	for _, location := range o.locations {
		if u.Scheme == "s3" && u.Host == location.bucket {
			return object{location.bucket, strings.TrimPrefix(u.Path, "/"), version}, true
		}
		for _, e := range []endpoint{o.endpoint, o.public} {
			if key, ok := e.cutBucket(u, location.bucket); ok {
				return object{location.bucket, key, version}, true
			}
		}
	}
	return object{}, false
}

// checkObject returns the object at a URL if it may be opened. The error is an
// [exports.ForbiddenError].
func (o *Opener) checkObject(u *url.URL) (object, error) {
	found, ok := o.findObject(u)
	err := errors.New("the bucket is not allowed")
	if ok {
		err = o.check(u, found)
	}
	if err != nil {
		return object{}, &exports.ForbiddenError{Reason: err.Error()}
	}
	return found, o.fetcher.Check(o.endpoint.objectURL(found))
}

func (o *Opener) check(u *url.URL, found object) error {
	query, err := url.ParseQuery(u.RawQuery)
	versions := query[versionID]
	switch {
	case u.User != nil:
		return errors.New("the URL has user info")
	case u.Fragment != "":
		return errors.New("the URL has a fragment; write # in a key as %23")
	case u.RawQuery != "" && !o.versions:
		return errors.New("the URL has a query; write ? in a key as %3F")
	case err != nil, len(query) > 1, len(query) == 1 && (len(versions) != 1 || versions[0] == ""), u.ForceQuery:
		return errors.New("the URL has a query other than versionId; write ? in a key as %3F")
	}
	if err := checkKey(found.key); err != nil {
		return err
	}
	for _, location := range o.locations {
		if location.bucket == found.bucket && strings.HasPrefix(found.key, location.prefix) {
			return nil
		}
	}
	return errors.New("the prefix is not allowed")
}

// PublicURL implements [exports.Presigner]. The URL is valid for
// [Options.PresignLifetime], or until the credentials expire.
func (o *Opener) PublicURL(ctx context.Context, u *url.URL, fileName string) (string, error) {
	found, err := o.checkObject(u)
	if err != nil {
		return "", err
	}
	public, err := o.signer.presign(ctx, o.public.objectURL(found), fileName)
	if err != nil {
		return "", fmt.Errorf("%w: s3: presign %s: %w", exports.ErrFailed, exports.RedactURL(u.String()), err)
	}
	return public, nil
}

// Format implements [fmt.Formatter] for all verbs. It prints no credentials.
func (o *Opener) Format(f fmt.State, _ rune) { io.WriteString(f, "s3.Opener") }

// Format implements [fmt.Formatter] for all verbs. It prints no credentials.
func (Options) Format(f fmt.State, _ rune) { io.WriteString(f, "s3.Options") }

// Options configure an [Opener]. Buckets and Credentials are required.
type Options struct {
	// Buckets are the buckets whose objects may be opened. An entry is
	// bucket, or bucket/prefix for the keys that begin with prefix. A prefix
	// should end with a slash: plans/2 is also a prefix of plans/20/a.pdf.
	Buckets []string

	// Credentials are those of every request.
	Credentials aws.CredentialsProvider

	// Region is part of every signature; "us-east-1" if empty, which most
	// other object stores accept.
	Region string

	// Endpoint is the base URL of the object store. If it is empty, that is
	// AWS in Region, and VirtualHost is implied.
	Endpoint string

	// PublicEndpoint is the base URL in presigned URLs, for clients that do
	// not reach Endpoint; Endpoint if empty.
	PublicEndpoint string

	// VirtualHost puts the bucket before the host of an endpoint instead of
	// into the path, unless the bucket is no DNS label.
	VirtualHost bool

	// AllowVersions allows versionId in the query of a URL, which opens previous
	// versions of an object, deleted ones included.
	AllowVersions bool

	// PresignLifetime is how long a presigned URL is valid: 15 minutes if
	// zero, else 1 second to 7 days. Credentials that expire earlier end it.
	PresignLifetime time.Duration

	// Now is the clock of signatures; time.Now if nil. Object stores reject
	// signatures that are some minutes off.
	Now func() time.Time

	// Fetch configures requests. AllowedHosts, OnlyAllowed, MaxRedirects
	// and Sign are overwritten.
	Fetch fetch.Options
}
