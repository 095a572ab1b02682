package s3

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"example.com/canvasback/exports/fetch"
)

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
